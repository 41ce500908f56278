package service_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
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
