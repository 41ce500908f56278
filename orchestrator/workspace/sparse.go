package workspace

import (
	"bytes"
	"io"
	"os"
)

// block is what a hole is made of at the least: file systems allocate no less.
const block = 64 << 10

// copySparse copies r into a fresh file and leaves out blocks that hold only
// zeros, so that a file made of holes takes no more room outside than inside.
func copySparse(f *os.File, r io.Reader) error {
	buffer, zeros := make([]byte, block), make([]byte, block)
	for size := int64(0); ; {
		n, err := fill(r, buffer)
		hole := bytes.Equal(buffer[:n], zeros[:n])
		var werr error
		if hole {
			_, werr = f.Seek(int64(n), io.SeekCurrent)
		} else {
			_, werr = f.Write(buffer[:n])
		}
		if werr != nil {
			return werr
		}
		size += int64(n)
		switch {
		case err == io.EOF && hole:
			return f.Truncate(size) // the length that a last hole did not write
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads until buffer is full or r ends.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = r.Read(buffer[n:])
		n += m
	}
	return n, err
}
