package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// insertJSON puts a member into the object that the member section of the root
// holds, and leaves every other byte of the text as it is: the file is somebody
// else's. It returns the text itself where the member is there already.
func insertJSON(text []byte, section, name string, value json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := membersOf(text, 0)
	if err != nil {
		return nil, err
	}
	out := text
	at := root.find(section)
	switch {
	case at == nil:
		whole := json.RawMessage(`{` + jsonString(name) + `:` + string(value) + `}`)
		out = root.add(text, section, whole)
	case text[at.begin] != '{':
		return nil, fmt.Errorf("%q is no object there", section)
	default:
		inner, err := membersOf(text, at.begin)
		if err != nil {
			return nil, err
		}
		if old := inner.find(name); old == nil {
			out = inner.add(text, name, value)
		} else if !equalJSON(text[old.begin:old.end], value) {
			out = splice(text, old.begin, old.end, indented(value, inner.indent(text), inner.step(text, root)))
		}
	}
	return out, keptJSON(text, out, section, name)
}

// keptJSON makes sure that nothing but the one member changed.
func keptJSON(before, after []byte, section, name string) error {
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(after, &is)); err != nil {
		return fmt.Errorf("the changed text would not be JSON: %w", err)
	}
	for _, m := range []map[string]any{was, is} {
		if servers, ok := m[section].(map[string]any); ok {
			delete(servers, name)
			if len(servers) == 0 {
				delete(m, section)
			}
		}
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("the change would touch other entries")
	}
	return nil
}

// object is where the members of an object stand in a text.
type object struct {
	open, close int // offsets of the braces
	members     []member
}

type member struct {
	name            string
	key, begin, end int // offsets: of the name, and of the value
}

func (o object) find(name string) *member {
	for i := range o.members {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

// membersOf reads the object that begins at or after an offset.
func membersOf(text []byte, from int) (object, error) {
	d := json.NewDecoder(bytes.NewReader(text[from:]))
	offset := func() int { return from + int(d.InputOffset()) }
	t, err := d.Token()
	if err != nil {
		return object{}, notJSON(err)
	}
	if t != json.Delim('{') {
		return object{}, errors.New("it does not hold one JSON object")
	}
	o := object{open: offset() - 1}
	for d.More() {
		if t, err = d.Token(); err != nil {
			return o, notJSON(err)
		}
		m := member{name: t.(string)}
		if o.find(m.name) != nil { // which of the two counts is the reader's choice
			return o, fmt.Errorf("%q stands there twice", m.name)
		}
		m.key = bytes.LastIndexByte(text[:offset()-1], '"')
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return o, notJSON(err)
		}
		m.end = offset()
		m.begin = m.end - len(raw)
		o.members = append(o.members, m)
	}
	if _, err := d.Token(); err != nil {
		return o, notJSON(err)
	}
	o.close = offset() - 1
	if from == 0 {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return o, errors.New("something follows the JSON object")
		}
	}
	return o, nil
}

func notJSON(err error) error {
	return fmt.Errorf("it is not plain JSON (comments and trailing commas are not understood): %w", err)
}

// add puts a member at the end of an object, in the manner of those that are there.
func (o object) add(text []byte, name string, value json.RawMessage) []byte {
	if len(o.members) == 0 {
		outer := lineIndent(text, o.open)
		step := "  "
		body := "\n" + outer + step + jsonString(name) + ": " + indented(value, outer+step, step) + "\n" + outer
		return splice(text, o.open+1, o.close, body)
	}
	last := o.members[len(o.members)-1]
	if !o.broken(text) {
		return splice(text, last.end, last.end, ", "+jsonString(name)+": "+string(value))
	}
	indent := o.indent(text)
	return splice(text, last.end, last.end, ",\n"+indent+jsonString(name)+": "+indented(value, indent, o.step(text, o)))
}

// broken tells whether members stand on lines of their own.
func (o object) broken(text []byte) bool {
	return len(o.members) > 0 && bytes.IndexByte(text[o.open:o.members[0].begin], '\n') >= 0
}

// indent is what stands before the members.
func (o object) indent(text []byte) string {
	if len(o.members) == 0 {
		return ""
	}
	return lineIndent(text, o.members[0].begin)
}

// step is one level of indentation.
func (o object) step(text []byte, within object) string {
	for _, obj := range []object{within, o} {
		if step := strings.TrimPrefix(obj.indent(text), lineIndent(text, obj.open)); step != "" {
			return step
		}
	}
	return "  "
}

// lineIndent is the white space at the beginning of the line of an offset.
func lineIndent(text []byte, offset int) string {
	begin := bytes.LastIndexByte(text[:offset], '\n') + 1
	end := begin
	for end < len(text) && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return string(text[begin:end])
}

func indented(value json.RawMessage, prefix, step string) string {
	var b bytes.Buffer
	if json.Indent(&b, value, prefix, step) != nil {
		return string(value)
	}
	return b.String()
}

func jsonString(s string) string {
	b, _ := json.Marshal(s) // a string can always be written
	return string(b)
}

func splice(text []byte, begin, end int, with string) []byte {
	return append(append(bytes.Clone(text[:begin]), with...), text[end:]...)
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
