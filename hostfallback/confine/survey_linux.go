package confine

import (
	"os"
	"path"
	"strings"
)

// maxLinks is how many symbolic links the kernel follows for one path.
const maxLinks = 40

// surveyor looks at paths, at each component once.
type surveyor struct {
	seen map[string]component
}

type component struct {
	kind   Kind
	link   bool
	target string
}

// look looks at every path of the policy, once. It is done before the root
// changes; a path means the same afterwards, or nothing.
func (h *helper) look() Survey {
	if h.survey == nil {
		h.survey = &Survey{Paths: make(map[string]Found)}
		s := surveyor{seen: make(map[string]component)}
		for _, name := range h.plan.surveyed() {
			if _, ok := h.survey.Paths[name]; !ok {
				h.survey.Paths[name] = s.find(name)
			}
		}
	}
	return *h.survey
}

// find follows a path the way the kernel does, and notes every link on it.
func (s *surveyor) find(name string) Found {
	var f Found
	real, rest := "/", strings.Split(path.Clean(name), "/")
	kind := Dir
	for len(rest) > 0 {
		step := rest[0]
		rest = rest[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			real = path.Dir(real)
			continue
		}
		if kind != Dir {
			return Found{Links: f.Links}
		}
		at := path.Join(real, step)
		c := s.look(at)
		if c.link {
			if f.Links = append(f.Links, Link{Path: at, Target: c.target}); len(f.Links) > maxLinks {
				return Found{}
			}
			if path.IsAbs(c.target) {
				real = "/"
			}
			rest = append(strings.Split(c.target, "/"), rest...)
			continue
		}
		if kind = c.kind; kind == Missing {
			return Found{Links: f.Links}
		}
		real = at
	}
	if real == "/" {
		kind = Dir
	}
	f.Kind, f.Real = kind, real
	return f
}

func (s *surveyor) look(at string) component {
	if c, ok := s.seen[at]; ok {
		return c
	}
	var c component
	if info, err := os.Lstat(at); err == nil {
		switch mode := info.Mode(); {
		case mode.IsDir():
			c.kind = Dir
		case mode.IsRegular():
			c.kind = File
		case mode&os.ModeDevice != 0:
			c.kind = Device
		case mode&os.ModeSymlink != 0:
			c.target, err = os.Readlink(at)
			c.link = err == nil
		default:
			c.kind = Other
		}
	}
	s.seen[at] = c
	return c
}
