//go:build !linux && !darwin && !windows

package hostfallback

import (
	"context"
	"errors"

	"brig/hostfallback/confine"
)

// supported says that there is no host sandbox here; each system has its own words for it.
func supported() error {
	return unavailable(absentCode, absentRemedy, errors.ErrUnsupported, absentReason)
}

// ourselves is not started again here.
func ourselves() (string, error) { return "", supported() }

func shield() error { return supported() }

func launch(context.Context, string, confine.Plan) (*process, confine.Started, error) {
	return nil, confine.Started{}, supported()
}

// Nothing below was ever started here.
func rescue(string, string, int) ([]int, error) { return nil, nil }
func abandoned(string) (func(), bool, error)    { return nil, false, supported() }
func occupy(string) (func(), error)             { return nil, supported() }
func share(string) (func(), error)              { return nil, supported() }
