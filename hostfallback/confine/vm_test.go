package confine

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
)

// seccompData is what the kernel shows to a filter for one system call.
type seccompData struct {
	nr   uint32
	arch uint32
	args [6]uint64
}

// packet lays the data out for the BPF machine of x/net, which reads words in
// big endian as network filters do. The filter loads aligned words only, so it
// suffices to turn each of them around.
func (d seccompData) packet() []byte {
	var native [64]byte
	binary.LittleEndian.PutUint32(native[0:], d.nr)
	binary.LittleEndian.PutUint32(native[4:], d.arch)
	for i, a := range d.args {
		binary.LittleEndian.PutUint64(native[16+8*i:], a)
	}
	out := make([]byte, len(native))
	for i := 0; i < len(native); i += 4 {
		binary.BigEndian.PutUint32(out[i:], binary.LittleEndian.Uint32(native[i:]))
	}
	return out
}

// machine runs a program of this package without a kernel.
type machine struct {
	t  testing.TB
	vm *bpf.VM
}

func newMachine(t testing.TB, program []Instruction) machine {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(program))
	for i, in := range program {
		raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.JT, Jf: in.JF, K: in.K}
	}
	instructions, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has instructions that BPF does not know")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, vm}
}

func (m machine) verdict(d seccompData) uint32 {
	m.t.Helper()
	// The machine returns how many bytes of a packet to keep, as an int made of
	// the filter's 32 bit value.
	got, err := m.vm.Run(d.packet())
	if err != nil {
		m.t.Fatal(err)
	}
	return uint32(got)
}

func number(t testing.TB, arch Arch, name string) uint32 {
	t.Helper()
	for _, c := range arch.calls() {
		if c.name == name {
			return c.nr
		}
	}
	t.Fatalf("%s has no %s", arch, name)
	return 0
}

func has(arch Arch, name string) bool {
	for _, c := range arch.calls() {
		if c.name == name {
			return true
		}
	}
	return false
}

func allArches() []Arch { return []Arch{X86, Aarch} }

// allFilters are all variants of the filter.
func allFilters() []Filter {
	var out []Filter
	for bits := range 8 {
		out = append(out, Filter{Inet: bits&1 != 0, Unix: bits&2 != 0, Metadata: bits&4 != 0})
	}
	return out
}
