package confine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const reader = `
import os
for name in %q.split():
    if not os.path.exists(name): continue
    try: held = os.listdir(name) if os.path.isdir(name) else open(name, "rb").read(1)
    except OSError as e: print(name, "is refused"); continue
    print(name, "tells" if held else "is empty")
for name in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "mounts", "self/status"):
    if not open("/proc/" + name).read(): print(name, "is missing")
print("done")`

// TestHiddenProc: what /proc tells about the machine beside its measures is hidden
// wherever there is a view of files of its own, and nowhere else.
func TestHiddenProc(t *testing.T) {
	needPython(t)
	needWhole(t)
	program := fmt.Sprintf(reader, strings.Join(hiddenProc(), " "))
	read := func(change func(*Plan), kernel ...string) string {
		p := basePlan(t, python, "-I", "-c", program)
		if change != nil {
			change(&p)
		}
		i := launch(t, p, kernel...)
		i.started()
		i.wait()
		return i.out.String()
	}
	for name, kernel := range map[string][]string{"own root": nil, "shared root": {answers("pivot_root", unix.EPERM)}} {
		if out := read(nil, kernel...); strings.Contains(out, "tells") || strings.Contains(out, "missing") || !strings.Contains(out, "done") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if told, err := os.ReadFile("/proc/interrupts"); err != nil || len(told) == 0 {
		return // there is nothing to hide, as in a container
	}
	if out := read(func(p *Plan) { p.Namespace = false }); !strings.Contains(out, "/proc/interrupts tells") {
		t.Errorf("control: %s", out)
	}
}
