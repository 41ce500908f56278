//go:build darwin || freebsd

package server

import "golang.org/x/sys/unix"

// solLocal is SOL_LOCAL, the level of options of unix sockets.
const solLocal = 0

// credentials are the user at the other end of a unix socket; which process is not told.
func credentials(fd int) (uid, pid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, 0, err
	}
	return int(cred.Uid), 0, nil
}
