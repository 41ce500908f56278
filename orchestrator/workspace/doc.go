// Package workspace is the one way in which brig itself touches the files of a
// session: uploads, downloads, listings, artifacts, quotas.
//
// User code runs in the same directory at the same moment, so every name and
// every file in it belongs to an opponent. The package therefore resolves names
// through an os.Root only, opens without blocking, decides on the opened handle
// and never on a name it looked at before, and bounds what it reads, lists and
// walks. What it hands out is a regular file with exactly one link, no larger
// than the caller allowed, even if it grows while it is read.
//
// Links inside the workspace are followed as long as they stay inside; a link
// that leads out is ErrEscapes, wherever in the name it stands. A write replaces
// the last name, whatever it is, and follows nothing.
//
// # Owners and modes
//
// A file that Put makes has mode 0600 unless the caller asks for other
// permission bits; set-id and sticky bits are always dropped, the umask is not
// applied. It belongs to the user that brig runs as. Where code runs as another
// user (a non-root user of a container, say) one of two things makes the file
// readable to it: brig runs as root, then new files and directories get the
// owner of the workspace directory; or the caller asks for a mode that lets
// others read, then new parent directories are as open as the file.
//
// What the package does not do: it does not confine the code (backends do), it
// does not count what the code itself writes while it runs, it takes no locks
// between processes, and it cannot tell a file that code wrote from one that a
// person put there.
package workspace
