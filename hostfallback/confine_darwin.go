package hostfallback

const (
	absentCode   = "host-sandbox-macos"
	absentRemedy = "start Docker Desktop or another Docker engine, then: brig doctor"
	absentReason = "the host sandbox for macOS arrives in a later version of brig, so nothing would confine the code"
)
