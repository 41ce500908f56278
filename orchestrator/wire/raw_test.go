package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// raw is a runner that speaks frame by frame and keeps to no rule.
type raw struct {
	t testing.TB
	r *Reader
	w io.Writer
}

func (x *raw) frame(kind FrameKind, stream uint32, payload []byte) {
	f := RawFrame{Kind: kind, Stream: stream, Payload: payload}
	_, _ = x.w.Write(f.append(nil)) // brig may have hung up already: that is the point
}

func (x *raw) json(text string)                { x.frame(KindControl, 0, []byte(text)) }
func (x *raw) data(stream uint32, text string) { x.frame(KindData, stream, []byte(text)) }
func (x *raw) end(stream uint32)               { x.frame(KindEnd, stream, nil) }

// until reads brig's frames up to the message of that type and returns its members.
func (x *raw) until(kind string) map[string]any {
	for {
		f, err := x.r.Next()
		if err != nil {
			return nil
		}
		if f.Kind != KindControl {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			x.t.Errorf("brig sent %q: %v", f.Payload, err)
		}
		if m["type"] == kind {
			return m
		}
	}
}

func (x *raw) greet() {
	x.until("hello")
	x.ready()
}

func (x *raw) ready() {
	payload, err := EncodeMessage(testReady())
	if err != nil {
		x.t.Error(err)
	}
	x.frame(KindControl, 0, payload)
}

// start answers hello and starts run r1.
func (x *raw) start() {
	x.greet()
	x.until("run")
	x.json(`{"type":"started","run":"r1"}`)
}

func exitOf(run string) string {
	return `{"type":"exit","run":"` + run + `","outcome":"ok","stdout":{"total":0,"kept":0,"dropped":0},` +
		`"stderr":{"total":0,"kept":0,"dropped":0},"state":"kept"}`
}

func display(role, mime string, size int, stream int) string {
	return fmt.Sprintf(`{"type":"display","run":"r1","role":%q,"bundle":[{"mime":%q,"size":%d,"stream":%d}]}`, role, mime, size, stream)
}

// against runs a Peer against script and then drains it; what Run returned is checked by the caller.
func against(t *testing.T, script func(x *raw), use func(p *Peer)) {
	t.Helper()
	before := runtime.NumGoroutine()
	pp := newPipes(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		x := &raw{t: t, r: NewReader(pp.runnerR), w: pp.runnerW}
		script(x)
		_ = pp.runnerW.Close()
		_, _ = io.Copy(io.Discard, pp.runnerR)
	}()
	p := NewPeer(pp.brigR, pp.brigW, PeerOptions{Close: pp.closeBrig})
	use(p)
	if err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	<-done
	_ = pp.closeRunner()
	settle(t, before)
}

// oneRun says hello and runs once. Whatever happens, it ends. The source is longer
// than its stream's credit, so that this stream stays open.
func oneRun(ctx context.Context, p *Peer, emit func(Event) error) (Exit, error) {
	if _, err := p.Hello(ctx, testHello()); err != nil {
		return Exit{}, err
	}
	return p.Run(ctx, Run{ID: "r1", Source: make([]byte, InitialCredit+1)}, emit)
}
