package confine

import "slices"

// Mounted says what must be mounted when these steps were taken, and whether it
// is read-only there and below.
func Mounted(steps []Step) map[string]bool {
	readOnly := make(map[string]bool)
	for _, s := range steps {
		switch s.Op {
		case OpTmpfs, OpBind, OpSelf:
			readOnly[s.Path] = false
		case OpProc:
			readOnly[s.Path] = slices.Contains(s.Attrs, ReadOnly)
		case OpOpen:
			readOnly[s.Path] = false
		case OpAttr:
			for path := range readOnly {
				if within(path, s.Path) && slices.Contains(s.Attrs, ReadOnly) {
					readOnly[path] = true
				}
			}
		}
	}
	return readOnly
}
