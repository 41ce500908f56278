//go:build !linux && !darwin && !windows

package hostfallback

const (
	absentCode   = "host-sandbox-system"
	absentRemedy = "start a Docker engine, then: brig doctor"
	absentReason = "brig has no host sandbox for this operating system"
)
