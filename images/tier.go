package images

import (
	"fmt"
	"strings"
)

// Tier says which libraries an image has.
type Tier string

const (
	Core     Tier = "core"     // Python's own standard library
	Standard Tier = "standard" // and numpy, pandas, matplotlib, openpyxl, pyarrow
)

// Tiers lists every tier, smallest first.
func Tiers() []Tier { return []Tier{Core, Standard} }

// UnknownTierError is ParseTier's answer to a name that is none.
type UnknownTierError struct{ Name string }

func (e *UnknownTierError) Error() string {
	names := make([]string, 0, len(Tiers()))
	for _, t := range Tiers() {
		names = append(names, string(t))
	}
	return fmt.Sprintf("unknown image tier %q; there are %s", e.Name, strings.Join(names, " and "))
}

// ParseTier returns the tier of that name; the empty name means Standard.
func ParseTier(name string) (Tier, error) {
	if name == "" {
		return Standard, nil
	}
	for _, t := range Tiers() {
		if name == string(t) {
			return t, nil
		}
	}
	return "", &UnknownTierError{Name: name}
}
