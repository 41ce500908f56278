package confine

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// SeatbeltVersion counts the changes of what a profile means. It stands on pages
// beside the hash of the profile.
const SeatbeltVersion = 1

// SandboxExec applies profiles on macOS. It is never looked for on PATH.
const SandboxExec = "/usr/bin/sandbox-exec"

// Param is a value that a profile refers to by its name. Values travel beside the
// text, so nothing in a path can be read as a rule.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

var (
	//go:embed seatbelt/base.sbpl
	seatbeltBase string
	//go:embed seatbelt/loopback.sbpl
	seatbeltLoopback string
	//go:embed seatbelt/allow.sbpl
	seatbeltAllow string
)

// Seatbelt renders the policy as a profile for macOS. Of rules that match, the
// last one counts, so broad ones come before narrow ones.
func (p Policy) Seatbelt() (profile string, params []Param) {
	s := sbpl{}
	s.text.WriteString(seatbeltBase)
	switch p.Network {
	case NetworkLoopback:
		s.text.WriteString(seatbeltLoopback)
	case NetworkAllow:
		s.text.WriteString(seatbeltAllow)
	}
	places := []string{p.Workspace, p.Scratch}
	s.comment("The interpreter: its directories, and every link on the way to it.")
	s.rule("allow process-exec* file-read* file-map-executable", "subpath", "EXECUTE", p.Grants.Execute)
	s.rule("allow file-read*", "literal", "LINK", linkPaths(p.Grants.Links))
	s.comment("What may be read, and what is on the way to any of this.")
	s.rule("allow file-read*", "subpath", "READ", p.Grants.Read)
	s.rule("allow file-read-metadata", "literal", "ABOVE", ancestors(slices.Concat(places, p.Grants.Execute, p.Grants.Read, linkPaths(p.Grants.Links))))
	s.rule("allow file-read* file-write-data", "literal", "DEVICE", p.Grants.Devices)
	s.comment("The places that may be written to. A file that is there may get a second name\n" +
		"; there, one outside may not. Programs cannot be started from there.")
	s.rule("allow file-read* file-write* file-map-executable", "subpath", "PLACE", places)
	s.when("file-link", "allow file-link", "subpath", "PLACE", places)
	s.when("file-clone", "allow file-clone", "subpath", "PLACE", places)
	s.when("file-write-setugid", "deny file-write-setugid", "subpath", "PLACE", places)
	s.when("file-write-acl", "deny file-write-acl", "subpath", "PLACE", places)
	guarded, above := guards(places, p.Protected)
	if len(guarded) > 0 {
		s.comment("Protected: read-only, and no directory above may be moved away or be put there anew.")
	}
	s.rule("deny file-write*", "subpath", "GUARD", guarded)
	s.when("file-link", "deny file-link", "subpath", "GUARD", guarded)
	s.rule("deny file-write-create file-write-unlink", "literal", "GUARD_ABOVE", above)
	return s.text.String(), s.params
}

// SeatbeltHash names the text of a profile. The paths are parameters and not in it.
func SeatbeltHash(profile string) string {
	sum := sha256.Sum256([]byte(profile))
	return hex.EncodeToString(sum[:8])
}

// seatbeltCommand is how the profile is applied to a program.
func seatbeltCommand(profile string, params []Param, command []string) []string {
	out := []string{SandboxExec, "-p", profile}
	for _, p := range params {
		out = append(out, "-D", p.Name+"="+p.Value)
	}
	return append(out, command...)
}

// sbpl collects the text and the parameters of a profile.
type sbpl struct {
	text   strings.Builder
	params []Param
}

func (s *sbpl) comment(text string) { fmt.Fprintf(&s.text, "\n; %s\n", text) }

// rule writes one for all paths, or nothing if there are none.
func (s *sbpl) rule(what, filter, name string, paths []string) {
	if filters := s.filters(filter, name, paths); filters != "" {
		fmt.Fprintf(&s.text, "(%s%s)\n", what, filters)
	}
}

// when writes a rule for an operation that some versions of macOS do not know.
func (s *sbpl) when(operation, what, filter, name string, paths []string) {
	if filters := s.filters(filter, name, paths); filters != "" {
		fmt.Fprintf(&s.text, "(if (defined? '%s) (%s%s))\n", operation, what, filters)
	}
}

func (s *sbpl) filters(filter, name string, paths []string) string {
	var out strings.Builder
	for i, p := range unique(paths) {
		param := Param{fmt.Sprintf("%s_%d", name, i), p}
		if !slices.Contains(s.params, param) {
			s.params = append(s.params, param)
		}
		fmt.Fprintf(&out, "\n  (%s (param %q))", filter, param.Name)
	}
	return out.String()
}

// unique are the paths as the kernel of macOS names them, each once, in order.
func unique(paths []string) []string {
	var out []string
	for _, p := range paths {
		if p = private(p); path.IsAbs(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// private follows the three links at the top of every macOS file system. A rule
// on the name of a link would match nothing.
func private(p string) string {
	if p = path.Clean(p); beneath(p, "/tmp") || beneath(p, "/var") || beneath(p, "/etc") {
		return "/private" + p
	}
	return p
}

// beneath says that p is dir or lies below it. Both are clean.
func beneath(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func linkPaths(links []Link) []string {
	out := make([]string, 0, len(links))
	for _, l := range links {
		out = append(out, l.Path)
	}
	return out
}

// ancestors are all directories above the paths, the root left out.
func ancestors(paths []string) []string {
	var out []string
	for _, p := range unique(paths) {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// guards are the protected paths that a rule is needed for, because they lie in
// a place that may be written to, and the directories between the two. What
// contains such a place is no business of the profile: nothing grants it.
func guards(places, protected []string) (guarded, above []string) {
	for _, p := range unique(protected) {
		for _, place := range unique(places) {
			if p == place || !beneath(p, place) {
				continue
			}
			guarded = append(guarded, p)
			for dir := path.Dir(p); beneath(dir, place); dir = path.Dir(dir) {
				above = append(above, dir)
			}
		}
	}
	slices.Sort(above)
	return guarded, slices.Compact(above)
}
