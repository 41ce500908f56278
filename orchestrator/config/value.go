package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// value is the type of a key: how it is read, written and checked. Each one
// knows its field of Config.
type value interface {
	typ() string                         // for people
	allowed() string                     // for people
	decode(c *Config, raw any) *fault    // what the TOML decoder gave
	parse(c *Config, text string) *fault // from a variable
	show(c Config) string                // as `config show` prints it
	literal(c Config) string             // as it stands in a TOML file
	check(c Config) *fault
}

// fault is what is wrong with one value.
type fault struct{ text, suggestion string }

func faultf(format string, args ...any) *fault { return &fault{text: fmt.Sprintf(format, args...)} }

// wrongType is the fault of a TOML value of another type.
func wrongType(raw any, want, example string) *fault {
	f := faultf("%s where %s is wanted", describe(raw), want)
	if example != "" {
		f.suggestion = "write " + example
	}
	return f
}

func describe(raw any) string {
	switch raw.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	}
	return "a list"
}

// choice is one word of a few.
type choice[T ~string] struct {
	at    func(*Config) *T
	words []T
}

func (v choice[T]) all() []string {
	out := make([]string, len(v.words))
	for i, w := range v.words {
		out[i] = string(w)
	}
	return out
}

func (choice[T]) typ() string               { return "word" }
func (v choice[T]) allowed() string         { return strings.Join(v.all(), ", ") }
func (v choice[T]) show(c Config) string    { return string(*v.at(&c)) }
func (v choice[T]) literal(c Config) string { return quote(v.show(c)) }

func (v choice[T]) decode(c *Config, raw any) *fault {
	text, ok := raw.(string)
	if !ok {
		return wrongType(raw, "a word in quotes", "")
	}
	return v.parse(c, text)
}

func (v choice[T]) parse(c *Config, text string) *fault {
	*v.at(c) = T(text)
	return v.check(*c)
}

func (v choice[T]) check(c Config) *fault {
	have := v.show(c)
	for _, w := range v.words {
		if string(w) == have {
			return nil
		}
	}
	return &fault{text: fmt.Sprintf("unknown value %s", brief(have)), suggestion: meant(have, v.all())}
}

// truth is true or false.
type truth struct{ at func(*Config) *bool }

func (truth) typ() string               { return "true or false" }
func (truth) allowed() string           { return "true, false" }
func (v truth) show(c Config) string    { return strconv.FormatBool(*v.at(&c)) }
func (v truth) literal(c Config) string { return v.show(c) }
func (truth) check(Config) *fault       { return nil }

func (v truth) decode(c *Config, raw any) *fault {
	b, ok := raw.(bool)
	if !ok {
		return wrongType(raw, "true or false without quotes", "")
	}
	*v.at(c) = b
	return nil
}

func (v truth) parse(c *Config, text string) *fault {
	switch text {
	case "true", "1":
		*v.at(c) = true
		return nil
	case "false", "0":
		*v.at(c) = false
		return nil
	}
	f := faultf("unknown value %s", brief(text))
	switch strings.ToLower(text) {
	case "yes", "on", "y", "t", "enabled", "enable":
		f.suggestion = `did you mean "true"?`
	case "no", "off", "n", "f", "disabled", "disable":
		f.suggestion = `did you mean "false"?`
	default:
		f.suggestion = meant(text, []string{"true", "false"})
	}
	return f
}

// text is a free string that a function may narrow.
type text struct {
	at    func(*Config) *string
	want  string // for people
	empty string // what an empty one stands for
	valid func(string) *fault
}

func (text) typ() string               { return "text" }
func (v text) allowed() string         { return v.want }
func (v text) literal(c Config) string { return quote(*v.at(&c)) }

func (v text) show(c Config) string { return *v.at(&c) }

func (v text) decode(c *Config, raw any) *fault {
	s, ok := raw.(string)
	if !ok {
		return wrongType(raw, "text in quotes", "")
	}
	return v.parse(c, s)
}

func (v text) parse(c *Config, s string) *fault {
	*v.at(c) = s
	return v.check(*c)
}

func (v text) check(c Config) *fault {
	s := *v.at(&c)
	if s == "" {
		if v.empty != "" {
			return nil
		}
		return faultf("it is empty")
	}
	if len(s) > 4096 {
		return faultf("it is longer than 4096 bytes")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return faultf("it contains a control character or broken text")
		}
	}
	return v.valid(s)
}

// quote writes a TOML string. Go's escapes are TOML's for all that check lets through.
func quote(s string) string { return strconv.Quote(s) }

// brief quotes a value for a message, shortened.
func brief(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}
