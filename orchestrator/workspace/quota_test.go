package workspace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"brig/orchestrator/workspace"
)

// Puts of every fate at the same time: those that go through, those that the
// quota stops in the middle, those whose caller goes away. Whatever the order is,
// what they leave stays within the quota, and nothing stays reserved.
func TestPutQuotaStress(t *testing.T) {
	const quota, each, puts, turns = 1 << 20, 256 << 10, 12, 20
	for turn := range turns {
		s := newStage(t, workspace.Limits{Bytes: quota})
		for i := range 40 { // something to measure
			s.write(t, fmt.Sprintf("d%d/f", i), "")
		}
		base, _, err := s.Usage()
		must(t, err)
		if base >= each {
			t.Fatalf("empty files take %d bytes", base)
		}
		var wg sync.WaitGroup
		for i := range puts {
			wg.Go(func() {
				for n := range 3 {
					var content io.Reader = bytes.NewReader(make([]byte, each))
					if rand.IntN(2) == 0 {
						content = io.MultiReader(io.LimitReader(content, int64(rand.IntN(each))), iotest.ErrReader(io.ErrUnexpectedEOF))
					}
					_, err := s.Put(fmt.Sprintf("p%d-%d", i, n), content, 0)
					if err != nil && !errors.Is(err, workspace.ErrQuota) && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("put: %v", err)
					}
				}
			})
		}
		wg.Wait()
		used, _, err := s.Usage()
		if err != nil || used > quota {
			t.Fatalf("turn %d: the puts take %d bytes of %d, %v", turn, used, quota, err)
		}
		if n, puts := workspace.Held(s.Workspace); n != 0 || puts != 0 {
			t.Fatalf("turn %d: %d bytes of %d puts are still reserved", turn, n, puts)
		}
		wantNoTemp(t, s.dir)
		// What failed is not held against those who come later.
		for used+each <= quota {
			if _, err := s.Put(fmt.Sprintf("after-%d", used), bytes.NewReader(make([]byte, each)), 0); err != nil {
				t.Fatalf("turn %d: %d of %d bytes are taken: %v", turn, used, quota, err)
			}
			used, _, err = s.Usage()
			must(t, err)
		}
	}
}

// A put whose caller is slow keeps its room, and keeps nobody else from putting.
func TestPutSideBySide(t *testing.T) {
	s := newStage(t, workspace.Limits{Bytes: 1 << 20})
	r, slow := io.Pipe()
	first := make(chan error, 1)
	go func() {
		_, err := s.Put("slow", r, 0)
		first <- err
	}()
	half := bytes.Repeat([]byte("x"), 300_000)
	_, err := slow.Write(half) // returns when the put has read it all
	must(t, err)
	if _, err := s.Put("quick", bytes.NewReader(half), 0); err != nil {
		t.Fatalf("beside a slow put: %v", err)
	}
	_, err = s.Put("too-much", bytes.NewReader(make([]byte, 600_000)), 0)
	wantKind(t, err, workspace.ErrQuota)
	_, err = slow.Write(half)
	must(t, err)
	must(t, slow.Close())
	must(t, <-first)
	if got, err := s.read("slow"); err != nil || got != string(half)+string(half) {
		t.Fatalf("the slow put wrote %d bytes, %v", len(got), err)
	}
}

// A file that carries the name of an unfinished one, but is another, counts.
func TestPutCountsAnImpostor(t *testing.T) {
	s := newStage(t, workspace.Limits{Bytes: 1 << 20})
	r, slow := io.Pipe()
	first := make(chan error, 1)
	go func() {
		_, err := s.Put("slow", r, 0)
		first <- err
	}()
	_, err := slow.Write([]byte("x"))
	must(t, err)
	entries, _, err := s.List("", 0)
	must(t, err)
	if len(entries) != 1 || !strings.HasPrefix(entries[0].Path, ".brig-put-") {
		t.Fatalf("while one put is unfinished there is %v", paths(entries))
	}
	s.write(t, "d/"+entries[0].Path, strings.Repeat("x", 900_000))
	_, err = s.Put("more", bytes.NewReader(make([]byte, 200_000)), 0)
	wantKind(t, err, workspace.ErrQuota)
	must(t, slow.Close())
	must(t, <-first)
}
