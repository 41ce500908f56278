package service

import (
	"strings"
	"unicode/utf8"

	"brig/orchestrator/api"
	"brig/orchestrator/wire"
)

const (
	// displayBytes bounds what is kept of the displays of one run, in bytes as they
	// were shown; displayCount is how many.
	displayBytes = 4 << 20
	displayCount = 256
)

// text turns the pieces of one stream into text. A character that is cut by the end
// of a piece waits for the next.
type text struct{ held []byte }

// chunk is what can be told now; ok is false where that is nothing.
func (t *text) chunk(data []byte, last bool) (c api.Chunk, ok bool) {
	all := append(t.held, data...)
	t.held = nil
	if !last {
		cut := len(all) - broken(all)
		t.held = append([]byte(nil), all[cut:]...)
		all = all[:cut]
	}
	if len(all) == 0 {
		return api.Chunk{}, false
	}
	var lossy bool
	if c.Text, lossy = decode(all); lossy {
		c.Base64 = append([]byte(nil), all...)
	}
	return c, true
}

// broken is how many bytes at the end may be the beginning of a character.
func broken(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// decode is the text that bytes are, and whether that is not exactly so.
func decode(p []byte) (s string, lossy bool) {
	if utf8.Valid(p) {
		return string(p), false
	}
	return strings.ToValidUTF8(string(p), "\uFFFD"), true
}

// kept is one stream of a run: what came before the first gap, and what came after.
type kept struct {
	head, tail []byte
	gap        bool
}

func (k *kept) add(p []byte) {
	if k.gap {
		k.tail = append(k.tail, p...)
	} else {
		k.head = append(k.head, p...)
	}
}

func (k *kept) output(c wire.Count) api.Output {
	out := api.Output{TotalBytes: c.Total, KeptBytes: c.Kept, DroppedBytes: c.Dropped, Incomplete: c.Incomplete}
	var one, two bool
	out.Text, one = decode(k.head)
	out.Tail, two = decode(k.tail)
	if out.Lossy = one || two; out.Lossy {
		out.Base64 = append(append([]byte(nil), k.head...), k.tail...)
	}
	return out
}

// shorten cuts a stream to so many bytes, half of them from its end.
func (k *kept) shorten(most int, c wire.Count) wire.Count {
	have := len(k.head) + len(k.tail)
	if have <= most {
		return c
	}
	all := append(append([]byte(nil), k.head...), k.tail...)
	head, tail := all[:most/2], all[have-(most-most/2):]
	head = head[:len(head)-broken(head)]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) && len(tail) > most/2-utf8.UTFMax {
		tail = tail[1:]
	}
	k.head, k.tail, k.gap = head, tail, true
	lost := int64(have - len(head) - len(tail))
	c.Kept, c.Dropped = c.Kept-lost, c.Dropped+lost
	return c
}

// displayed is what was shown during a run, bounded.
type displayed struct {
	all     []api.Display
	bytes   int
	dropped int // displays of which something is missing
}

// add keeps what there is room for: of a display with several representations
// perhaps only the small ones. It returns what is kept; ok is false for nothing.
func (d *displayed) add(w *wire.Display) (out api.Display, ok bool) {
	out = api.Display{Role: string(w.Role), Data: []api.DisplayPart{}}
	whole := len(d.all) < displayCount
	for _, p := range w.Data {
		if len(d.all) >= displayCount || d.bytes+len(p.Data) > displayBytes {
			whole = false
			continue
		}
		d.bytes += len(p.Data)
		part := api.DisplayPart{MIME: p.MIME}
		if textual(p.MIME) && utf8.Valid(p.Data) {
			part.Text = string(p.Data)
		} else {
			part.Base64 = append([]byte(nil), p.Data...)
		}
		out.Data = append(out.Data, part)
	}
	if !whole {
		d.dropped++
	}
	if len(out.Data) == 0 && !whole {
		return out, false
	}
	d.all = append(d.all, out)
	return out, true
}
