package selftest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// publish makes a directory where everybody may look: code of another user's than
// brig's is kept from everything else of a plot by the modes of files alone. It has a
// secret of its own, which is worth nothing to whoever else reads it.
func (p *plot) publish(probes []Probe) error {
	if !slices.ContainsFunc(probes, func(pr Probe) bool { return strings.HasSuffix(pr.ID, "-public") }) {
		return nil
	}
	for _, shared := range sharedDirs() {
		if !enterable(shared) {
			continue
		}
		dir := filepath.Join(shared, strayName+p.token)
		if err := p.yard.note(dir, false); err != nil {
			return err
		}
		if os.Mkdir(dir, 0o700) != nil {
			continue // it is full, or not to be written to
		}
		if err := p.yard.hold(dir); err != nil {
			return err
		}
		for _, name := range []string{canaryFile, "seen-" + p.public} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(p.public), 0o600); err != nil {
				return err
			}
			if err := os.Chmod(path, 0o644); err != nil { // whatever the umask says
				return err
			}
		}
		// Opened up last, when nobody can have put anything into it.
		if err := os.Chmod(dir, 0o755); err != nil {
			return fmt.Errorf("let others look into %s: %w", dir, err)
		}
		p.told["public"] = dir
		return nil
	}
	return nil // everything here is one user's: no target
}

// enterable tells whether others may go through dir and all above it.
func enterable(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}
