//go:build !linux

package hostfallback

// namespacesOfBrig are none where the system has none.
func namespacesOfBrig() map[string]string { return nil }
