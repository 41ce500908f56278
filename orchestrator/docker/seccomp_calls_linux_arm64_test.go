package docker

func otherCalls() []call { return nil }

// foreignCode is empty: a 64-bit program of arm64 has no instruction that enters the
// kernel by its 32-bit table.
func foreignCode() map[string]string { return map[string]string{} }
