package confine

// call is one system call of an architecture.
type call struct {
	nr   uint32
	name string
}

// Arch is an architecture as the kernel names it to a filter (linux/audit.h).
type Arch uint32

const (
	X86   Arch = 0xC000003E // AUDIT_ARCH_X86_64
	Aarch Arch = 0xC00000B7 // AUDIT_ARCH_AARCH64
)

func (a Arch) String() string {
	switch a {
	case X86:
		return "x86-64"
	case Aarch:
		return "aarch64"
	}
	return "unknown"
}

// calls are the system calls of a, sorted by number.
func (a Arch) calls() []call {
	switch a {
	case X86:
		return x86Calls()
	case Aarch:
		return aarchCalls()
	}
	panic("BUG: no system call table for this architecture")
}

// archOf translates Go's name of an architecture; false means that brig has no filter for it.
func archOf(goarch string) (Arch, bool) {
	switch goarch {
	case "amd64":
		return X86, true
	case "arm64":
		return Aarch, true
	}
	return 0, false
}

// FilterHash is the hash of the program that f means on an architecture of Go.
func FilterHash(goarch string, f Filter) (string, bool) {
	arch, ok := archOf(goarch)
	if !ok {
		return "", false
	}
	return Hash(f.Program(arch)), true
}
