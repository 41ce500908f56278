package hostfallback

// isDarwin says that a Python may be Apple's stand-in for one.
const isDarwin = true
