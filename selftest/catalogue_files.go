package selftest

import "brig/orchestrator/sandbox"

// What stands in the way, in the words of reports. Where one errno may come from
// either of two, both are named.
const (
	byOwnRoot     = "a file system of the session's own"
	byOwnMode     = "the modes of files, to which code is another user"
	byRulesOrMode = "Landlock, or the modes of files, to which code is another user"
	byReadOnly    = "read-only mounts"
	byRefer       = "Landlock, or mounts of the session's own"
	byPIDs        = "a process namespace of the session's own"
	byGuest       = "the guest's own kernel"
	fixFiles      = "set host.sandbox to require, or start a Docker engine; brig doctor names what is missing"
	gapNamespace  = "userns-*"
	gapNotAsked   = "not-asked"
	gapNotApplied = "not-applied"
	gapTruncate   = "landlock-abi-*-lacks-truncate"
	gapForeign    = "foreign-*"
	canaryCameOut = "what a canary of brig's holds comes back"
	canaryChanged = "a directory of brig's is no longer as it was made"
)

// absent is the evidence of a path that leads nowhere: the session has another root.
func absent() []Evidence {
	return []Evidence{{"find", "ENOENT", byOwnRoot}, {"find", "EACCES", byOwnMode}}
}

// refused is absent and what rules about files answer at step.
func refused(step string, more ...Evidence) []Evidence {
	return append(append(absent(), Evidence{step, "EACCES", byLandlock}, Evidence{step, "EROFS", byReadOnly}), more...)
}

// readable is refused where the modes of files let everybody in, so that these are no evidence.
func readable(step string) []Evidence {
	return []Evidence{{"find", "ENOENT", byOwnRoot}, {step, "EACCES", byLandlock}}
}

// filesProbes are those of files outside of the session, the user's and brig's own.
func filesProbes() []Probe {
	return append(append(fileReads(), fileWrites()...), ownDirectories()...)
}

func fileReads() []Probe {
	read := func(id string, severity Severity, claim, attempt string, blocked []Evidence) Probe {
		return Probe{
			ID: id, Layer: sandbox.FSRead, Claim: claim, Attempt: attempt, Observed: canaryCameOut,
			Witness: Canary, Blocked: blocked, Severity: severity, Fix: fixFiles, Gaps: []string{gapForeign}, Stage: Shared,
		}
	}
	home := read("files-read-home", Critical, "Code cannot list your home directory.", "list the home directory",
		append(absent(), Evidence{"list", "EACCES", byRulesOrMode}, Evidence{"list-other-root", "EACCES", byOwnRoot}, Evidence{"list-other-root", "ENOENT", byOwnRoot}, Evidence{"compare", "absent", byOwnRoot}))
	home.Witness, home.Observed = Program, "it is the directory that brig sees there, by its number or by the names in it"
	shm := read("files-shm", High, "Code cannot read what other programs keep in shared memory.", "open an object in /dev/shm by its name",
		append(absent(), Evidence{"open", "EACCES", byRulesOrMode}))
	shm.Gaps = append(shm.Gaps, gapNamespace, gapNotAsked, gapNotApplied, "ipc-of-host")
	others := read("files-shared-read", High, "Code sees nothing of other sessions in /tmp and in shared memory.", "leave a file in /tmp and in /dev/shm and open those of the other sessions of the self-test", append(sharedScratch("make"), Evidence{"open", "EACCES", byRulesOrMode}))
	others.Witness, others.Observed, others.Gaps = Program, "a file that another session has left opens", append(others.Gaps, gapNamespace, gapNotAsked, gapNotApplied, "ipc-of-host")
	return []Probe{
		home, others,
		read("files-read", Critical, "Code cannot read your files.", "read a file outside of the session that only you may read", refused("open")),
		read("files-list", High, "Code cannot list your directories.", "list a directory outside of the session", refused("list")),
		read("files-read-public", Critical, "Code cannot read files of yours that others may read.", "read a file in a shared directory outside that everybody may read", readable("open")),
		read("files-list-public", High, "Code cannot list directories of yours that others may list.", "list a directory in a shared one outside that everybody may list", readable("list")),
		read("files-symlink", Critical, "A symbolic link in the workspace leads to no file of yours.", "read a file outside through a symbolic link in the workspace", refused("open")),
		read("files-link-in", Critical, "A file of yours cannot be linked into the workspace.", "link a file outside into the workspace and read it",
			refused("link", Evidence{"link", "EXDEV", byRefer}, Evidence{"open", "EACCES", byLandlock})),
		read("files-proc-root", Critical, "Code cannot reach your files through /proc.", "read a file through the root of brig and of a process outside in /proc", throughProc()),
		read("files-proc-cwd", Critical, "Code cannot reach your files through another program's working directory.", "read a file through the working directory of a process in /proc", throughProc()),
		read("files-proc-fd", Critical, "Code cannot open again what brig and your programs have open.", "open descriptors of brig and of a process outside through /proc", throughProc()),
		shm,
	}
}

// throughProc is the evidence of a way through another process's entry in /proc.
func throughProc() []Evidence {
	return numbered(append(absent(), Evidence{"open", "EACCES", byProc}, Evidence{"open", "EPERM", byProc}, Evidence{"open", "ENOENT", byOwnRoot}))
}

// numbered adds that a number of a process is another's in the session.
func numbered(e []Evidence) []Evidence {
	return append(e, Evidence{"find", "absent", byPIDs}, Evidence{"find", "ENOENT", byPIDs})
}

func fileWrites() []Probe {
	write := func(id string, severity Severity, claim, attempt string, blocked []Evidence, gaps ...string) Probe {
		return Probe{
			ID: id, Layer: sandbox.FSWrite, Claim: claim, Attempt: attempt, Observed: canaryChanged,
			Witness: Canary, Blocked: blocked, Severity: severity, Fix: fixFiles, Gaps: append(gaps, gapForeign), Stage: Shared,
		}
	}
	// Landlock has no rights for what describes a file, so nothing but read-only mounts
	// or the filter stands in the way of these.
	describes := func(step string) []Evidence {
		return append(absent(), Evidence{step, "EROFS", byReadOnly}, Evidence{step, "EPERM", byFilter})
	}
	open := []string{gapNamespace, gapNotAsked, gapTruncate, "capabilities-left"}
	fifo := write("files-fifo", High, "Code cannot write into named pipes of your programs.", "write into a named pipe outside", refused("open"), gapNoDomain)
	fifo.Witness, fifo.Observed = Listener, "the token arrives at the other end of the pipe"
	elsewhere := write("files-elsewhere", High, "Code can write to its workspace and scratch space only.", "make a file in /var/tmp, where everybody may write", refused("open"), "root-*")
	elsewhere.Witness, elsewhere.Observed = Program, "the kernel made the file; it has no name that could be looked for"
	oom := write("processes-oom-score", Medium, "Code cannot make the kernel end your programs first when memory runs out.", "raise the score of another process in /proc", append(throughProc(), Evidence{"open", "EROFS", byReadOnly}))
	oom.Witness, oom.Trace, oom.Observed = Decoy, "oom", "the score of a process of brig's changes"
	group := write("files-cgroup", High, "Code cannot change the control group that holds it.", "write its own process into the control group that it is in already", append(absent(), Evidence{"find", "absent", byOwnRoot}, Evidence{"open", "EACCES", byRulesOrMode}, Evidence{"open", "EROFS", byReadOnly}))
	group.Witness, group.Observed = Program, "the kernel takes it, and nothing changes by that"
	make := write("files-shared-make", High, "What code makes in /tmp and in shared memory, nobody else sees.", "make an object in /tmp and one in /dev/shm", sharedScratch("open"), open...)
	make.Observed, make.Gaps = "one of them is in this machine's own", append(make.Gaps, "root-*", "ipc-of-host", gapNotApplied)
	return []Probe{
		write("files-write", Critical, "Code cannot change your files.", "append to a file outside", refused("open")),
		write("files-create", Critical, "Code cannot make files outside of its workspace.", "make a file in a directory outside", refused("open")),
		write("files-mkdir", High, "Code cannot make directories outside of its workspace.", "make a directory outside", refused("mkdir")),
		write("files-plant-symlink", High, "Code cannot plant symbolic links outside of its workspace.", "make a symbolic link outside", refused("symlink")),
		write("files-link-out", High, "Code cannot give your files further names.", "link a file outside to a second name there", refused("link", Evidence{"link", "EXDEV", byRefer})),
		write("files-rename", Critical, "Code cannot rename your files.", "rename a file outside", refused("rename", Evidence{"rename", "EXDEV", byRefer})),
		write("files-rename-out", Critical, "A file of the workspace cannot be moved among yours.", "move a file out of the workspace", refused("rename", Evidence{"rename", "EXDEV", byRefer})),
		write("files-rename-in", Critical, "A file of yours cannot be moved into the workspace.", "move a file outside into the workspace", refused("rename", Evidence{"rename", "EXDEV", byRefer})),
		write("files-truncate", Critical, "Code cannot empty your files.", "cut off a file outside", refused("truncate"), gapTruncate),
		write("files-unlink", Critical, "Code cannot remove your files.", "remove a file outside", refused("unlink")),
		write("files-chmod", High, "Code cannot change who may read your files.", "change the mode of a file outside", describes("chmod"), open...),
		write("files-o-path", High, "Code cannot change who may read your files by a mere handle on them either.", "change the mode of a file outside through a descriptor opened with O_PATH", describes("chmod"), open...),
		write("files-chown", High, "Code cannot give your files to others.", "set the owner of a file outside, to the one that it has", describes("chown"), open...),
		write("files-utime", Medium, "Code cannot change the times of your files.", "change the times of a file outside", describes("utime"), open...),
		write("files-xattr", Medium, "Code cannot change the attributes of your files.", "set an extended attribute of a file outside", describes("setxattr"), open...),
		fifo, elsewhere, oom, group, make,
	}
}

// sharedScratch are the ways to what other sessions and programs have in /tmp and in
// shared memory.
func sharedScratch(step string) []Evidence {
	return []Evidence{
		{step, "EACCES", byRulesOrMode},
		{step, "EROFS", byReadOnly},
		{"find", "ENOENT", byOwnRoot},
		{"look", "absent", "a /tmp and a /dev/shm of the session's own"},
	}
}

// ownDirectories are brig's: whoever can change them decides what the next session may do.
func ownDirectories() []Probe {
	var all []Probe
	for _, d := range []struct{ name, what string }{
		{"state", "brig's records"},
		{"config", "brig's settings"},
		{"runtime", "brig's sockets and tokens"},
		{"data", "the files of other sessions"},
		{"cache", "brig's cache"},
	} {
		all = append(all, Probe{
			ID: "brig-read-" + d.name, Layer: sandbox.FSRead, Claim: "Code cannot read " + d.what + ".",
			Attempt: "read a file in brig's " + d.name + " directory", Observed: canaryCameOut, Witness: Canary,
			Blocked: refused("open"), Severity: Critical, Fix: fixFiles, Gaps: []string{gapForeign}, Stage: Shared,
		})
	}
	for _, d := range []struct{ name, what string }{{"state", "brig's records"}, {"config", "brig's settings"}, {"runtime", "brig's sockets and tokens"}} {
		all = append(all, Probe{
			ID: "brig-write-" + d.name, Layer: sandbox.FSWrite, Claim: "Code cannot add to " + d.what + ".",
			Attempt: "make a file in brig's " + d.name + " directory", Observed: "the file is there", Witness: Canary,
			Blocked: refused("open"), Severity: Critical, Fix: fixFiles, Gaps: []string{gapForeign}, Stage: Shared,
		})
	}
	all = append(all, Probe{
		ID: "brig-read-tokens", Layer: sandbox.FSRead, Claim: "Code cannot read the tokens of the brig that runs it, nor where that listens.",
		Attempt: "open each of these files and close it unread; where no brig stays, a file in brig's runtime directory", Observed: "the kernel opens one of them",
		// The directory may be there and empty: others that lie in it are the session's.
		Witness: Program, Blocked: refused("open", Evidence{"open", "ENOENT", byOwnRoot}), Severity: Critical, Fix: fixFiles, Gaps: []string{gapForeign}, Stage: Shared,
	})
	return append(all, Probe{
		ID: "brig-rename-config", Layer: sandbox.FSWrite, Claim: "Code cannot move brig's settings away to put others in their place.",
		Attempt: "rename a file in brig's config directory", Observed: "it has the other name", Witness: Canary,
		Blocked:  refused("rename", Evidence{"rename", "EXDEV", byRefer}, Evidence{"rename", "EBUSY", "mounts over what is protected"}),
		Severity: Critical, Fix: fixFiles, Gaps: []string{gapForeign}, Stage: Shared,
	})
}
