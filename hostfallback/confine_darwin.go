package hostfallback

import (
	"errors"
	"os"
)

const (
	absentCode   = "host-sandbox-macos"
	absentRemedy = "start Docker Desktop or another Docker engine, then: brig doctor"
	absentReason = "the host sandbox for macOS arrives in a later version of brig, so nothing would confine the code"
)

// ourselves is the program that is started again as supervisor and helper.
func ourselves() (string, error) { return os.Executable() }

func supported() error {
	return unavailable(absentCode, absentRemedy, errors.ErrUnsupported, absentReason)
}

func shield() error { return supported() }
