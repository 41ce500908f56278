package selftest

import (
	"fmt"
	"slices"
	"strings"
)

// Catalogue lists every probe, in the order of the layers that they are about.
func Catalogue() []Probe {
	return inWordsOf(goos, everyProbe())
}

// everyProbe is the catalogue in the words of Linux, which has all of it.
func everyProbe() []Probe {
	return written(slices.Concat(
		filesProbes(), netProbes(), socketProbes(), processProbes(), seclusionProbes(), limitProbes(), secretProbes(), kernelProbes(), controlProbes(),
	))
}

// chosen are the probes that only names, by id or by layer; an empty one names all.
func chosen(only []string) ([]Probe, error) {
	all := Catalogue()
	if len(only) == 0 {
		return all, nil
	}
	for _, name := range only {
		if !slices.ContainsFunc(all, func(p Probe) bool { return p.is(name) }) {
			return nil, fmt.Errorf("there is no probe and no layer named %q; list them with: brig selftest --list", name)
		}
	}
	return slices.DeleteFunc(all, func(p Probe) bool {
		return !slices.ContainsFunc(only, p.is)
	}), nil
}

func (p Probe) is(name string) bool { return p.ID == name || strings.EqualFold(string(p.Layer), name) }
