package selftest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const canaryFile = "canary"

// plant makes a directory for each probe, and one in each of brig's own directories.
func (p *plot) plant(probes []Probe) error {
	for _, pr := range probes {
		dir := filepath.Join(p.dir, "outside", pr.ID)
		// The second name brings the secret back to an attempt that only lists.
		if err := p.canary(dir, canaryFile, "seen-"+p.secret); err != nil {
			return err
		}
		p.made[pr.ID] = look(dir)
	}
	own := map[string]string{}
	for name, dir := range p.yard.options.Own {
		if dir == "" {
			continue
		}
		if err := p.yard.note(filepath.Join(dir, ownName+p.token), false); err != nil {
			return err
		}
		err := p.plantOwn(dir)
		// Another run that ends may remove a directory as empty just before it is used.
		for try := 0; errors.Is(err, fs.ErrNotExist) && try < 10; try++ {
			err = p.plantOwn(dir)
		}
		if err != nil {
			continue // it is not brig's to write here; no target
		}
		own[name] = dir
	}
	p.told["own"] = own
	return nil
}

// plantOwn makes the canary in one of brig's own directories. It is held, and knows
// which directories are to go with it, for the day on which the yard's record is gone.
func (p *plot) plantOwn(dir string) error {
	made, err := p.missing(dir)
	if err != nil {
		return err
	}
	mine := filepath.Join(dir, ownName+p.token)
	if err := os.Mkdir(mine, 0o700); err != nil {
		return err
	}
	if err := p.yard.hold(mine); err != nil {
		return err
	}
	if len(made) != 0 {
		if err := os.WriteFile(filepath.Join(mine, yardRecord), made, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(mine, canaryFile), []byte(p.secret), 0o600)
}

// missing makes dir and the directories above it, noting each that was not there. It
// returns what it noted, as a record.
func (p *plot) missing(dir string) ([]byte, error) {
	var absent []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		absent = append(absent, d)
	}
	var noted []byte
	for _, d := range slices.Backward(absent) {
		if err := p.yard.note(d, true); err != nil {
			return nil, err
		}
		line, err := stray{Path: d, Empty: true}.line()
		if err != nil {
			return nil, err
		}
		noted = append(noted, line...)
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return noted, nil
}

// canary makes dir with files that hold the secret and that nobody else may read.
func (p *plot) canary(dir string, names ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.secret), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// changed tells whether the directory of a probe is not as it was made, or a file
// with the name of the probe has come to stand in one of brig's own directories.
func (p *plot) changed(id string) bool {
	for _, dir := range p.yard.options.Own {
		if _, err := os.Lstat(filepath.Join(dir, ownName+p.token, id)); err == nil && dir != "" {
			return true
		}
	}
	if id == sharedMake {
		return p.madeShared()
	}
	made, ok := p.made[id]
	return ok && look(filepath.Join(p.dir, "outside", id)) != made
}

// look is everything about a directory that an attempt can change. Reading changes nothing of it.
func look(dir string) string {
	var s strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintf(&s, "%s: %v\n", path, err)
			return nil
		}
		info, err := os.Lstat(path)
		if err != nil {
			fmt.Fprintf(&s, "%s: %v\n", path, err)
			return nil
		}
		fmt.Fprintf(&s, "%s %s %d %d %s", path, info.Mode(), info.Size(), info.ModTime().UnixNano(), inode(info))
		if info.Mode().IsRegular() && info.Size() < 4096 {
			content, err := os.ReadFile(path)
			fmt.Fprintf(&s, " %q %v", content, err)
		}
		s.WriteByte('\n')
		return nil
	})
	fmt.Fprintln(&s, err)
	return s.String()
}
