package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

var update = flag.Bool("update", false, "rewrite the files that are derived from tables")

func arches() map[string]specs.Arch {
	return map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}
}

// applies says whether a conditional rule of moby's holds in a brig container:
// no capability, that architecture, any kernel that brig supports.
func applies(s *seccomp.Syscall, arch string) bool {
	if in := s.Includes; in != nil {
		if len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, arch) {
			return false
		}
	}
	if ex := s.Excludes; ex != nil && slices.Contains(ex.Arches, arch) {
		return false // excluded capabilities are never there
	}
	return true
}

// derive makes brig's profile from moby's default.
func derive(arch string) *specs.LinuxSeccomp {
	base := seccomp.DefaultProfile()
	out := &specs.LinuxSeccomp{
		DefaultAction:   base.DefaultAction,
		DefaultErrnoRet: base.DefaultErrnoRet,
		Architectures:   []specs.Arch{arches()[arch]},
	}
	var plain []string
	for _, rule := range base.Syscalls {
		if !applies(rule, arch) {
			continue
		}
		if rule.Action == specs.ActAllow && len(rule.Args) == 0 {
			plain = append(plain, rule.Names...)
			continue
		}
		kept := rule.LinuxSyscall
		kept.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool {
			return isNarrowed(name) || slices.Contains(withheld(), name)
		})
		if len(kept.Names) > 0 {
			out.Syscalls = append(out.Syscalls, kept)
		}
	}
	plain = slices.DeleteFunc(plain, func(name string) bool {
		return isNarrowed(name) || slices.Contains(withheld(), name)
	})
	slices.Sort(plain)
	out.Syscalls = slices.Insert(out.Syscalls, 0, specs.LinuxSyscall{Names: slices.Compact(plain), Action: specs.ActAllow})
	for _, rule := range narrow() {
		// The kernel looks at the low 32 bits of an int only, so the comparison does too.
		args := make([]specs.LinuxSeccompArg, 0, len(rule.args))
		for _, m := range rule.args {
			args = append(args, specs.LinuxSeccompArg{Index: m.index, Value: m.mask, ValueTwo: m.value, Op: specs.OpMaskedEqual})
		}
		out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: rule.names, Action: specs.ActAllow, Args: args})
	}
	return out
}

func isNarrowed(name string) bool {
	return slices.ContainsFunc(narrow(), func(rule narrowed) bool { return slices.Contains(rule.names, name) })
}

func TestSeccompFilesAreDerived(t *testing.T) {
	for arch := range arches() {
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetIndent("", "\t")
		if err := encoder.Encode(derive(arch)); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("seccomp", arch+".json")
		if *update {
			if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := seccompProfile(arch)
		if err != nil {
			t.Fatal(err)
		}
		if got != want.String() {
			t.Errorf("%s is not what the tables make of moby's default; run go test -run Seccomp -update", name)
		}
	}
}

// shipped reads a file that brig ships, not the derivation.
func shipped(t *testing.T, arch string) *specs.LinuxSeccomp {
	t.Helper()
	text, err := seccompProfile(arch)
	if err != nil {
		t.Fatal(err)
	}
	var ours specs.LinuxSeccomp
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ours); err != nil {
		t.Fatal(err)
	}
	return &ours
}

func TestSeccompNeverWider(t *testing.T) {
	for arch := range arches() {
		for _, gap := range wider(shipped(t, arch), arch) {
			t.Errorf("%s: %s", arch, gap)
		}
	}
}

// TestSeccompWiderIsSeen widens the shipped profile in every way that there is.
func TestSeccompWiderIsSeen(t *testing.T) {
	errno := func(n uint) *uint { return &n }
	find := func(p *specs.LinuxSeccomp, name string) *specs.LinuxSyscall {
		for i := range p.Syscalls {
			if slices.Contains(p.Syscalls[i].Names, name) {
				return &p.Syscalls[i]
			}
		}
		t.Fatalf("no rule for %s", name)
		return nil
	}
	for name, change := range map[string]func(*specs.LinuxSeccomp){
		"another default":          func(p *specs.LinuxSeccomp) { p.DefaultAction = specs.ActAllow },
		"only logged":              func(p *specs.LinuxSeccomp) { p.DefaultAction = specs.ActLog },
		"a second architecture":    func(p *specs.LinuxSeccomp) { p.Architectures = append(p.Architectures, specs.ArchX86) },
		"no architecture":          func(p *specs.LinuxSeccomp) { p.Architectures = nil },
		"a listener":               func(p *specs.LinuxSeccomp) { p.ListenerPath = "/run/agent.sock" },
		"a flag":                   func(p *specs.LinuxSeccomp) { p.Flags = []specs.LinuxSeccompFlag{specs.LinuxSeccompFlagSpecAllow} },
		"a call":                   func(p *specs.LinuxSeccomp) { p.Syscalls[0].Names = append(p.Syscalls[0].Names, "mount") },
		"clone without arguments":  func(p *specs.LinuxSeccomp) { find(p, "clone").Args = nil },
		"clone with namespaces":    func(p *specs.LinuxSeccomp) { find(p, "clone").Args[0].Value &^= 0x10000000 },
		"any personality":          func(p *specs.LinuxSeccomp) { find(p, "personality").Args = nil },
		"another personality":      func(p *specs.LinuxSeccomp) { find(p, "personality").Args[0].Value = 0x0040000 },
		"any socket":               func(p *specs.LinuxSeccomp) { find(p, "socket").Args = nil },
		"a vsock":                  func(p *specs.LinuxSeccomp) { find(p, "socket").Args[0].ValueTwo = 40 },
		"half a mask":              func(p *specs.LinuxSeccomp) { find(p, "socket").Args[0].Value = 0x1 },
		"another argument":         func(p *specs.LinuxSeccomp) { find(p, "socket").Args[0].Index = 1 },
		"clone3":                   func(p *specs.LinuxSeccomp) { find(p, "clone3").Action = specs.ActAllow },
		"clone3 refused otherwise": func(p *specs.LinuxSeccomp) { find(p, "clone3").ErrnoRet = errno(1) },
		"an action of its own":     func(p *specs.LinuxSeccomp) { find(p, "read").Action = specs.ActTrace },
	} {
		for arch := range arches() {
			p := shipped(t, arch)
			change(p)
			if len(wider(p, arch)) == 0 {
				t.Errorf("%s: %s is not seen", arch, name)
			}
		}
	}
}

// wider lists what a profile allows beyond moby's default for a container without
// capabilities, arguments included, and what it refuses in another way.
func wider(ours *specs.LinuxSeccomp, arch string) (gaps []string) {
	gap := func(format string, a ...any) { gaps = append(gaps, fmt.Sprintf(format, a...)) }
	if ours.DefaultAction != specs.ActErrno {
		gap("default action %s", ours.DefaultAction)
	}
	if len(ours.Architectures) != 1 || ours.Architectures[0] != arches()[arch] {
		gap("architectures %v, want its own alone", ours.Architectures)
	}
	if len(ours.Flags) > 0 || ours.ListenerPath != "" || ours.ListenerMetadata != "" {
		gap("flags %v or a listener %q", ours.Flags, ours.ListenerPath)
	}
	free := map[string]bool{}                       // allowed by moby without a condition
	bound := map[string][][]specs.LinuxSeccompArg{} // allowed with these arguments
	refused := map[string]*uint{}                   // refused with this errno
	for _, rule := range seccomp.DefaultProfile().Syscalls {
		if !applies(rule, arch) {
			continue
		}
		for _, name := range rule.Names {
			switch {
			case rule.Action != specs.ActAllow:
				refused[name] = rule.ErrnoRet
			case len(rule.Args) == 0:
				free[name] = true
			default:
				bound[name] = append(bound[name], rule.Args)
			}
		}
	}
	for _, rule := range ours.Syscalls {
		for _, name := range rule.Names {
			switch {
			case rule.Action == specs.ActErrno:
				if refused[name] == nil || rule.ErrnoRet == nil || *refused[name] != *rule.ErrnoRet {
					gap("%s is refused in another way than moby does", name)
				}
			case rule.Action != specs.ActAllow:
				gap("%s has the action %s", name, rule.Action)
			case free[name]:
			case name == "socket" || name == "socketpair":
				if !allowsFamily(bound[name], rule.Args) {
					gap("%s %v is not allowed by moby's default", name, rule.Args)
				}
			case !slices.ContainsFunc(bound[name], func(args []specs.LinuxSeccompArg) bool { return slices.Equal(args, rule.Args) }):
				gap("%s %v is not allowed by moby's default", name, rule.Args)
			}
		}
	}
	return gaps
}

// allowsFamily tells whether moby allows the one family that args let through;
// further conditions only let less through.
func allowsFamily(rules [][]specs.LinuxSeccompArg, args []specs.LinuxSeccompArg) bool {
	return len(args) > 0 && args[0].Index == 0 && args[0].Op == specs.OpMaskedEqual && args[0].Value == 0xffffffff &&
		mobyAllowsFamily(rules, args[0].ValueTwo)
}

// mobyAllowsFamily asks moby's rules, whatever operator they are written with.
func mobyAllowsFamily(rules [][]specs.LinuxSeccompArg, number uint64) bool {
	for _, args := range rules {
		if len(args) != 1 || args[0].Index != 0 {
			continue
		}
		a := args[0]
		switch a.Op {
		case specs.OpEqualTo:
			if number == a.Value {
				return true
			}
		case specs.OpLessThan:
			if number < a.Value {
				return true
			}
		case specs.OpLessEqual:
			if number <= a.Value {
				return true
			}
		case specs.OpGreaterThan:
			if number > a.Value {
				return true
			}
		case specs.OpMaskedEqual:
			if number&a.Value == a.ValueTwo {
				return true
			}
		}
	}
	return false
}

func TestSeccompWithholds(t *testing.T) {
	never := append(withheld(), "mount", "umount2", "unshare", "setns", "pivot_root", "kexec_load", "init_module", "finit_module", "delete_module", "reboot", "chroot", "swapon", "syslog", "clone3")
	for arch := range arches() {
		text, err := seccompProfile(arch)
		if err != nil {
			t.Fatal(err)
		}
		var ours specs.LinuxSeccomp
		if err := json.Unmarshal([]byte(text), &ours); err != nil {
			t.Fatal(err)
		}
		allowed := map[string]bool{}
		for _, rule := range ours.Syscalls {
			if rule.Action == specs.ActAllow {
				for _, name := range rule.Names {
					allowed[name] = true
				}
			}
		}
		for _, name := range never {
			if allowed[name] {
				t.Errorf("%s: %s is allowed", arch, name)
			}
		}
		for _, control := range []string{"read", "openat", "execve", "clone", "socket", "pidfd_open", "futex"} {
			if !allowed[control] {
				t.Errorf("%s: %s is not allowed", arch, control)
			}
		}
		if strings.Contains(text, "SCMP_ARCH_X86\"") || strings.Contains(text, "X32") {
			t.Errorf("%s: a second architecture is named", arch)
		}
	}
}
