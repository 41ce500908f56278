package images

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Tier says which libraries an image of brig's own has.
type Tier string

const (
	Core     Tier = "core"     // Python's own standard library
	Standard Tier = "standard" // and numpy, pandas, matplotlib, openpyxl, pyarrow
	Full     Tier = "full"     // and what statistics, modelling, SQL and documents need
)

// Tiers lists every tier, smallest first.
func Tiers() []Tier { return []Tier{Core, Standard, Full} }

// own stands where a tier would in the labels and the tag of a user's image.
const own = "own"

// Choice is which image is wanted: a tier, or the user's own image, which gets the
// runner on top. It is comparable; exactly one of the two fields is set.
type Choice struct {
	Tier      Tier
	Reference string // of the user's image, as the user wrote it
}

// referencePrefix tells a reference from the name of a tier. No reference is taken
// without it: an image may well be called "core".
const referencePrefix = "image:"

// Parse reads what String writes: "core", "standard", "full", or "image:REFERENCE".
// The empty string means Standard.
func Parse(text string) (Choice, error) {
	name, isReference := strings.CutPrefix(text, referencePrefix)
	if !isReference {
		tier, err := ParseTier(text)
		return Choice{Tier: tier}, err
	}
	if _, err := reference.ParseAnyReference(name); err != nil {
		return Choice{}, &BadReferenceError{Reference: name, Err: err}
	}
	return Choice{Reference: name}, nil
}

// String is the choice in one word, as sandbox.Base.Image carries it.
func (c Choice) String() string {
	if c.Reference != "" {
		return referencePrefix + c.Reference
	}
	return string(c.Tier)
}

// label is the choice in an image's tier label and tag.
func (c Choice) label() string {
	if c.Reference != "" {
		return own
	}
	return string(c.Tier)
}

// Name is the choice in a sentence.
func (c Choice) Name() string {
	if c.Reference != "" {
		return "image on top of " + c.Reference
	}
	return string(c.Tier) + " image"
}

// Command is the command that builds the image.
func (c Choice) Command() string {
	if c.Reference != "" {
		return "brig image build --image " + c.Reference
	}
	return "brig image build --tier " + string(c.Tier)
}

// BadReferenceError says that a name cannot be an image's.
type BadReferenceError struct {
	Reference string
	Err       error
}

func (e *BadReferenceError) Error() string {
	return fmt.Sprintf("%q is no reference of an image: %v", e.Reference, e.Err)
}
func (e *BadReferenceError) Unwrap() error { return e.Err }

// UnknownTierError is ParseTier's answer to a name that is none.
type UnknownTierError struct{ Name string }

func (e *UnknownTierError) Error() string {
	names := make([]string, 0, len(Tiers()))
	for _, t := range Tiers() {
		names = append(names, string(t))
	}
	last := len(names) - 1
	return fmt.Sprintf("unknown image tier %q; there are %s and %s", e.Name, strings.Join(names[:last], ", "), names[last])
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
