//go:build !windows

package hostfallback

import "errors"

// isWindows says which promise the host sandbox of this system makes.
const isWindows = false

// onNT is for Windows.
func (o Options) onNT(string) (path, source string, err error) { return "", "", errors.ErrUnsupported }
