package selftest

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// What these are for is tried on Linux only.

func devices() []string             { return []string{} }
func machineMounts() []string       { return nil }
func kernelBoot() string            { return "" }
func (y *yard) listenAbstract() any { return nil }

// serviceSockets are where an engine, an SSH agent and a display listen.
func serviceSockets(env map[string]string) []string {
	paths := []string{"/var/run/docker.sock", env["SSH_AUTH_SOCK"], strings.TrimPrefix(env["DOCKER_HOST"], "unix://"), env["DISPLAY"]}
	if home := env["HOME"]; home != "" {
		paths = append(paths, filepath.Join(home, ".docker/run/docker.sock"), filepath.Join(home, ".colima/default/docker.sock"))
	}
	absolute := paths[:0]
	for _, path := range paths {
		// One that this user may not connect to proves nothing when code may not either.
		if filepath.IsAbs(path) && unix.Access(path, unix.W_OK) == nil {
			absolute = append(absolute, path)
		}
	}
	return absolute
}

// inode is what the system notes of every change of a file, its attributes included.
func inode(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d %d %d.%d", st.Uid, st.Gid, st.Nlink, st.Ctimespec.Sec, st.Ctimespec.Nsec)
}
