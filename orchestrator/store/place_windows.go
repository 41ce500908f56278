package store

import "io/fs"

// notOurs does not judge access lists: the directories of a profile are closed
// to other users unless somebody opened them on purpose.
func notOurs(fs.FileInfo, fs.FileMode) string { return "" }

// links is not known without opening the file.
func links(fs.FileInfo) int { return 1 }

// syncDir is not needed or not known here: a name is on the disk when the system says so.
func syncDir(string) error { return nil }
