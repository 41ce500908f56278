package hostfallback

import (
	"strings"

	"brig/hostfallback/confine"
)

// forkedIdentity is what the identity of a forked instance ends with.
func forkedIdentity(r confine.Report) string {
	switch {
	case r.Forked == nil:
		return ""
	case len(r.Forked.Packages) > 0:
		return ", forked from a zygote with " + strings.Join(r.Forked.Packages, ", ")
	}
	return ", forked from a zygote"
}

// forkedNotes are what is open because an instance was forked.
func (e evidence) forkedNotes() []string {
	out := []string{
		"it was forked from a warmed interpreter: the seed of hashes and the layout of memory are those of other sessions of the same kind",
		"the interpreter confined itself by brig's orders; from outside were seen: " + strings.Join(e.report.Forked.Seen, ", "),
	}
	if packages := e.report.Forked.Packages; len(packages) > 0 {
		out = append(out, "installed packages had run before it was confined, in the zygote's sandbox: "+strings.Join(packages, ", ")+
			"; they could have kept it from being confined, and then it could reach other sessions' workspaces")
	}
	return out
}
