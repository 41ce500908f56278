package hostfallback

// isWindows says which promise the host sandbox of this system makes.
const isWindows = true
