package selftest

const goos = "darwin"
