package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// count is a whole number in a range.
type count struct {
	at       func(*Config) *int
	min, max int
	unset    bool // zero is possible and means that nothing is set
}

func (count) typ() string       { return "number" }
func (v count) allowed() string { return fmt.Sprintf("%d to %d", v.min, v.max) }
func (v count) literal(c Config) string {
	return strconv.Itoa(*v.at(&c))
}

func (v count) show(c Config) string {
	if n := *v.at(&c); n != 0 || !v.unset {
		return strconv.Itoa(n)
	}
	return ""
}

func (v count) decode(c *Config, raw any) *fault {
	n, ok := raw.(int64)
	if !ok {
		return wrongType(raw, "a whole number without quotes", "")
	}
	return v.set(c, n)
}

func (v count) parse(c *Config, text string) *fault {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return faultf("%s is not a whole number", brief(text))
	}
	return v.set(c, n)
}

func (v count) set(c *Config, n int64) *fault {
	if f := inRange(n, int64(v.min), int64(v.max), strconv.FormatInt(n, 10)); f != nil {
		return f
	}
	*v.at(c) = int(n)
	return nil
}

func (v count) check(c Config) *fault {
	n := *v.at(&c)
	if n == 0 && v.unset {
		return nil
	}
	return inRange(int64(n), int64(v.min), int64(v.max), strconv.Itoa(n))
}

func inRange(n, low, high int64, shown string) *fault {
	switch {
	case n < low && n == 0:
		return faultf("%s is too small, and it does not mean unlimited", shown)
	case n < low:
		return faultf("%s is too small", shown)
	case n > high:
		return faultf("%s is too large", shown)
	}
	return nil
}

// cores is a number of processor cores, kept in thousandths.
type cores struct {
	at       func(*Config) *int
	min, max int
}

func (cores) typ() string               { return "number" }
func (v cores) allowed() string         { return milli(v.min) + " to " + milli(v.max) }
func (v cores) show(c Config) string    { return milli(*v.at(&c)) }
func (v cores) literal(c Config) string { return milli(*v.at(&c)) }
func milli(n int) string                { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

func (v cores) decode(c *Config, raw any) *fault {
	switch n := raw.(type) {
	case int64:
		return v.set(c, float64(n))
	case float64:
		return v.set(c, n)
	}
	return wrongType(raw, "a number without quotes", "")
}

func (v cores) parse(c *Config, text string) *fault {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return faultf("%s is not a number", brief(text))
	}
	return v.set(c, n)
}

func (v cores) set(c *Config, n float64) *fault {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return faultf("that is not a number of cores")
	}
	shown := strconv.FormatFloat(n, 'g', -1, 64)
	m := math.Round(n * 1000)
	if f := inRange(int64(min(max(m, -1), 1e9)), int64(v.min), int64(v.max), shown); f != nil {
		return f
	}
	*v.at(c) = int(m)
	return nil
}

func (v cores) check(c Config) *fault {
	n := *v.at(&c)
	return inRange(int64(n), int64(v.min), int64(v.max), milli(n))
}

// duration is a time span with its unit.
type duration struct {
	at       func(*Config) *time.Duration
	min, max time.Duration
}

func (duration) typ() string               { return "duration" }
func (v duration) allowed() string         { return span(v.min) + " to " + span(v.max) }
func (v duration) show(c Config) string    { return span(*v.at(&c)) }
func (v duration) literal(c Config) string { return quote(v.show(c)) }

func (v duration) decode(c *Config, raw any) *fault {
	switch n := raw.(type) {
	case string:
		return v.parse(c, n)
	case int64:
		return wrongType(raw, "a duration with its unit", fmt.Sprintf(`"%ds"`, n))
	}
	return wrongType(raw, "a duration with its unit", `something like "30s"`)
}

func (v duration) parse(c *Config, text string) *fault {
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		f := faultf("%s is not a duration; write a number with ms, s, m or h", brief(text))
		if _, err := strconv.ParseFloat(text, 64); err == nil && len(text) < 20 {
			f.suggestion = fmt.Sprintf("did you mean %q?", text+"s")
		}
		return f
	}
	if f := inRange(int64(d), int64(v.min), int64(v.max), span(d)); f != nil {
		return f
	}
	*v.at(c) = d
	return nil
}

func (v duration) check(c Config) *fault {
	d := *v.at(&c)
	return inRange(int64(d), int64(v.min), int64(v.max), span(d))
}

// span writes a duration without the zeros that Go adds.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
