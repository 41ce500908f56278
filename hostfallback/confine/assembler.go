package confine

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
)

// Instruction is one instruction of classic BPF as the kernel reads it.
type Instruction struct {
	Code   uint16
	JT, JF uint8
	K      uint32
}

// Opcodes that the assembler uses (linux/bpf_common.h).
const (
	opLoad        = 0x20 // BPF_LD|BPF_W|BPF_ABS
	opAnd         = 0x54 // BPF_ALU|BPF_AND|BPF_K
	opEqual       = 0x15 // BPF_JMP|BPF_JEQ|BPF_K
	opGreater     = 0x25 // BPF_JMP|BPF_JGT|BPF_K
	opGreaterOrEq = 0x35 // BPF_JMP|BPF_JGE|BPF_K
	opAnySet      = 0x45 // BPF_JMP|BPF_JSET|BPF_K
	opReturn      = 0x06 // BPF_RET|BPF_K
)

// Where struct seccomp_data (linux/seccomp.h) holds what a filter looks at.
// Arguments are 64 bit wide there, but the kernel reads an int argument from
// its low half only, and so must the filter: comparing all 64 bits lets
// socket(0x1_0000_0002, …) pass a rule about AF_INET. Both supported
// architectures are little endian, so the low half comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func offArg(i int) uint32 { return uint32(offArgs + 8*i) }

// Verdicts of a filter (linux/seccomp.h).
const (
	retKillProcess uint32 = 0x80000000
	retErrno       uint32 = 0x00050000
	retAllow       uint32 = 0x7fff0000
)

// assembler appends instructions. Between two rules the accumulator holds the
// number of the system call; every rule leaves it so or returns.
type assembler struct{ code []Instruction }

func (a *assembler) load(offset uint32) {
	a.code = append(a.code, Instruction{Code: opLoad, K: offset})
}

func (a *assembler) and(mask uint32) { a.code = append(a.code, Instruction{Code: opAnd, K: mask}) }

func (a *assembler) giveBack(ret uint32) {
	a.code = append(a.code, Instruction{Code: opReturn, K: ret})
}

// jump appends a conditional jump over so many of the instructions that follow.
func (a *assembler) jump(op uint16, k uint32, ifTrue, ifFalse int) {
	if ifTrue > 255 || ifFalse > 255 {
		panic("BUG: a jump of the system call filter does not fit into eight bits")
	}
	a.code = append(a.code, Instruction{Code: op, JT: uint8(ifTrue), JF: uint8(ifFalse), K: k})
}

// ifThen returns ret when the comparison holds and goes on otherwise.
func (a *assembler) ifThen(op uint16, k, ret uint32) {
	a.jump(op, k, 0, 1)
	a.giveBack(ret)
}

// unless returns ret when the comparison does not hold and goes on otherwise.
func (a *assembler) unless(op uint16, k, ret uint32) {
	a.jump(op, k, 1, 0)
	a.giveBack(ret)
}

// anyOf returns ret for every one of the numbers.
func (a *assembler) anyOf(numbers []uint32, ret uint32) {
	for i, nr := range numbers {
		left := len(numbers) - 1 - i
		if left == 0 {
			a.jump(opEqual, nr, 0, 1)
		} else {
			a.jump(opEqual, nr, left, 0)
		}
	}
	if len(numbers) > 0 {
		a.giveBack(ret)
	}
}

// between returns ret for every number from low to high.
func (a *assembler) between(low, high, ret uint32) {
	a.jump(opGreaterOrEq, low, 0, 2)
	a.jump(opGreater, high, 1, 0)
	a.giveBack(ret)
}

// inspect runs body for one system call. Every path through body must return.
func (a *assembler) inspect(nr uint32, body func(*assembler)) {
	var inner assembler
	body(&inner)
	a.jump(opEqual, nr, 0, len(inner.code))
	a.code = append(a.code, inner.code...)
}

// Hash names a program: FNV-1a over its instructions. It tells which of brig's
// own filters was installed; nobody hostile chooses the input, so it need not
// be a cryptographic hash, whose package would slow down every start.
func Hash(program []Instruction) string {
	h := fnv.New64a()
	var raw [8]byte
	for _, in := range program {
		binary.LittleEndian.PutUint16(raw[0:], in.Code)
		raw[2], raw[3] = in.JT, in.JF
		binary.LittleEndian.PutUint32(raw[4:], in.K)
		_, _ = h.Write(raw[:]) // a hash never fails
	}
	return strconv.FormatUint(h.Sum64(), 16)
}
