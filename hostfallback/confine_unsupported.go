//go:build !linux && !darwin && !windows

package hostfallback

import (
	"context"
	"errors"

	"brig/hostfallback/confine"
)

// supported says that there is no host sandbox here.
func supported() error {
	return unavailable("host-sandbox-system", "start a Docker engine, then: brig doctor", errors.ErrUnsupported,
		"brig has no host sandbox for this operating system")
}

func shield() error { return supported() }

func launch(context.Context, string, confine.Plan) (*process, confine.Started, error) {
	return nil, confine.Started{}, supported()
}

// Nothing below was ever started here.
func rescue(string, int) []int               { return nil }
func abandoned(string) (func(), bool, error) { return nil, false, supported() }
func occupy(string) (func(), error)          { return nil, supported() }
