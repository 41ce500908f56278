package private

import "io/fs"

// notOurs does not judge access lists: the directories of a profile are closed
// to other users unless somebody opened them on purpose.
func notOurs(fs.FileInfo, fs.FileMode) string { return "" }

// links is not known without opening the file.
func links(fs.FileInfo) int { return 1 }

// SyncDir is not needed here: the file system keeps its directories by itself.
func SyncDir(string) error { return nil }
