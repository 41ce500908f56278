package selftest

// limitProbes are resources, output, time and the end of a tree.
func limitProbes() []Probe { return nil }
