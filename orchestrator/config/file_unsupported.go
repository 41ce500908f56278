//go:build !unix && !windows

package config

import "io/fs"

const openFlags = 0

// exposed cannot tell here, so no file is trusted.
func exposed(string, fs.FileInfo) (text, remedy string) {
	return "this system does not tell who can write it", ""
}

// private cannot tell either.
func private(string, fs.FileInfo) (text, remedy string) {
	return "this system does not tell whom it belongs to", ""
}
