package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxData bounds the JSON of Entry.Data; what is larger is replaced by its size and hash.
	maxData = 1 << 20
	// maxActor bounds Entry.Actor in bytes.
	maxActor = 1 << 10
	// maxLine bounds a line: everything in it may be six times as long when escaped.
	maxLine   = 6*(maxData+maxActor) + 1<<10
	hashDigit = 2 * sha256.Size
	hashMark  = `,"hash":"`
	tailBytes = len(hashMark) + hashDigit + len(`"}`)
)

// genesis is what stands for the line before the first.
var genesis = strings.Repeat("0", hashDigit)

// Head is the last line of a chain. The zero value is the head of an empty one.
type Head struct {
	Number uint64 `json:"number"`
	Hash   string `json:"hash"`
}

// String is the head in one line, as ParseHead reads it.
func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Number, h.prev()) }

func (h Head) prev() string {
	if h.Number == 0 {
		return genesis
	}
	return h.Hash
}

// ParseHead reads what String wrote; empty text is the zero Head.
func ParseHead(text string) (Head, error) {
	if text == "" {
		return Head{}, nil
	}
	number, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !isHash(hash) || (n == 0) != (hash == genesis) || strconv.FormatUint(n, 10) != number {
		return Head{}, errors.New("it is no head of an audit log: a head is a number, a colon and 64 hexadecimal digits")
	}
	if n == 0 {
		return Head{}, nil
	}
	return Head{n, hash}, nil
}

func isHash(s string) bool {
	if len(s) != hashDigit {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// body is a Line without its hash.
type body struct {
	Number uint64          `json:"number"`
	Time   string          `json:"time"`
	Kind   Kind            `json:"kind"`
	Actor  string          `json:"actor"`
	Data   json.RawMessage `json:"data"`
	Prev   string          `json:"prev"`
}

const timeForm = "2006-01-02T15:04:05.000000Z"

// encode makes the line that follows head.
func encode(e Entry, head Head, now time.Time) (line []byte, next Head, err error) {
	data, err := encodeData(e.Data)
	if err != nil {
		return nil, head, err
	}
	if !e.Kind.valid() {
		return nil, head, fmt.Errorf("BUG: %q is no kind of a line", e.Kind)
	}
	return seal(body{head.Number + 1, now.UTC().Format(timeForm), e.Kind, cut(e.Actor, maxActor), data, head.prev()})
}

// seal is the one way in which a line is written, for writers and for whoever
// checks that a line could have been written so.
func seal(b body) (line []byte, h Head, err error) {
	if b.Data, err = plain(b.Data); err != nil {
		return nil, h, err
	}
	text, err := plain(b)
	if err != nil {
		return nil, h, err
	}
	sum := sha256.Sum256(text[:len(text)-1]) // without the closing brace
	h = Head{b.Number, hex.EncodeToString(sum[:])}
	return append(text[:len(text)-1], hashMark+h.Hash+"\"}\n"...), h, nil
}

func encodeData(v any) (json.RawMessage, error) {
	data, err := plain(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("BUG: a line's data: %w", err)
	case len(data) == 0 || data[0] != '{':
		return nil, errors.New("BUG: a line's data is no object")
	case len(data) > maxData:
		sum := sha256.Sum256(data)
		return shorten(data, hex.EncodeToString(sum[:]))
	}
	return data, nil
}

// shorten keeps of data that is too large what says what it was.
func shorten(data []byte, sum string) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	kept := map[string]any{"omitted": map[string]any{"bytes": len(data), "sha256": sum}}
	for name, value := range all {
		if len(value) <= maxData/64 && len(kept) < 32 {
			kept[name] = value
		}
	}
	return plain(kept)
}

// plain is v as one line of JSON that is ASCII without a control character.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r >= 0x20 && r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out, nil
}

func (k Kind) valid() bool {
	for _, c := range []byte(k) {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return len(k) > 0 && len(k) <= 32
}

// cut shortens text to at most n bytes of whole characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// follows checks that a line, without its end, follows head: by its hashes and its
// number alone, which is cheap.
func follows(line []byte, head Head) (Head, error) {
	if len(line) < tailBytes || !bytes.HasPrefix(line[len(line)-tailBytes:], []byte(hashMark)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return head, errors.New("it is no line of this log")
	}
	said := string(line[len(line)-2-hashDigit : len(line)-2])
	content := line[:len(line)-tailBytes]
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != said {
		return head, errors.New("it was altered: its hash does not fit")
	}
	number, err := numberOf(line)
	if err != nil {
		return head, err
	}
	if number != head.Number+1 {
		return head, &gapError{after: head.Number, number: number}
	}
	if !bytes.HasSuffix(content, []byte(`,"prev":"`+head.prev()+`"`)) {
		return head, errors.New("it does not follow the line before: that one was altered, or is another one")
	}
	return Head{number, said}, nil
}

// gapError says that the numbers of two lines that stand together do not.
type gapError struct{ after, number uint64 }

func (e *gapError) Error() string {
	if e.number > e.after+1 {
		return span(e.after+1, e.number-1) + " missing before it"
	}
	return fmt.Sprintf("its number %d does not follow %d", e.number, e.after)
}

const numberMark = `{"number":`

func numberOf(line []byte) (uint64, error) {
	rest, found := bytes.CutPrefix(line, []byte(numberMark))
	digits, _, more := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if !found || !more || err != nil || n == 0 {
		return 0, errors.New("it has no number")
	}
	return n, nil
}

// decode reads a line, without its end, and makes sure that it is written in the
// one way in which lines are: no member twice, none unknown, nothing unescaped.
func decode(line []byte) (Line, error) {
	var b struct {
		body
		Hash string `json:"hash"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Line{}, fmt.Errorf("it cannot be read: %w", err)
	}
	again, head, err := seal(b.body)
	if err != nil || !b.Kind.valid() || !bytes.Equal(bytes.TrimSuffix(again, []byte("\n")), line) {
		return Line{}, errors.New("it is not written as brig writes lines")
	}
	at, err := time.Parse(timeForm, b.Time)
	if err != nil {
		return Line{}, errors.New("its time cannot be read")
	}
	return Line{b.Number, at, b.Kind, b.Actor, b.Data, b.Prev, head.Hash}, nil
}
