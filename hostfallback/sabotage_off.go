//go:build !brig_sabotage

package hostfallback

import "brig/hostfallback/confine"

// sabotaged is nothing in a brig that ships. Built with the tag brig_sabotage, it
// says which layers are left out, so that the self-test can be seen to find that.
type sabotaged struct{}

func (sabotaged) spoil(*confine.Plan) {}
func (sabotaged) any() bool           { return false }
