package sandbox

// Verdict is what a probe of the self-test, or all probes of one layer, came to.
type Verdict string

const (
	// Blocked: predicted evidence was seen, and the control of the same attempt succeeded.
	Blocked Verdict = "blocked"
	// Allowed: the operation got through, as seen from outside where anything outside can see it.
	Allowed Verdict = "allowed"
	// Inconclusive: the control failed, the attempt ran out of time, or other evidence came.
	Inconclusive Verdict = "inconclusive"
	// NotSupported: what would be tried does not exist here.
	NotSupported Verdict = "unsupported"
)
