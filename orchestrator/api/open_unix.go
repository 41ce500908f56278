//go:build unix

package api

import "syscall"

// nonBlock keeps a pipe in a file's place from being waited for.
const nonBlock = syscall.O_NONBLOCK
