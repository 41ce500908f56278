package selftest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"
)

const (
	settleTime = 30 * time.Millisecond  // for what is on its way when the attempts are over
	patience   = 300 * time.Millisecond // for what an attempt says it has done
)

// plot is the part of a yard that one run of attempts goes for: its own canaries
// and decoys, so that what one run does is not taken for another's.
type plot struct {
	yard   *yard
	name   string
	token  string
	secret string
	public string // the secret of what everybody may read, which the attempts are not told
	dir    string
	decoys *decoys // nil: there are none
	leaks  leaks
	made   map[string]string // by probe: how its directory looked
	told   map[string]any

	memory []byte // the secret at a place in brig's own memory
	settle sync.Once
}

// plot makes the targets of one run of attempts; name tells it from the others.
func (y *yard) plot(name string, probes []Probe) (*plot, error) {
	p := &plot{yard: y, name: name, token: random(8), secret: "brig-canary-" + random(16), public: "brig-public-" + random(16), made: map[string]string{}}
	p.dir = filepath.Join(y.dir, p.token)
	y.mu.Lock()
	y.plots = append(y.plots, p)
	y.mu.Unlock()
	if err := p.expect(); err != nil {
		return nil, fmt.Errorf("make the canaries of the self-test: %w", err)
	}
	p.told = maps.Clone(y.shared)
	maps.Copy(p.told, map[string]any{
		"control": name == "control", "token": p.token, "secret": p.secret, "outside": filepath.Join(p.dir, "outside"),
		"home": y.options.Home, "brig": p.self(), "public": "", "left": p.left(), "others": p.others(),
		"limits": map[string]any{}, "decoy": nil, "decoys": map[string]any{},
		"shm": "", "sysv": -1, "env": "", "fd": -1,
	})
	frame, err := p.forgery()
	if err != nil {
		return nil, fmt.Errorf("make the forgery of the self-test: %w", err)
	}
	p.told["frame"] = frame
	p.tellHome(y.options.Home)
	if p.told["control"] == true {
		p.told["real"], p.told["running"] = []string{}, running("")
	}
	for _, dir := range []string{p.dir, filepath.Join(p.dir, "outside"), p.scratch()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the canaries of the self-test: %w", err)
		}
	}
	if err := p.plant(probes); err != nil {
		return nil, fmt.Errorf("make the canaries of the self-test: %w", err)
	}
	if err := p.publish(probes); err != nil {
		return nil, fmt.Errorf("make the canaries of the self-test: %w", err)
	}
	if err := p.leak(); err != nil {
		return nil, fmt.Errorf("make the canaries of the self-test: %w", err)
	}
	if err := p.startDecoys(probes); err != nil {
		return nil, fmt.Errorf("start the decoys of the self-test: %w", err)
	}
	return p, nil
}

// self is what T says of brig itself, where the secret is in memory as well.
func (p *plot) self() map[string]any {
	p.memory = []byte(p.secret)
	return map[string]any{"pid": os.Getpid(), "address": uint64(uintptr(unsafe.Pointer(&p.memory[0]))), "length": len(p.memory)}
}

func (p *plot) scratch() string { return filepath.Join(p.dir, "scratch") }

// targets are what the program of this plot is told, as T. The map is the caller's.
func (p *plot) targets() map[string]any { return maps.Clone(p.told) }

// sight is what was seen of one attempt from outside. It is asked when the run of
// attempts is over.
func (p *plot) sight(pr Probe, o Outcome) Sight {
	var look func() bool
	switch pr.Witness {
	case Listener:
		look = func() bool { return p.yard.heard.knows(p.token, pr.ID) }
	case Canary:
		look = func() bool { return p.came(o) || p.changed(pr.ID) }
	case Decoy:
		look = func() bool { return p.came(o) || p.decoys.shows(pr.ID, pr.Trace) }
	case Counter, Clock:
		if o.Seen != "" {
			return o.Seen
		}
		return SeenNone
	default:
		return SeenNone
	}
	p.settle.Do(func() { time.Sleep(settleTime) })
	wait := time.Duration(0)
	if o.OK {
		wait = patience
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if look() {
			return SeenYes
		}
		if time.Since(began) >= wait {
			return SeenNo
		}
	}
}

// came tells whether a secret of the plot is in what the attempt brought back.
func (p *plot) came(o Outcome) bool {
	return strings.Contains(o.Detail, p.secret) || strings.Contains(o.Detail, p.public)
}

// close ends the decoys and takes back what is not in the yard's directory alone.
func (p *plot) close() error {
	return errors.Join(p.decoys.close(), p.unleak(), p.clear())
}

func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails: it ends the program instead
	return hex.EncodeToString(b)
}
