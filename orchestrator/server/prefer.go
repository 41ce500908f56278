package server

import (
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest time that a GET waits for an end.
const maxWait = 45 * time.Second

// preference is what brig knows of the header Prefer (RFC 7240).
type preference struct {
	async bool
	wait  time.Duration
	waits bool
}

// PreferPart is the header on requests that can be answered early or late.
type PreferPart struct {
	Prefer string `header:"Prefer" maxLength:"256" doc:"RFC 7240: respond-async, wait=SECONDS (at most 45); others are ignored" example:"respond-async, wait=10"`
}

// preferred reads the header. What it does not understand it ignores, as the RFC says.
func (p PreferPart) preferred() preference {
	var got preference
	for part := range strings.SplitSeq(p.Prefer, ",") {
		token, _, _ := strings.Cut(part, ";")
		name, value, _ := strings.Cut(token, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			got.async = true
		case "wait":
			if got.waits { // the first one counts
				continue
			}
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				continue
			}
			got.waits = true
			got.wait = min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return got
}

// applied is the header Preference-Applied.
func (p preference) applied(async bool) string {
	var done []string
	if async && p.async {
		done = append(done, "respond-async")
	}
	if p.waits {
		done = append(done, "wait="+strconv.Itoa(int(p.wait/time.Second)))
	}
	return strings.Join(done, ", ")
}
