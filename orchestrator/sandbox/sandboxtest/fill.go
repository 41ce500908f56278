package sandboxtest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Fill names a pattern of bytes that Go and Python make alike, of any length,
// so that a case can tell exactly which bytes of a large output arrived.
type Fill string

const (
	// Numbered is one endless line of 64 KiB blocks, each opened by its number.
	Numbered Fill = "numbered"
	// Random is bytes of every value without any structure.
	Random Fill = "random"
)

// block is what every pattern is made of, in bytes.
const block = 64 << 10

// Reader returns the first n bytes of the pattern.
func (f Fill) Reader(n int64) io.Reader {
	return io.LimitReader(&fillReader{fill: f}, n)
}

// Range returns size bytes of the pattern from offset on.
func (f Fill) Range(offset, size int64) []byte {
	r := &fillReader{fill: f, index: offset / block}
	out := make([]byte, size+offset%block)
	if _, err := io.ReadFull(r, out); err != nil {
		panic("BUG: a pattern ended: " + err.Error())
	}
	return out[offset%block:]
}

type fillReader struct {
	fill  Fill
	index int64
	rest  []byte
}

func (r *fillReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = r.fill.block(r.index)
		r.index++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// block makes one block; steps/write.py holds the same in Python.
func (f Fill) block(index int64) []byte {
	switch f {
	case Numbered:
		return []byte(fmt.Sprintf("%015d,", index) + strings.Repeat("x", block-16))
	case Random:
		out := make([]byte, 0, block)
		for i := index * (block / sha256.Size); len(out) < block; i++ {
			sum := sha256.Sum256([]byte(strconv.FormatInt(i, 10)))
			out = append(out, sum[:]...)
		}
		return out
	}
	panic(fmt.Sprintf("BUG: unknown pattern %q", f))
}
