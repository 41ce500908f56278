package hostfallback

// isDarwin says that a Python may be Apple's stand-in for one.
const isDarwin = true

const remedyInstall = "install Python 3.8 or newer, for example: xcode-select --install"
