package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"brig/orchestrator/wire"
)

// maxFigures bounds what one run may leave in a directory of the user's.
const maxFigures = 100

// figures saves pictures that code made into one directory. It never touches a
// file that exists.
type figures struct {
	dir   string
	next  int
	saved int
	names []string
	over  int // left out because of maxFigures
}

// pictures are the kinds that are saved, the best first, with their file endings.
func pictures() [][2]string {
	return [][2]string{
		{"image/png", "png"},
		{"image/svg+xml", "svg"},
		{"image/jpeg", "jpg"},
		{"image/gif", "gif"},
		{"image/webp", "webp"},
		{"application/pdf", "pdf"},
	}
}

// picture finds the best picture of a display, or nil.
func picture(d *wire.Display) (part *wire.Part, ending string) {
	for _, kind := range pictures() {
		for i := range d.Data {
			if d.Data[i].MIME == kind[0] {
				return &d.Data[i], kind[1]
			}
		}
	}
	return nil, ""
}

// save writes the picture and returns its name; an empty name without an error
// means that there were too many.
func (f *figures) save(part *wire.Part, ending string) (string, error) {
	if f.saved == maxFigures {
		f.over++
		return "", nil
	}
	file, err := f.create(ending)
	if err != nil {
		return "", err
	}
	name := file.Name()
	_, err = file.Write(part.Data)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	f.saved++
	f.names = append(f.names, name)
	return name, nil
}

// create makes the file with the next free number. O_EXCL neither follows a link
// nor takes a file that somebody else makes at the same moment.
func (f *figures) create(ending string) (*os.File, error) {
	for {
		f.next++
		name := filepath.Join(f.dir, fmt.Sprintf("brig-figure-%d.%s", f.next, ending))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}
