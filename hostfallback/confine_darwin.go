package hostfallback

import (
	"context"
	"errors"

	"brig/hostfallback/confine"
)

// supported says that there is no host sandbox here.
func supported() error {
	return unavailable("host-sandbox-macos", "start Docker Desktop or another Docker engine, then: brig doctor", errors.ErrUnsupported,
		"the host sandbox for macOS arrives in a later version of brig, so nothing would confine the code")
}

func shield() error { return supported() }

func launch(context.Context, string, confine.Plan) (*process, confine.Started, error) {
	return nil, confine.Started{}, supported()
}

// Nothing below was ever started here.
func rescue(string, int) []int               { return nil }
func abandoned(string) (func(), bool, error) { return nil, false, supported() }
func occupy(string) (func(), error)          { return nil, supported() }
