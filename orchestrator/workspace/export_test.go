package workspace

import "os"

// Inspect is the decision on an opened file, for states that a test cannot
// bring about between a look at a name and its opening.
func Inspect(w *Workspace, f *os.File, max int64) error {
	_, err := w.inspect("get", "f", f, max)
	return err
}

// CleanNew is what Put asks of a name.
func CleanNew(name string) (string, error) { return cleanNew("put", name) }

// Held is how many bytes unfinished puts have reserved, and how many such puts there are.
func Held(w *Workspace) (bytes int64, puts int) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	return w.ledger.held, w.ledger.puts
}

// Shorten makes walks give up after n entries, where a test would need MaxEntries files.
func Shorten(w *Workspace, n int) { w.walks = n }
