package selftest

import "brig/orchestrator/sandbox"

const (
	byNoCaps  = "no capabilities"
	byNewRoot = "no capabilities, or the system call filter"
	gapCaps   = "capabilit*"
)

// secretProbes are those of what a start leaves to the code, and of what the code's
// own process may do and become.
func secretProbes() []Probe {
	return append(leftProbes(), rightProbes()...)
}

func leftProbes() []Probe {
	return []Probe{
		{
			ID: "environment-variable", Layer: sandbox.Environment, Claim: "Code does not see your environment variables.",
			Attempt: "look for a variable of brig's among the code's own", Observed: "its value comes back", Witness: Canary,
			Blocked:  []Evidence{{"look", "absent", "a fixed list of variables"}},
			Severity: Critical, Fix: "brig doctor", Gaps: []string{"foreign-variable"}, Stage: Shared,
		},
		{
			ID: "environment-ancestors", Layer: sandbox.Environment, Claim: "Code does not see the variables of the processes that started it.",
			Attempt: "read the environment of the processes above through /proc", Observed: "the value of brig's variable comes back", Witness: Canary,
			Blocked: []Evidence{
				{"look", "absent", "a fixed list of variables"},
				{"open", "EACCES", "a runner that cannot be looked into"},
				{"open", "EPERM", "a runner that cannot be looked into"},
			},
			Severity: Critical, Fix: "brig doctor", Gaps: []string{"foreign-variable"}, Stage: Shared,
		},
		{
			ID: "inherited-fd", Layer: sandbox.InheritedFDs, Claim: "Code inherits no open file of brig's.",
			Attempt: "read a file of brig's that was left open for its children", Observed: canaryCameOut, Witness: Canary,
			Blocked:  []Evidence{{"look", "absent", "descriptors that are closed before code starts"}},
			Severity: Critical, Fix: "brig doctor", Stage: Shared,
		},
		{
			ID: "devices-terminal", Layer: sandbox.Devices, Claim: "Code cannot read what you type.",
			Attempt: "open a terminal of another program and read there", Observed: "what is typed into a terminal of brig's comes back", Witness: Canary,
			Blocked: []Evidence{
				{"find", "ENOENT", "a /dev of the session's own"},
				{"open", "ENOENT", "a /dev of the session's own"},
				{"open", "EACCES", "Landlock, or the modes of files"},
				{"open", "EPERM", "the engine's rules for devices"},
			},
			Severity: High, Fix: fixFiles, Gaps: []string{"foreign-device", "device-added", "privileged"}, Stage: Shared,
		},
		{
			ID: "devices-open", Layer: sandbox.Devices, Claim: "Code cannot open the devices of this machine.",
			Attempt: "open each device that you may open", Observed: "the kernel opens one of them", Witness: Program,
			Blocked: []Evidence{
				{"find", "ENOENT", "a /dev of the session's own"},
				{"open", "ENOENT", "a /dev of the session's own"},
				{"open", "EACCES", "Landlock, or the modes of files"},
				{"open", "EPERM", "the engine's rules for devices"},
				{"find", "absent", byGuest},
			},
			Severity: High, Fix: fixFiles, Gaps: []string{"foreign-device", "device-added", "privileged"}, Stage: Shared,
		},
	}
}

func rightProbes() []Probe {
	right := func(id string, layer sandbox.LayerID, claim, attempt, observed string, blocked ...Evidence) Probe {
		return Probe{
			ID: id, Layer: layer, Claim: claim, Attempt: attempt, Observed: observed, Witness: Program,
			Blocked: blocked, Severity: High, Fix: "brig doctor", Stage: Shared,
		}
	}
	all := []Probe{
		right("capabilities-held", sandbox.Capabilities, "Code holds no capability.", "read the sets of the code's own process", "one of the sets is not empty",
			Evidence{"read", "absent", byNoCaps}),
		right("capabilities-override", sandbox.Capabilities, "The modes of files hold for code too.", "read a file whose mode lets nobody read it", "the kernel opens it",
			Evidence{"open", "EACCES", byNoCaps}),
		right("capabilities-chroot", sandbox.Capabilities, "Code cannot change its root directory.", "make the working directory the root", "the kernel does it",
			Evidence{"chroot", "EPERM", byNewRoot}, Evidence{"chroot", "ENOSYS", byFilter}),
		right("capabilities-chown", sandbox.Capabilities, "Code cannot give files to other users.", "give a file to another user", "the kernel does it",
			Evidence{"chown", "EPERM", byNewRoot}, Evidence{"chown", "EINVAL", "a user namespace that knows no other user"}),
		right("capabilities-mknod", sandbox.Capabilities, "Code cannot make device files.", "make another null device in the workspace", "the kernel makes it",
			Evidence{"mknod", "EPERM", byNewRoot}, Evidence{"mknod", "EACCES", byLandlock}),
		right("no-new-privileges-flag", sandbox.NoNewPrivs, "No program that code starts gets more rights than it has.", "ask the kernel for no_new_privs", "it is not set",
			Evidence{"read", "set", "no_new_privs"}),
		right("no-new-privileges-set-id", sandbox.NoNewPrivs, "Programs like su do not make code the administrator.", "start a set-user-id program and look at its rights", "it runs as root, or with capabilities",
			Evidence{"gain", "unchanged", "no_new_privs, or a user namespace that knows no administrator"}, Evidence{"find", "absent", "an image without set-user-id programs"}, Evidence{"start", "EACCES", byLandlock}),
	}
	for n := range all {
		if all[n].Layer == sandbox.Capabilities {
			all[n].Gaps = []string{gapCaps}
		}
	}
	return all
}
