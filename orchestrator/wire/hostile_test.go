package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestHostileRunner(t *testing.T) {
	big := strings.Repeat("x", MaxPayload)
	for name, script := range map[string]func(x *raw){
		"magic": func(x *raw) { x.start(); _, _ = x.w.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) },
		"kind":  func(x *raw) { x.start(); x.frame(6, 1, nil) },
		"forged length": func(x *raw) {
			x.start()
			_, _ = x.w.Write([]byte{magic0, magic1, 2, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
		},
		"length beyond by one":  func(x *raw) { x.start(); x.data(1, big+"x") },
		"flags":                 func(x *raw) { x.start(); _, _ = x.w.Write([]byte{magic0, magic1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0}) },
		"control on a stream":   func(x *raw) { x.start(); x.frame(KindControl, 1, []byte("{}")) },
		"data on control":       func(x *raw) { x.start(); x.data(0, "{}") },
		"empty control":         func(x *raw) { x.start(); x.json("") },
		"end of stdout":         func(x *raw) { x.start(); x.end(1) },
		"end with payload":      func(x *raw) { x.start(); x.frame(KindEnd, 4, []byte("x")) },
		"short credit":          func(x *raw) { x.start(); x.frame(KindCredit, 3, []byte{1}) },
		"no credit":             func(x *raw) { x.start(); x.frame(KindCredit, 3, []byte{0, 0, 0, 0}) },
		"credit overflow":       func(x *raw) { x.greet(); x.until("run"); x.frame(KindCredit, 3, []byte{0xff, 0, 0, 0}) },
		"credit for nothing":    func(x *raw) { x.start(); x.frame(KindCredit, 99, []byte{0, 0, 0, 1}) },
		"credit on own stream":  func(x *raw) { x.start(); x.frame(KindCredit, 4, []byte{0, 0, 0, 1}) },
		"reset of nothing":      func(x *raw) { x.start(); x.frame(KindReset, 99, nil) },
		"reset of own nothing":  func(x *raw) { x.start(); x.frame(KindReset, 4, nil) },
		"reset, long":           func(x *raw) { x.start(); x.frame(KindReset, 3, []byte(big[:MaxReason+1])) },
		"reset, bad text":       func(x *raw) { x.start(); x.frame(KindReset, 3, []byte{0xff}) },
		"data on brig's stream": func(x *raw) { x.start(); x.data(3, "x") },
		"data on closed stream": func(x *raw) {
			x.start()
			x.json(display("figure", "a/b", 1, 4))
			x.data(4, "x")
			x.end(4)
			x.data(4, "x")
		},
		"end twice":          func(x *raw) { x.start(); x.json(display("figure", "a/b", 0, 4)); x.end(4); x.end(4) },
		"unannounced stream": func(x *raw) { x.start(); x.data(4, "x") },
		"stream of brig's":   func(x *raw) { x.start(); x.json(display("figure", "a/b", 1, 5)) },
		"stream reused": func(x *raw) {
			x.start()
			x.json(display("figure", "a/b", 0, 4))
			x.end(4)
			x.json(display("figure", "a/b", 0, 4))
		},
		"stream ids go back": func(x *raw) {
			x.start()
			x.json(display("figure", "a/b", 0, 8))
			x.json(display("figure", "a/b", 0, 6))
		},
		"fixed stream announced": func(x *raw) { x.start(); x.json(display("figure", "a/b", 1, 2)) },
		"too many streams": func(x *raw) {
			x.start()
			for i := range MaxStreams + 1 {
				x.json(display("figure", "a/b", 1, 4+2*i))
			}
		},
		"beyond credit": func(x *raw) {
			x.greet()
			id := x.until("call")["id"]
			x.json(fmt.Sprintf(`{"type":"reply","id":%q,"out":4}`, id))
			for range InitialCredit/MaxPayload + 1 {
				x.data(4, big)
			}
		},
		"display too long":      func(x *raw) { x.start(); x.json(display("figure", "a/b", 3, 4)); x.data(4, "1234") },
		"display too short":     func(x *raw) { x.start(); x.json(display("figure", "a/b", 3, 4)); x.data(4, "12"); x.end(4) },
		"display beyond bundle": func(x *raw) { x.start(); x.json(display("figure", "a/b", MaxBundle+1, 4)) },
		"display beyond bound": func(x *raw) {
			x.start()
			x.json(display("figure", "a/b", 1<<20, 4))
			x.json(display("figure", "a/b", 1, 6))
		},
		"display negative":     func(x *raw) { x.start(); x.json(display("figure", "a/b", -1, 4)) },
		"display of no run":    func(x *raw) { x.start(); x.json(strings.Replace(display("figure", "a/b", 1, 4), "r1", "r2", 1)) },
		"display before start": func(x *raw) { x.greet(); x.until("run"); x.json(display("figure", "a/b", 1, 4)) },
		"display role":         func(x *raw) { x.start(); x.json(display("poster", "a/b", 1, 4)) },
		"display mime":         func(x *raw) { x.start(); x.json(display("figure", "a b/\x01", 1, 4)) },
		"display of nothing":   func(x *raw) { x.start(); x.json(`{"type":"display","run":"r1","role":"figure","bundle":[]}`) },
		"display, text and size": func(x *raw) {
			x.start()
			x.json(`{"type":"display","run":"r1","role":"result","bundle":[{"mime":"text/plain","size":9,"text":"1"}]}`)
		},
		"display, text and stream": func(x *raw) {
			x.start()
			x.json(`{"type":"display","run":"r1","role":"result","bundle":[{"mime":"text/plain","size":1,"text":"1","stream":4}]}`)
		},
		"display, parts": func(x *raw) {
			x.start()
			x.json(`{"type":"display","run":"r1","role":"result","bundle":[` + strings.Repeat(`{"mime":"a/b","size":0,"text":""},`, MaxParts) + `{"mime":"a/b","size":0,"text":""}]}`)
		},
		"empty displays for ever": func(x *raw) {
			x.start()
			for range MaxDisplays + 1 {
				x.json(`{"type":"display","run":"r1","role":"result","bundle":[{"mime":"text/plain","size":0,"text":""}]}`)
			}
		},
		"ready twice":          func(x *raw) { x.greet(); x.ready() },
		"exit before ready":    func(x *raw) { x.until("hello"); x.json(exitOf("r1")) },
		"exit for another run": func(x *raw) { x.start(); x.json(exitOf("r2")) },
		"started for another":  func(x *raw) { x.greet(); x.until("run"); x.json(`{"type":"started","run":"r2"}`) },
		"started twice":        func(x *raw) { x.start(); x.json(`{"type":"started","run":"r1"}`) },
		"gap of another run":   func(x *raw) { x.start(); x.json(`{"type":"gap","run":"r2","name":"stdout","bytes":1}`) },
		"gap negative":         func(x *raw) { x.start(); x.json(`{"type":"gap","run":"r1","name":"stdout","bytes":-1}`) },
		"gap of stdin":         func(x *raw) { x.start(); x.json(`{"type":"gap","run":"r1","name":"stdin","bytes":1}`) },
		"reply nobody asked":   func(x *raw) { x.start(); x.json(`{"type":"reply","id":"c9"}`) },
		"unknown type":         func(x *raw) { x.start(); x.json(`{"type":"eval"}`) },
		"brig's own type":      func(x *raw) { x.start(); x.json(`{"type":"run","id":"r1","code":4,"size":1}`) },
		"no type":              func(x *raw) { x.start(); x.json(`{"run":"r1"}`) },
		"type of another kind": func(x *raw) { x.start(); x.json(`{"type":1}`) },
		"array":                func(x *raw) { x.start(); x.json(`[]`) },
		"null":                 func(x *raw) { x.start(); x.json(`null`) },
		"two objects":          func(x *raw) { x.start(); x.json(exitOf("r1") + exitOf("r1")) },
		"half an object":       func(x *raw) { x.start(); x.json(exitOf("r1")[:40]) },
		"deep": func(x *raw) {
			x.start()
			x.json(`{"type":"exit","x":` + strings.Repeat("[", 30000) + strings.Repeat("]", 30000) + `}`)
		},
		"negative count": func(x *raw) {
			x.start()
			x.json(strings.Replace(exitOf("r1"), `"kept":0,"dropped":0`, `"kept":-1,"dropped":1`, 1))
		},
		"count does not add up": func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"total":0`, `"total":1`, 1)) },
		"count overflows":       func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"total":0`, `"total":1e99`, 1)) },
		"count missing":         func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"stderr"`, `"stdwhat"`, 1)) },
		"count null": func(x *raw) {
			x.start()
			x.json(`{"type":"exit","run":"r1","outcome":"ok","stdout":null,"stderr":null,"state":"kept"}`)
		},
		"unknown outcome":       func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"ok"`, `"fine"`, 1)) },
		"unknown state":         func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"kept"}`, `"sold"}`, 1)) },
		"status 256":            func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"ok"`, `"exit","status":256`, 1)) },
		"ok with a signal":      func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"ok"`, `"ok","signal":9`, 1)) },
		"exception without one": func(x *raw) { x.start(); x.json(strings.Replace(exitOf("r1"), `"ok"`, `"exception"`, 1)) },
		"log outside": func(x *raw) {
			x.start()
			x.json(strings.Replace(exitOf("r1"), `"ok"`, `"ok","log":{"path":"../../etc/passwd","bytes":1}`, 1))
		},
		"silence and leave": func(x *raw) { x.start() },
		"half a header":     func(x *raw) { x.start(); _, _ = x.w.Write([]byte{magic0, magic1, 1}) },
		"half a frame": func(x *raw) {
			x.start()
			f := RawFrame{Kind: KindControl, Payload: []byte(exitOf("r1"))}
			b := f.append(nil)
			_, _ = x.w.Write(b[:len(b)-1])
		},
		"exit, display missing": func(x *raw) {
			x.start()
			x.json(display("figure", "a/b", 1, 4))
			x.json(exitOf("r1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			against(t, script, func(p *Peer) {
				if name == "beyond credit" {
					if _, err := p.Hello(t.Context(), testHello()); err != nil {
						t.Fatal(err)
					}
					// The writer does not take a thing, so that nothing is granted.
					block, released := make(chan struct{}), p.Done()
					go func() { <-released; close(block) }()
					_, err := p.Call(t.Context(), Control{Op: OpGet}, nil, writerFunc(func(b []byte) (int, error) { <-block; return 0, os.ErrClosed }))
					checkViolation(t, p, err)
					return
				}
				exit, err := oneRun(t.Context(), p, func(Event) error { return nil })
				if err == nil {
					t.Fatalf("a success: %+v", exit)
				}
				checkLost(t, p, err, name)
			})
		})
	}
	// The control of all of the above: the same run, answered well.
	against(t, func(x *raw) { x.start(); x.json(exitOf("r1")); x.until("never") }, func(p *Peer) {
		if _, err := oneRun(t.Context(), p, func(Event) error { return nil }); err != nil {
			t.Errorf("control: %v", err)
		}
	})
}

func checkViolation(t *testing.T, p *Peer, err error) {
	t.Helper()
	var broken *ProtocolError
	<-p.Done()
	if err == nil || !errors.As(p.Err(), &broken) {
		t.Errorf("%v, connection: %v", err, p.Err())
	}
}

func checkLost(t *testing.T, p *Peer, err error, name string) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) {
		t.Errorf("not lost: %v", err)
	}
	switch name {
	case "silence and leave", "exit, display missing":
		if !errors.Is(err, io.EOF) {
			t.Errorf("want io.EOF: %v", err)
		}
	case "half a header", "half a frame":
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("want io.ErrUnexpectedEOF: %v", err)
		}
	default:
		checkViolation(t, p, err)
	}
}

func TestTolerated(t *testing.T) {
	// Members and codes of a later version, a part that was aborted, and what was under way.
	against(t, func(x *raw) {
		x.start()
		x.json(`{"type":"gap","run":"r1","name":"stderr","bytes":5,"why":{"new":[1]}}`)
		x.json(display("figure", "a/b", 5, 4))
		x.data(4, "12")
		x.frame(KindReset, 4, []byte("the interpreter died"))
		x.json(display("figure", "a/b", 2, 6))
		x.json(exitOf("r1")) // it waits for the display
		x.data(6, "12")
		x.end(6)
		x.frame(KindCredit, 3, []byte{0, 0, 0, 9})
		x.until("never")
	}, func(p *Peer) {
		var got record
		if _, err := oneRun(t.Context(), p, got.emit); err != nil {
			t.Error(err)
		}
		if want := "gap(r1) 2 5 false\ndisplay(r1) figure a/b:2\n"; got.String() != want {
			t.Errorf("got %s", got.String())
		}
	})
}

func TestLastWordsCount(t *testing.T) {
	for range 200 {
		against(t, func(x *raw) {
			x.greet()
			x.json(fmt.Sprintf(`{"type":"reply","id":%q,"body":{"a":1}}`, x.until("call")["id"]))
		}, func(p *Peer) {
			if _, err := p.Hello(t.Context(), testHello()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Call(t.Context(), Control{Op: OpPing}, nil, nil); err != nil {
				t.Fatalf("the reply came before the end: %v", err)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	against(t, func(x *raw) {
		x.until("hello")
		x.json(`{"type":"ready","version":7,"python":{"may":"look different"}}`)
	}, func(p *Peer) {
		_, err := p.Hello(t.Context(), testHello())
		var other *VersionError
		if !errors.As(err, &other) || other.Ours != Version || other.Theirs != 7 {
			t.Errorf("hello: %v", err)
		}
		<-p.Done()
		if !errors.As(p.Err(), &other) {
			t.Errorf("peer: %v", p.Err())
		}
	})
}

func TestReadyBeforeHello(t *testing.T) {
	against(t, (*raw).ready, func(p *Peer) {
		<-p.Done()
		_, err := p.Hello(t.Context(), testHello())
		checkViolation(t, p, err)
	})
}

func TestExitOfNoRun(t *testing.T) {
	against(t, func(x *raw) { x.greet(); x.json(exitOf("r1")) }, func(p *Peer) {
		_, _ = p.Hello(t.Context(), testHello()) // it may be overtaken by the violation
		<-p.Done()
		_, err := p.Run(t.Context(), Run{ID: "r1"}, nil)
		checkViolation(t, p, err)
	})
}

func TestEndlessDisplay(t *testing.T) {
	// The display never ends, so the exit does not count; the caller's patience does.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	against(t, func(x *raw) {
		x.start()
		x.json(display("figure", "a/b", 1000, 4))
		x.json(exitOf("r1"))
		x.data(1, "late\n")
		cancel()
		x.until("never")
	}, func(p *Peer) {
		_, err := oneRun(ctx, p, func(Event) error { return nil })
		var lost *LostError
		if !errors.As(err, &lost) || !errors.Is(err, errNoExit) {
			t.Errorf("run: %v", err)
		}
	})
}

func TestRunnerThatDoesNotRead(t *testing.T) {
	// stuck is closed when a write has begun that nobody will ever read.
	start := func(t *testing.T) (p *Peer, stuck chan struct{}, end func()) {
		before := runtime.NumGoroutine()
		r, fromRunner := io.Pipe()
		toRunner, w := io.Pipe()
		go func() { (&raw{t: t, r: NewReader(toRunner), w: fromRunner}).greet() }()
		writes := 0
		stuck = make(chan struct{})
		p = NewPeer(r, writerFunc(func(b []byte) (int, error) {
			if writes++; writes == 2 {
				close(stuck)
			}
			return w.Write(b)
		}), PeerOptions{Close: func() error { return errors.Join(r.Close(), w.Close()) }})
		if _, err := p.Hello(t.Context(), testHello()); err != nil {
			t.Fatal(err)
		}
		return p, stuck, func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			settle(t, before)
		}
	}
	put := func(ctx context.Context, p *Peer) error {
		_, err := p.Call(ctx, Control{Op: OpPut}, bytes.NewReader(make([]byte, 4<<20)), nil)
		return err
	}
	t.Run("call given up", func(t *testing.T) {
		p, stuck, end := start(t)
		defer end()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-stuck; cancel() }()
		if err := put(ctx, p); !errors.Is(err, context.Canceled) {
			t.Errorf("call: %v", err)
		}
	})
	t.Run("run given up", func(t *testing.T) {
		p, stuck, end := start(t)
		defer end()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-stuck; cancel() }()
		_, err := p.Run(ctx, Run{ID: "r1", Source: make([]byte, 4<<20)}, nil)
		var lost *LostError
		if !errors.As(err, &lost) || !errors.Is(err, errNoExit) {
			t.Errorf("run: %v", err)
		}
	})
	t.Run("close", func(t *testing.T) {
		p, stuck, end := start(t)
		defer end()
		result := make(chan error)
		go func() { result <- put(t.Context(), p) }()
		go func() {
			_, err := p.Run(t.Context(), Run{ID: "r1", Source: make([]byte, 4<<20)}, nil)
			result <- err
		}()
		<-stuck
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-result; !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
	})
	t.Run("too many questions", func(t *testing.T) {
		p, stuck, end := start(t)
		defer end()
		ctx, cancel := context.WithCancel(t.Context())
		asking := make(chan error)
		for range 2 * maxCalls {
			go func() { asking <- put(ctx, p) }()
		}
		<-stuck
		cancel()
		for range 2 * maxCalls {
			if err := <-asking; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	})
}
