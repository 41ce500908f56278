//go:build !brig_sabotage

package confine

// sabotaged is nothing in a brig that ships. Built with the tag brig_sabotage, it
// names the steps that supervisor and helper leave out, so that the self-test can be
// seen to find that.
type sabotaged struct{}

func (sabotaged) without(string) bool { return false }
