package confine

const (
	nullDevice = "/dev/null"

	sizeHidden = 4 << 10
	modeHidden = 0o555
)

// hiddenProc are the parts of /proc that tell about the machine and not about the
// instance, whoever may read them: what container engines hide as well, and what
// tells of locks, memory and disks of others. Programs that measure the machine
// find the rest: processors, memory, load and the time since it was started.
func hiddenProc() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/scsi",
		"/proc/keys", "/proc/key-users", "/proc/kcore", "/proc/kmsg", "/proc/kallsyms",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/latency_stats",
		"/proc/interrupts", "/proc/softirqs", "/proc/locks",
		"/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo",
		"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup",
		"/proc/partitions", "/proc/diskstats",
	}
}

// hide covers those of them that are there: a file by the device that is always
// empty, a directory by one with nothing in it.
func hide(v Survey) []Step {
	var out []Step
	for _, name := range hiddenProc() {
		switch v.Paths[name].Kind {
		case Dir:
			out = append(out, Step{Op: OpTmpfs, Path: name, Size: sizeHidden, Mode: modeHidden})
		case File, Device: // a device where it is hidden already
			out = append(out, Step{Op: OpBind, Path: name, Source: nullDevice})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, Step{Op: OpAttr, Path: procDir, Attrs: []Attr{ReadOnly, NoSuid, NoExec}})
}
