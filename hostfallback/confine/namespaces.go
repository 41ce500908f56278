package confine

// asked are the parts of a namespace sandbox that a policy wants, beside the
// namespaces that they rest on. What is not wanted carries the reason.
func (p Policy) asked() Namespaces {
	n := Namespaces{Root: Layer{Applied: true}, Process: Layer{Applied: true}, Network: Layer{Applied: true}}
	if p.Network == NetworkAllow {
		n.Network = Layer{Code: CodeNetShared}
	}
	return n
}

// giveUp is what is tried next after a part failed in the helper. Doing without
// it is no silent retreat: the part carries its reason into the report. It is
// not ok when the failure was of none of the parts.
func (n Namespaces) giveUp(f *Failure, errno string) (Namespaces, bool) {
	refuse := func(l *Layer, code string) bool {
		tried := l.Applied
		*l = Layer{Code: code, Errno: errno}
		return tried
	}
	switch f.Stage {
	case StageNetwork:
		return n, refuse(&n.Network, CodeNetRefused)
	case StageRoot:
		return n, refuse(&n.Root, mountCode(errno))
	case StageProc:
		if errno == "EPERM" {
			return n, refuse(&n.Process, CodeProcMasked)
		}
		return n, refuse(&n.Process, CodePIDRefused)
	}
	return n, false
}

// mountCode is the reason behind the answer of a call for mounts.
func mountCode(errno string) string {
	if errno == "ENOSYS" {
		return CodeMountOldKernel
	}
	return CodeMountRefused
}
