//go:build !darwin

package hostfallback

// isDarwin says that a Python may be Apple's stand-in for one.
const isDarwin = false

const remedyInstall = "install Python 3.8 or newer, for example: sudo apt install python3"
