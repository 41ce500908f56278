package confine

// Rescue finds nothing yet.
func Rescue(string, int) []int { return nil }
