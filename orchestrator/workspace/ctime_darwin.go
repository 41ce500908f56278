package workspace

import "syscall"

func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// tick: times here are as fine as the clock.
func tick() int64 { return 0 }
