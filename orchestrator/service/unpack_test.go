package service_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"brig/orchestrator/api"
)

// sparseTar is a tar of one member with a hole of that size, as PAX headers of GNU tar
// say it, and one ordinary member after it. Go writes no such headers: they are made by hand.
func sparseTar(t *testing.T, hole int64) []byte {
	t.Helper()
	var out bytes.Buffer
	record := func(key, value string) string {
		n := len(key) + len(value) + 3
		for n != len(fmt.Sprint(n))+len(key)+len(value)+3 {
			n = len(fmt.Sprint(n)) + len(key) + len(value) + 3
		}
		return fmt.Sprintf("%d %s=%s\n", n, key, value)
	}
	records := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.name", "hole") +
		record("GNU.sparse.size", fmt.Sprint(hole)) + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", fmt.Sprintf("%d,1", hole-1))
	block := func(name string, kind byte, content string) {
		h := make([]byte, 512)
		copy(h, name)
		copy(h[100:], "0000644\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00", len(content)))
		copy(h[136:], "00000000000\x00")
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		copy(h[148:], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		out.Write(h)
		out.WriteString(content)
		out.Write(make([]byte, (512-len(content)%512)%512))
	}
	block("x", tar.TypeXHeader, records)
	block("GNUSparseFile.0/hole", tar.TypeReg, "!")
	block("after", tar.TypeReg, "here")
	out.Write(make([]byte, 1024))
	r := tar.NewReader(bytes.NewReader(out.Bytes()))
	h, err := r.Next()
	if err != nil || h.Name != "hole" || h.Size != hole {
		t.Fatalf("control: %+v, %v", h, err)
	}
	return out.Bytes()
}

func unpackSession(t *testing.T) (api.Brig, string) {
	t.Helper()
	b := newRig(t).operator()
	x, _, err := b.OpenSession(t.Context(), api.SessionRequest{Limits: &api.LimitsRequest{WorkspaceBytes: 4 << 20, FileBytes: 2 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	return b, x.ID
}

// A member with holes is refused by name, and what follows it is unpacked.
func TestSparseMembersAreRefused(t *testing.T) {
	b, session := unpackSession(t)
	got, err := b.WriteArchive(t.Context(), session, "", api.Tar, bytes.NewReader(sparseTar(t, 1<<20)))
	if err != nil || got.Files != 1 || got.Bytes != 4 || len(got.Skipped) != 1 || got.Skipped[0].Name != "hole" || !strings.Contains(got.Skipped[0].Reason, "sparse") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Members that replace each other give nothing back to what one archive may unpack to.
func TestMembersAreCountedTogether(t *testing.T) {
	for _, size := range []int{200 << 10, 1 << 20} { // put beside others, and alone
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for range 7 << 20 / size {
			err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "same", Size: int64(size), Mode: 0o600})
			if err == nil {
				_, err = io.WriteString(w, strings.Repeat("x", size))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b, session := unpackSession(t)
		_, err := b.WriteArchive(t.Context(), session, "", api.Tar, &out)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.CodeQuota || !strings.Contains(p.Detail, "members") {
			t.Errorf("%d: %v", size, err)
		}
	}
}

// announced is a body that says how long it is.
type announced struct {
	io.Reader
	size int64
}

func (a announced) Size() int64 { return a.size }

// reading calls begin when it is read, and then waits for what comes.
type reading struct {
	begin func()
	io.Reader
}

func (r reading) Read(b []byte) (int, error) {
	r.begin()
	return r.Reader.Read(b)
}

// A zip is put aside within what the workspace has room for, beside it, and few at once.
func TestZipsArePutAside(t *testing.T) {
	r := newRig(t)
	limits := &api.LimitsRequest{WorkspaceBytes: 1 << 20, FileBytes: 1 << 20}
	put := func(b api.Brig, session string, content io.Reader) api.Code {
		_, err := b.WriteArchive(t.Context(), session, "", api.Zip, content)
		var p *api.Problem
		if !errors.As(err, &p) {
			t.Errorf("%v", err)
			return ""
		}
		return p.Code
	}
	open := func(b api.Brig) string {
		x, _, err := b.OpenSession(t.Context(), api.SessionRequest{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	agent := r.agent("agent")
	session := open(agent)
	read := false
	if code := put(agent, session, announced{reading{func() { read = true }, strings.NewReader("x")}, 2 << 20}); code != api.CodeQuota || read {
		t.Errorf("announced too large: %s, read: %v", code, read)
	}
	if code := put(agent, session, io.LimitReader(endless{}, 1<<30)); code != api.CodeQuota {
		t.Errorf("too large, not announced: %s", code)
	}
	var ends []*io.PipeWriter
	var done sync.WaitGroup
	hold := func(b api.Brig, session string) {
		from, to := io.Pipe()
		ends = append(ends, to)
		begun := make(chan struct{})
		var once sync.Once
		done.Go(func() {
			if code := put(b, session, reading{func() { once.Do(func() { close(begun) }) }, from}); code != api.CodeMalformed {
				t.Errorf("held: %s", code)
			}
		})
		<-begun
	}
	full := func(what string, b api.Brig, session string) {
		if code := put(b, session, strings.NewReader("x")); code != api.CodeTooMany {
			t.Errorf("%s: %s", what, code)
		}
	}
	hold(agent, session)
	hold(agent, session)
	full("a third of a credential", agent, session)
	other := r.agent("other")
	its := open(other)
	hold(other, its)
	hold(other, its)
	third := r.agent("third")
	full("a fifth of agents", third, open(third))
	hold(r.operator(), session) // has some of its own
	for _, to := range ends {
		_ = to.Close()
	}
	done.Wait()
	if code := put(third, open(third), strings.NewReader("x")); code != api.CodeMalformed {
		t.Errorf("afterwards: %s", code)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
