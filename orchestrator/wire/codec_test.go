package wire

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
)

func goodFrames() []RawFrame {
	return []RawFrame{
		{KindControl, 0, []byte(`{"type":"started","run":"r1"}`)},
		{KindData, StreamStdout, []byte("hello\n")},
		{KindData, 4, bytes.Repeat([]byte("x"), MaxPayload)},
		{KindData, 4, nil},
		{KindEnd, 4, nil},
		{KindCredit, 3, []byte{0, 1, 0, 0}},
		{KindReset, 3, []byte("why")},
		{KindReset, 0xffffffff, nil},
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range goodFrames() {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	all := b.Bytes()
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "bytes": iotest.OneByteReader(bytes.NewReader(all)), "half": iotest.HalfReader(bytes.NewReader(all)),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		d := NewReader(r)
		for i, want := range goodFrames() {
			got, err := d.Next()
			if err != nil || got.Kind != want.Kind || got.Stream != want.Stream || !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
		}
		if _, err := d.Next(); err != io.EOF { //nolint:errorlint // the contract
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	for _, f := range []RawFrame{
		{0, 1, nil},
		{6, 1, nil},
		{KindControl, 0, nil},
		{KindControl, 1, []byte("{}")},
		{KindData, 0, []byte("x")},
		{KindData, 1, make([]byte, MaxPayload+1)},
		{KindEnd, 1, nil},
		{KindEnd, 3, []byte("x")},
		{KindCredit, 3, []byte{0, 0, 0, 0}},
		{KindCredit, 3, []byte{1}},
		{KindReset, 3, make([]byte, MaxReason+1)},
		{KindReset, 3, []byte{0xff}},
	} {
		var b bytes.Buffer
		if err := WriteFrame(&b, f); err == nil || b.Len() != 0 {
			t.Errorf("kind %d, stream %d, %d bytes: %v, %d bytes written", f.Kind, f.Stream, len(f.Payload), err, b.Len())
		}
		// What the writer refuses, the reader refuses too.
		raw := f.append(nil)
		if _, err := ReadFrame(bytes.NewReader(raw)); !errors.As(err, new(*ProtocolError)) {
			t.Errorf("kind %d, stream %d, %d bytes: read: %v", f.Kind, f.Stream, len(f.Payload), err)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	var b bytes.Buffer
	if err := WriteFrame(&b, RawFrame{KindData, 1, []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if f, err := NewReader(bytes.NewReader(b.Bytes()[:n])).Next(); !errors.Is(err, want) || f.Kind != 0 || f.Payload != nil {
			t.Errorf("%d bytes: %+v, %v", n, f, err)
		}
		if f, err := ReadFrame(bytes.NewReader(b.Bytes()[:n])); !errors.Is(err, want) || f.Kind != 0 || f.Payload != nil {
			t.Errorf("%d bytes: ReadFrame: %+v, %v", n, f, err)
		}
	}
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken)).Next(); !errors.Is(err, broken) {
		t.Errorf("transport: %v", err)
	}
}

func TestForgedLengthCostsNothing(t *testing.T) {
	header := []byte{magic0, magic1, byte(KindData), 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff}
	d := NewReader(bytes.NewReader(header))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a frame that never came", n)
	}
}

func TestWriterWritesWholeFrames(t *testing.T) {
	r, w := io.Pipe()
	e := NewWriter(w)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 50 {
				if err := e.Write(RawFrame{KindData, uint32(i + 1), bytes.Repeat([]byte{byte(i)}, 1000*i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writers.Wait(); _ = w.Close() }()
	d := NewReader(r)
	count := 0
	for {
		f, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i := int(f.Stream - 1)
		if !bytes.Equal(f.Payload, bytes.Repeat([]byte{byte(i)}, 1000*i)) {
			t.Fatalf("frame of writer %d is torn", i)
		}
		count++
	}
	if count != 400 {
		t.Errorf("%d frames", count)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, frame := range goodFrames() {
		frame.Payload = frame.Payload[:min(len(frame.Payload), 100)] // long inputs make a slow fuzzer
		b := frame.append(nil)
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(b, b...))
	}
	f.Add([]byte{magic0, magic1, 2, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, rest := NewReader(bytes.NewReader(b)), bytes.NewReader(b)
		at := 0
		for {
			frame, err := d.Next()
			again, errAgain := ReadFrame(rest)
			if (err == nil) != (errAgain == nil) {
				t.Fatalf("Next: %v, ReadFrame: %v", err, errAgain)
			}
			if err != nil {
				if frame.Kind != 0 || frame.Stream != 0 || frame.Payload != nil || again.Kind != 0 || again.Stream != 0 || again.Payload != nil {
					t.Fatalf("a frame with an error: %+v, %+v", frame, again)
				}
				return
			}
			var encoded bytes.Buffer
			if err := WriteFrame(&encoded, frame); err != nil {
				t.Fatalf("what was read is refused: %v", err)
			}
			end := at + encoded.Len()
			if end > len(b) || !bytes.Equal(encoded.Bytes(), b[at:end]) || !bytes.Equal(again.append(nil), b[at:end]) {
				t.Fatalf("bytes from %d came back different", at)
			}
			at = end
		}
	})
}
