package confine

import "time"

// A watch that is slow to look takes a pause that grows with it, so that it does not
// take the machine from whoever works there, but never a longer one than these. What
// lasts for less than a pause and a look may pass unseen.
const (
	MemoryPause = time.Second     // at most, between two looks at all processes
	DiskPause   = 3 * time.Second // at most, between two looks at all files

	watchEvery = 250 * time.Millisecond
	diskEvery  = time.Second
)

// memoryPause gives a look at the processes a fifth of the time where it can.
func memoryPause(took time.Duration) time.Duration {
	return min(max(watchEvery, 4*took), MemoryPause)
}

// diskPause gives a look at the files a twentieth of the time where it can.
func diskPause(took time.Duration) time.Duration {
	return min(max(diskEvery, 20*took), DiskPause)
}
