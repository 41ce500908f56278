package mcp

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"brig/orchestrator/api"
)

// What a result may show, in bytes of text after escaping. Clients cut at about 25000 tokens,
// and some count text and structured content both.
const (
	maxStdout    = 12 << 10
	maxStderr    = 6 << 10
	maxShown     = 6 << 10 // result, and each of displays
	maxTraceback = 6 << 10
	maxDisplays  = 8
	maxImages    = 6
	maxImage     = 3 << 20 // bytes of all images; clients refuse larger ones
	maxStreamed  = 640 << 10
)

// shown is a bounded piece of text.
type shown struct {
	text    string
	leftOut int64
}

// bound shows the beginning and the end of an output. where says where the rest is.
func bound(o api.Output, limit int, where string) shown {
	rest := o.Tail
	if o.DroppedBytes == 0 {
		rest = o.Text + o.Tail
		if text, used := head(rest, limit); used == len(rest) {
			return shown{text: text}
		}
	}
	first, used := head(o.Text, limit/2)
	if o.DroppedBytes == 0 {
		rest = rest[used:]
	}
	last, usedLast := tail(rest, limit/2)
	// Where bytes were replaced to make text, the text is longer than what was written.
	left := max(o.TotalBytes-int64(used+usedLast), 1)
	about := ""
	if o.Lossy {
		about = "about "
	}
	mark := fmt.Sprintf("\n[brig: %s%d of %d bytes are not shown here%s]\n", about, left, o.TotalBytes, where)
	return shown{text: first + mark + last, leftOut: left}
}

// cut shows the beginning and the end of a text that is there as a whole.
func cut(s string, limit int) string {
	return bound(api.Output{Text: s, TotalBytes: int64(len(s))}, limit, "").text
}

// head is as much of the beginning of s as fits in limit when it is made visible,
// and how many bytes of s that are.
func head(s string, limit int) (text string, used int) {
	var b strings.Builder
	for used < len(s) {
		v, size := visible(s[used:])
		if b.Len()+len(v) > limit {
			break
		}
		b.WriteString(v)
		used += size
	}
	return b.String(), used
}

// tail is head from the end.
func tail(s string, limit int) (text string, used int) {
	var parts []string
	length := 0
	for used < len(s) {
		rest := s[:len(s)-used]
		_, size := utf8.DecodeLastRuneInString(rest)
		v, _ := visible(rest[len(rest)-size:])
		if length += len(v); length > limit {
			break
		}
		parts = append(parts, v)
		used += size
	}
	slices.Reverse(parts)
	return strings.Join(parts, ""), used
}

// visible is the first character of s as a model or a terminal may have it: nothing
// that moves a cursor, colours, reorders text or cannot be seen.
func visible(s string) (text string, size int) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == '\r' && strings.HasPrefix(s, "\r\n"):
		return "\n", 2
	case r == '\n', r == '\t':
		return s[:size], size
	case r == '\r':
		return "\n", size
	case r < ' ', r >= 0x7f && r < 0xa0:
		return fmt.Sprintf(`\x%02x`, r), size
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029:
		return fmt.Sprintf(`\u%04x`, r), size
	case r >= 0xe0000 && r <= 0xe0fff:
		return fmt.Sprintf(`\U%08x`, r), size
	case r == utf8.RuneError && size <= 1:
		return "\ufffd", size
	}
	return s[:size], size
}

// clean is s made visible as a whole.
func clean(s string) string {
	text, _ := head(s, 4*len(s)+16)
	return text
}

// ends collects the beginning and the end of what comes, for a run that goes on.
type ends struct {
	head, tail []byte
	total      int64
	limit      int // of each
}

func (e *ends) add(b []byte) {
	e.total += int64(len(b))
	n := min(e.limit-len(e.head), len(b))
	e.head = append(e.head, b[:n]...)
	e.tail = append(e.tail, b[n:]...)
	if over := len(e.tail) - e.limit; over > e.limit {
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
}

// output is what was collected, as an output.
func (e *ends) output() api.Output {
	kept := int64(len(e.head) + len(e.tail))
	return api.Output{
		Text: strings.ToValidUTF8(string(e.head), "\ufffd"), Tail: strings.ToValidUTF8(string(e.tail), "\ufffd"),
		TotalBytes: e.total, KeptBytes: kept, DroppedBytes: e.total - kept,
	}
}
