package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// look checks from outside what a session says of itself, where the kernel tells
// it to others: a session is narrowed by the interpreter that it was forked from.
// Of Landlock the kernel tells nobody; what the runner attempts later tells of it.
func (z *zygote) look(n newborn, p Policy, r Report) (*Forked, error) {
	proc := "/proc/" + strconv.Itoa(n.pid)
	raw, err := os.ReadFile(proc + "/status")
	if err != nil {
		return nil, err
	}
	status := string(raw)
	wrong := func(what, got string) error {
		return fmt.Errorf("seen from outside, the session's %s is %s", what, got)
	}
	want := map[string]string{
		"NoNewPrivs:": "1", "Seccomp:": "2", "Threads:": "1",
		"CapInh:": noCapabilities, "CapPrm:": noCapabilities, "CapEff:": noCapabilities, "CapBnd:": noCapabilities, "CapAmb:": noCapabilities,
	}
	f := &Forked{Packages: z.warmed.Packages}
	for field, w := range want {
		if got := statusField(status, field); got != w {
			return nil, wrong(field, got)
		}
		f.Seen = append(f.Seen, strings.TrimSuffix(field, ":"))
	}
	// Kernels before 5.17 do not count them.
	if count := statusField(status, "Seccomp_filters:"); count != "" {
		if f.Filters, err = strconv.Atoi(count); err != nil || f.Filters < 2 {
			return nil, wrong("number of filters", count)
		}
		f.Seen = append(f.Seen, "Seccomp_filters")
	}
	for _, name := range []string{"user", "mnt", "pid", "ipc", "net", "uts"} {
		own, err := os.Readlink(proc + "/ns/" + name)
		if err != nil {
			return nil, err
		}
		zygotes, err := os.Readlink("/proc/" + strconv.Itoa(z.pid) + "/ns/" + name)
		if err != nil {
			return nil, err
		}
		if own == zygotes {
			return nil, wrong(name+" namespace", "the zygote's")
		}
		f.Seen = append(f.Seen, name+" namespace")
	}
	if err := lookAtLimits(proc, r); err != nil {
		return nil, err
	}
	if err := lookAtFiles(proc); err != nil {
		return nil, err
	}
	table, err := os.ReadFile(proc + "/mountinfo")
	if err != nil {
		return nil, err
	}
	if err := lookAtMounts(string(table), p.sessionWritable(z.view, z.plan.Workspace, z.plan.Scratch), p.Workspace, p.Scratch); err != nil {
		return nil, err
	}
	f.Seen = append(f.Seen, "limits", "descriptors", "mounts")
	slices.Sort(f.Seen)
	return f, nil
}

const noCapabilities = "0000000000000000"

// lookAtLimits holds the limits that were reported against those in force.
func lookAtLimits(proc string, r Report) error {
	file, err := os.Open(proc + "/limits")
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading
	names := map[string]string{
		"Max core file size": "core", "Max data size": "data", "Max open files": "nofile", "Max file size": "fsize", "Max processes": "nproc",
	}
	found := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		for long, name := range names {
			rest, ok := strings.CutPrefix(line, long)
			if !ok {
				continue
			}
			found++
			if reported, ok := r.Limits[name]; ok {
				fields := strings.Fields(rest)
				if len(fields) < 2 || fields[1] != strconv.FormatUint(reported, 10) {
					return fmt.Errorf("seen from outside, the session's limit %s is %q", name, fields)
				}
			}
		}
	}
	if found != len(names) {
		return errors.New("the limits of the session cannot be seen from outside")
	}
	return nil
}

// lookAtFiles: while it is looked at, a session holds the runner's three pipes and
// the two that it speaks with its supervisor over, and nothing of the zygote or a sibling.
func lookAtFiles(proc string) error {
	names, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return err
	}
	for _, e := range names {
		target, err := os.Readlink(filepath.Join(proc, "fd", e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return err
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd > 4 || !strings.HasPrefix(target, "pipe:[") {
			return fmt.Errorf("seen from outside, descriptor %s of the session is %s", e.Name(), target)
		}
	}
	return nil
}

// lookAtMounts holds the table of mounts of a session against what it may write
// to. A mount that another covers cannot be reached; one that came later, at the
// same place or above it, covers it.
func lookAtMounts(table string, writable map[string]bool, own ...string) error {
	found := make(map[string]bool) // whether it is read-only, of what can be reached
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			return fmt.Errorf("seen from outside, the session's table of mounts says %q", line)
		}
		at, options := unescape(fields[4]), strings.Split(fields[5], ",")
		for before := range found {
			if before == at || below(before, at) && at != "/" {
				delete(found, before)
			}
		}
		found[at] = slices.Contains(options, "ro")
	}
	for at, readOnly := range found {
		if !readOnly && !writable[at] {
			return fmt.Errorf("seen from outside, the session can write to %s", at)
		}
	}
	for _, dir := range own {
		if readOnly, ok := found[dir]; !ok || readOnly {
			return fmt.Errorf("seen from outside, the session has not got %s", dir)
		}
	}
	return nil
}
