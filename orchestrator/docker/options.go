package docker

import (
	"errors"
	"regexp"

	"brig/images"
)

// Options of a Backend.
type Options struct {
	// Endpoint and Context are the user's own choice of an engine; empty means as
	// the docker CLI would resolve it. Endpoint wins.
	Endpoint string
	Context  string
	// Env reads a variable of the process; nil means that none is set.
	Env func(name string) (string, bool)
	// Owner is the stable id of this brig installation; it is in the labels of every
	// container and Sweep never goes beyond it.
	Owner string
	// Process is the token of this brig process: at most 40 characters of [a-z0-9].
	Process string
	// Boot identifies this boot of the machine; empty leaves the label empty.
	Boot string
	// Images finds and builds the runner image; nil means images.New with Env.
	Images *images.Trust
	// Progress hears what a build says that Prepare has to wait for, and as a note what
	// engine is waited for where a start takes long; nil means nobody. Calls may overlap.
	Progress func(images.Progress)
	sabotaged
}

var errOptions = errors.New("the docker backend needs an owner and a process token of lower-case letters and digits")

func (o Options) check() error {
	token := regexp.MustCompile(`^[a-z0-9]{1,40}$`)
	if !token.MatchString(o.Process) || o.Owner == "" {
		return errOptions
	}
	return nil
}
