package hostfallback

import (
	"strings"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// seclusion is that nothing outside can be seen or named: no file by its path, no
// process by its number, no socket by its address. Rules about access, which are
// Landlock's and the filter's, do not hide anything; only namespaces do.
func (e evidence) seclusion() sandbox.Layer {
	r := e.report
	var parts, seen []string
	var why confine.Layer // of the first part that is missing
	for _, p := range []struct {
		layer      confine.Layer
		code, seen string
	}{
		{r.Namespaces.Root, "files", "that a file exists, its size and its times"},
		{r.Namespaces.Process, "processes", "processes with their command lines, and the processors that they may run on can be changed"},
		{r.Namespaces.Network, "network", "what listens and is connected on this machine"},
	} {
		if p.layer.Applied {
			continue
		}
		if len(parts) == 0 {
			why = p.layer
		}
		parts, seen = append(parts, p.code), append(seen, p.seen)
	}
	const mechanism = "private root, process and network namespaces of its own"
	switch {
	case len(parts) == 0:
		return enforced(mechanism)
	case len(parts) == 3:
		return e.unsecluded()
	case len(parts) == 1 && why.Code == confine.CodeNetShared:
		return partial(mechanism, "visible-network", "code sees "+seen[0]+", because host.network is allow", "set host.network to deny")
	}
	return partial(mechanism, "visible-"+strings.Join(parts, "-"), "code sees "+strings.Join(seen, "; and ")+errnoText(why), remedyDocker)
}

// unsecluded words why there is nothing of it.
func (e evidence) unsecluded() sandbox.Layer {
	const open = "code sees that files exist outside, path by path, other processes with their command lines, and what listens on this machine"
	switch n := e.report.Namespace; {
	case n.Code == confine.CodeOff:
		return off(n.Code, "host.sandbox is off", remedyOn)
	case !n.Applied && n.Code != "":
		reason, remedy := userns(n)
		return off(n.Code, open+", because "+reason, remedy)
	default:
		return off("not-applied", open, "brig doctor")
	}
}

func (e evidence) seclusionParts() string {
	n := e.report.Namespaces
	word := func(name string, l confine.Layer) string {
		if l.Applied {
			return name + " of its own"
		}
		return refused(name, l)
	}
	return strings.Join([]string{word("root", n.Root), word("processes", n.Process), word("network", n.Network)}, ", ")
}
