package docker

import (
	"io/fs"
	"syscall"
)

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
