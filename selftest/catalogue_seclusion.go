package selftest

import "brig/orchestrator/sandbox"

const (
	byOwnNetwork  = "a network of the session's own"
	byOwnOrMode   = "a file system of the session's own, or the modes of files, to which code is another user"
	fixSeclusion  = "run brig doctor, which names the namespace that is missing, or start a Docker engine"
	gapFiles      = "visible-*files*"
	gapProcesses  = "visible-*processes*"
	gapNetwork    = "visible-*network*"
	gapMacNone    = "macos-no-namespaces"
	seenByAnswer  = "the kernel tells of it; to be seen leaves no trace"
	changesDecoys = "it changes for a process of brig's"
)

// seclusionProbes are of what can be learned, and done, without any right to what
// it is about: that something exists. Rules about access hide nothing, so only
// namespaces stand in the way.
func seclusionProbes() []Probe {
	hidden := func(step string) []Evidence {
		return []Evidence{{step, "ENOENT", byOwnRoot}, {step, "EACCES", byOwnOrMode}, {step, "absent", byOwnRoot}}
	}
	all := []Probe{
		{
			ID: "files-stat", Claim: "Code cannot find out which files you have.", Attempt: "ask for the size and the times of a file outside by its path",
			Witness: Program, Observed: seenByAnswer, Severity: Medium, Gaps: []string{gapFiles, gapMacNone}, Blocked: hidden("stat"),
		},
		{
			ID: "files-chdir", Claim: "Code cannot go to a directory of yours.", Attempt: "make a directory outside the working directory",
			Witness: Program, Observed: "the kernel goes there", Severity: Low, Gaps: []string{gapFiles, gapMacNone}, Blocked: hidden("chdir"),
		},
		{
			ID: "files-watch", Claim: "Code is not told of what happens in your directories.", Attempt: "ask to be told of new files in a directory outside",
			Witness: Program, Observed: "the kernel watches it", Severity: Medium, Gaps: []string{gapFiles},
			Blocked: append(hidden("add"), Evidence{"watch", "ENOSYS", byFilter}, Evidence{"watch", "EPERM", byFilter}),
		},
		{
			ID: "files-mounts", Claim: "Code does not see what is mounted on this machine.", Attempt: "look for this machine's mounts in the session's table of them",
			Witness: Program, Observed: "the table names one that is none of the session's", Severity: Low, Gaps: []string{gapFiles},
			Blocked: append(hidden("open"), Evidence{"look", "absent", "mounts of the session's own"}, Evidence{"open", "EPERM", byProc}),
		},
		{
			ID: "processes-cmdline", Claim: "Code cannot read the command lines of your other programs.", Attempt: "read the command line of a process outside through /proc",
			Witness: Decoy, Observed: "a secret in the command line of a process of brig's comes back", Severity: Medium, Gaps: []string{gapProcesses, gapPIDs},
			Blocked: nobody("open", Evidence{"open", "ENOENT", byPIDs}, Evidence{"open", "EACCES", byProc}, Evidence{"open", "EPERM", byProc}, Evidence{"open", "absent", byPIDs}),
		},
		{
			ID: "processes-affinity", Claim: "Code cannot choose the processors of your other programs.", Attempt: "keep a process outside to one processor",
			Witness: Decoy, Trace: "affinity", Observed: changesDecoys, Severity: Low, Gaps: []string{gapProcesses, gapPIDs},
			Blocked: nobody("affinity", Evidence{"affinity", "EPERM", byRights}, Evidence{"affinity", "EINVAL", byGuest}),
		},
		{
			ID: "net-table", Claim: "Code cannot find out what listens on this machine.", Attempt: "look for brig's listeners in the tables of connections in /proc/net",
			Witness: Program, Observed: seenByAnswer, Severity: Low, Gaps: []string{gapNetwork},
			Blocked: []Evidence{
				{"look", "absent", byOwnNetwork},
				{"open", "ENOENT", byOwnNetwork},
				{"open", "EACCES", byProc},
				{"open", "EPERM", byProc},
				{"open", "EINVAL", byPIDs},
			},
		},
	}
	for i := range all {
		all[i].Layer, all[i].Stage, all[i].Fix = sandbox.Seclusion, Shared, fixSeclusion
	}
	return all
}
