package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bytesize is a number of bytes.
type bytesize struct {
	at       func(*Config) *int64
	min, max int64
}

func (bytesize) typ() string               { return "size" }
func (v bytesize) allowed() string         { return size(v.min) + " to " + size(v.max) }
func (v bytesize) show(c Config) string    { return size(*v.at(&c)) }
func (v bytesize) literal(c Config) string { return quote(v.show(c)) }

func (v bytesize) decode(c *Config, raw any) *fault {
	switch n := raw.(type) {
	case int64:
		return v.set(c, n, strconv.FormatInt(n, 10))
	case string:
		return v.parse(c, n)
	}
	return wrongType(raw, "a size", `something like "512MiB"`)
}

func (v bytesize) parse(c *Config, text string) *fault {
	n, f := parseSize(text)
	if f != nil {
		return f
	}
	return v.set(c, n, text)
}

func (v bytesize) set(c *Config, n int64, shown string) *fault {
	if f := inRange(n, v.min, v.max, shown); f != nil {
		return f
	}
	*v.at(c) = n
	return nil
}

func (v bytesize) check(c Config) *fault {
	n := *v.at(&c)
	return inRange(n, v.min, v.max, size(n))
}

type unit struct {
	name  string
	bytes int64
}

// units of sizes, the largest first.
func units() []unit {
	return []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// size writes a number of bytes in the largest unit that divides it.
func size(n int64) string {
	for _, u := range units() {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// parseSize reads "512MiB", "1.5 GiB", "100 B" and plain bytes. Units that mean
// one thing to some and another to others (GB, G) are refused with the one to write.
func parseSize(text string) (int64, *fault) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	number, name := text[:end], strings.TrimSpace(text[end:])
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || len(number) > 20 {
		return 0, faultf("%s is not a size; write a number with KiB, MiB or GiB", brief(text))
	}
	scale := int64(0)
	for _, u := range units() {
		if name == u.name || (name == "" && u.bytes == 1) {
			scale = u.bytes
		}
	}
	if scale == 0 {
		f := faultf("%s has no unit that is known here", brief(text))
		for _, u := range units() {
			first := u.name[:1]
			if up := strings.ToUpper(name); up == first || up == first+"B" || up == strings.ToUpper(u.name) {
				f.suggestion = fmt.Sprintf("did you mean %q?", number+u.name)
			}
		}
		return 0, f
	}
	if !strings.Contains(number, ".") {
		whole, err := strconv.ParseInt(number, 10, 64)
		if err != nil || whole > math.MaxInt64/scale {
			return 0, faultf("%s is too large", brief(text))
		}
		return whole * scale, nil
	}
	if n *= float64(scale); n >= 1<<62 {
		return 0, faultf("%s is too large", brief(text))
	}
	return int64(n), nil
}
