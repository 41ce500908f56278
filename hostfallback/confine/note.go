package confine

import (
	"fmt"
	"os"
)

// ReadNote reads a file of an instance's directory that its code may have replaced,
// where nothing confined it: what is no regular file could block the reader, or be
// somebody else's.
func ReadNote(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return os.ReadFile(path)
}
