package selftest

const goos = "windows"
