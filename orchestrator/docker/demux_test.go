package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/docker/docker/pkg/stdcopy"
)

func frame(stream byte, text string) []byte {
	header := make([]byte, frameHeader, frameHeader+len(text))
	header[0] = stream
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return append(header, text...)
}

func TestDemux(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 3*diagnosticBytes))
	in := bytes.Join([][]byte{
		frame(frameStdout, "one"), frame(frameStderr, long), frame(frameStdout, ""), frame(frameStderr, "\nfirst\nlast\x1b[31m\n"), frame(frameStdout, " two"),
	}, nil)
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(in), "byte by byte": iotest.OneByteReader(bytes.NewReader(in)), "with the end": iotest.DataErrReader(bytes.NewReader(in))} {
		d := &demux{r: r}
		got, err := io.ReadAll(d)
		if err != nil || string(got) != "one two" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if d.diagnostic() != "last[31m" || len(d.tail) > diagnosticBytes {
			t.Errorf("%s: diagnostic %q, %d bytes kept", name, d.diagnostic(), len(d.tail))
		}
	}
}

func TestDemuxViolations(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"header cut":    {frame(frameStdout, "x")[:4], io.ErrUnexpectedEOF},
		"payload cut":   {frame(frameStdout, "text")[:10], io.ErrUnexpectedEOF},
		"stderr cut":    {frame(frameStderr, "text")[:10], io.ErrUnexpectedEOF},
		"stdin":         {frame(0, "text"), errFraming},
		"not framed":    {[]byte("HTTP/1.1 500 nope\r\n"), errFraming},
		"engine's word": {frame(frameError, "disk is full"), nil},
	} {
		_, err := io.ReadAll(&demux{r: bytes.NewReader(c.in)})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDemux compares with the SDK's own reader wherever that one is content.
func FuzzDemux(f *testing.F) {
	f.Add(bytes.Join([][]byte{frame(1, "one"), frame(2, "two"), frame(1, "three")}, nil))
	f.Add(frame(3, "error"))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := io.ReadAll(&demux{r: bytes.NewReader(in)})
		if len(got) > len(in) {
			t.Fatal("more came out than went in")
		}
		if len(in) > 4096 || claims(in) > 1<<20 { // theirs allocates what a header claims
			return
		}
		var want, ignored bytes.Buffer
		if _, theirs := stdcopy.StdCopy(&want, &ignored, bytes.NewReader(in)); theirs == nil && err == nil && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q, the SDK reads %q", got, want.Bytes())
		}
	})
}

// claims is the largest length among the headers of in.
func claims(in []byte) (most uint64) {
	for uint64(len(in)) >= frameHeader {
		length := uint64(binary.BigEndian.Uint32(in[4:]))
		most = max(most, length)
		in = in[min(uint64(len(in)), frameHeader+length):]
	}
	return most
}
