package runner

import (
	"testing"

	"brig/orchestrator/wire"
)

// breaking interrupts the n-th instruction that an event loop runs by itself from
// now on, or leaves with status 7 where there are not so many.
const breaking = `import asyncio, signal, sys
loops = sys.modules["brigrunner.loops"]
class Break:
    def __init__(self, n):
        self.left = n
        frame = sys._getframe(1)
        while frame is not None:
            self.into(frame, "call", None)
            if self.within(frame): frame.f_trace = self.at
            frame = frame.f_back
        sys.settrace(self.into)
    def within(self, frame):
        return str(frame.f_globals.get("__name__")).startswith(("asyncio.", "selectors"))
    def into(self, frame, event, argument):
        if self.within(frame):
            frame.f_trace_opcodes = True
            return self.at
    def at(self, frame, event, argument):
        if event == "opcode" and self.left and loops.between(frame):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)
        return self.at
async def spin(breaks):
    sys.settrace(None)
    if breaks.left: sys.exit(7)
    while True: pass
async def sleep(breaks):
    await asyncio.sleep(0)
    if breaks.left: sys.exit(7)
    await asyncio.sleep(1000)
`

// TestInterruptLoop: an interrupt that comes while asyncio itself runs, at
// whichever of its instructions, reaches the code that it is for: no step of a
// task is lost, and no clean-up waits for one that was.
func TestInterruptLoop(t *testing.T) {
	cases := map[string]string{
		"spin":     "b = Break(%d)\nawait asyncio.sleep(0)\nawait spin(b)",
		"sleep":    "await sleep(Break(%d))",
		"children": "b = Break(%d)\nawait asyncio.gather(sleep(b), sleep(b))",
		"run":      "async def main():\n  b = Break(%d)\n  await asyncio.sleep(0)\n  await spin(b)\nasyncio.run(main())",
		"runs":     "async def main():\n  b = Break(%d)\n  await asyncio.gather(sleep(b), sleep(b))\nasyncio.run(main())",
	}
	each(t, func(t *testing.T, p interpreter) {
		for name, source := range cases {
			r := start(t, p) // each: what is left of gathered tasks stays in a session's loop
			r.ok(breaking + "kept = 1")
			n, tried := 1, 0
			for ; ; n += 5 {
				end := r.run(sprintf(source, n))
				if end.Outcome == wire.OutcomeExit && end.Status == 7 {
					if n > 20 { // Python 3.12 begins late to tell of instructions
						break
					}
					continue
				}
				tried++
				if end.err != nil || end.Exception == nil || end.Exception.Name != "KeyboardInterrupt" || end.State != wire.StateKept {
					t.Fatalf("%s, interrupted at instruction %d: %s", name, n, end)
				}
				r.ok("import sys; sys.settrace(None); kept")
			}
			if tried < 10 {
				t.Errorf("%s: interrupted at %d places only", name, tried)
			}
			t.Logf("%s: %d places", name, tried)
		}
	})
}
