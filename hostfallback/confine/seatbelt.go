package confine

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Seatbelt is what came of the profile on a Mac. It is there on every Mac, also
// where nothing was applied.
type Seatbelt struct {
	Layer             // applied: a file that the profile denies was refused to a program in it, and another was not
	Version    int    `json:"version"`
	Hash       string `json:"hash"`       // of the text of the profile
	Parameters int    `json:"parameters"` // paths that it was given
	Said       string `json:"said,omitempty"`
	// Measure is what the memory of a process means here: one of the Measure constants.
	Measure string `json:"measure"`
	// Members says that the system answers which processes are in the profile, as it
	// did for the runner: those are found whatever they did to hide.
	Members bool `json:"members"`
}

// What the memory of a process is measured by.
const (
	MeasureFootprint = "footprint" // what ending the process would give back, compressed memory included
	MeasureResident  = "resident"  // what is in memory at the moment
)

// Reasons why a profile was not applied.
const (
	CodeSeatbeltMissing = "seatbelt-missing"      // there is no sandbox-exec
	CodeSeatbeltNested  = "seatbelt-nested"       // brig itself runs in a profile, and macOS lets nobody into a second one
	CodeSeatbeltProfile = "seatbelt-profile"      // this macOS does not take the profile, or nothing can run in it
	CodeSeatbeltOpen    = "seatbelt-not-enforced" // what the profile denies was not refused
	CodeMacUnverified   = "macos-unverified"      // nobody has sent a report of the self-test from a Mac
)

// probed is what a program in the profile did: it was to print a file that it may
// read, and then one that it may not.
type probed struct {
	missing bool // there was no sandbox-exec to start
	late    bool // it did not end in time
	status  int
	out     string
	errors  string
}

// judge turns it into a layer. Only a refusal beside a success counts: a program
// that can do nothing proves nothing.
func (p probed) judge(may, mayNot string) Layer {
	switch {
	case p.missing:
		return Layer{Code: CodeSeatbeltMissing}
	case strings.Contains(p.out, mayNot):
		return Layer{Code: CodeSeatbeltOpen}
	case p.late:
		return Layer{Code: CodeSeatbeltProfile}
	case p.out == may && p.status != 0:
		return Layer{Applied: true}
	case strings.Contains(p.errors, "sandbox_apply") && strings.Contains(p.errors, "Operation not permitted"):
		return Layer{Code: CodeSeatbeltNested, Errno: "EPERM"}
	default:
		return Layer{Code: CodeSeatbeltProfile}
	}
}

// environmentOf reads the environment out of what kern.procargs2 answers: the
// number of arguments, the program, zeros, the arguments, the environment.
func environmentOf(raw []byte) []string {
	if len(raw) < 4 {
		return nil
	}
	left := int(int32(binary.LittleEndian.Uint32(raw)))
	_, rest, ok := bytes.Cut(raw[4:], []byte{0})
	if !ok {
		return nil
	}
	rest = bytes.TrimLeft(rest, "\x00")
	for ; left > 0; left-- {
		if _, rest, ok = bytes.Cut(rest, []byte{0}); !ok {
			return nil
		}
	}
	var out []string
	for len(rest) > 0 {
		var entry []byte
		// Behind the environment are strings of the kernel for the loader.
		if entry, rest, ok = bytes.Cut(rest, []byte{0}); !ok || len(entry) == 0 {
			break
		}
		out = append(out, string(entry))
	}
	return out
}
