package selftest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"

	"brig/orchestrator/sandbox"
)

// ThisMachine describes the machine that brig runs on, now.
func ThisMachine() Machine {
	boot, kernel := system()
	return Machine{BootID: boot, OS: goos, Arch: runtime.GOARCH, Kernel: kernel, UID: os.Getuid()}
}

// Policy is the digest of what a backend forecasts that it would enforce, and with
// what: see Subject.Identity. When it changes, an earlier report is about something else.
func Policy(kind sandbox.Kind, identity string, forecast []sandbox.Layer) string {
	type row struct{ ID, State, Mechanism, Code string }
	rows := make([]row, 0, len(forecast))
	for _, l := range forecast {
		rows = append(rows, row{string(l.ID), string(l.State), l.Mechanism, l.Code})
	}
	raw, err := json.Marshal(struct {
		Kind     sandbox.Kind
		Identity string
		Rows     []row
		// The probes themselves: more of them make an earlier report incomplete.
		Probes []string
	}{kind, identity, rows, ids()})
	if err != nil {
		panic("BUG: forecast rows do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func ids() []string {
	var out []string
	for _, p := range Catalogue() {
		out = append(out, p.ID)
	}
	return out
}
