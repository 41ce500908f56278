package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Streams are the ends of the runner's standard streams that it is given.
type Streams struct{ In, Out, Err *os.File }

// born is a process that has not executed its first instruction.
type born struct {
	process, thread windows.Handle
	pid             int
	inside          bool // it was made in the job
}

// bear makes the runner: suspended, in the job, with the token, an environment
// that is made anew, and three handles. Those are the only ones it could inherit.
func bear(plan Plan, s Streams, job windows.Handle, token windows.Token) (born, error) {
	handles := []windows.Handle{windows.Handle(s.In.Fd()), windows.Handle(s.Out.Fd()), windows.Handle(s.Err.Fd())}
	for _, h := range handles {
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return born{}, fmt.Errorf("let the runner inherit its streams: %w", err)
		}
	}
	attributes, err := windows.NewProcThreadAttributeList(2)
	if err != nil {
		return born{}, err
	}
	defer attributes.Delete()
	if err := attributes.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&handles[0]), uintptr(len(handles))*unsafe.Sizeof(handles[0])); err != nil {
		return born{}, fmt.Errorf("bound the handles of the runner: %w", err)
	}
	// A system that does not know this one has the process assigned while it is
	// suspended; whether it was born inside is asked, below.
	_ = attributes.Update(attributeJobList, unsafe.Pointer(&job), unsafe.Sizeof(job))
	si := windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	si.Cb = uint32(unsafe.Sizeof(si))
	si.Flags = windows.STARTF_USESTDHANDLES
	si.StdInput, si.StdOutput, si.StdErr = handles[0], handles[1], handles[2]

	program, err := windows.UTF16PtrFromString(plan.Command[0])
	if err != nil {
		return born{}, err
	}
	line, err := windows.UTF16PtrFromString(windows.ComposeCommandLine(plan.Command))
	if err != nil {
		return born{}, err
	}
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return born{}, err
	}
	directory, err := windows.UTF16PtrFromString(root)
	if err != nil {
		return born{}, err
	}
	block, err := environmentBlock(plan.Env)
	if err != nil {
		return born{}, err
	}
	// A console of its own that nobody sees: Ctrl-C in brig's is not for it, and
	// it can press Ctrl-Break in its own.
	const flags = windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP |
		windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT
	var pi windows.ProcessInformation
	if err := windows.CreateProcessAsUser(token, program, line, nil, nil, true, flags, &block[0], directory, &si.StartupInfo, &pi); err != nil {
		return born{}, fmt.Errorf("start %s: %w", plan.Command[0], err)
	}
	b := born{process: pi.Process, thread: pi.Thread, pid: int(pi.ProcessId)}
	b.inside, err = inJob(b.process, job)
	if err == nil && !b.inside {
		err = windows.AssignProcessToJobObject(job, b.process)
	}
	if err != nil {
		return born{}, errors.Join(fmt.Errorf("put the runner into its job: %w", err), b.discard())
	}
	return b, nil
}

// begin lets it execute its first instruction.
func (b born) begin() error {
	if _, err := windows.ResumeThread(b.thread); err != nil {
		return fmt.Errorf("resume the runner: %w", err)
	}
	return windows.CloseHandle(b.thread)
}

// discard ends what has not begun.
func (b born) discard() error {
	err := windows.TerminateProcess(b.process, 1)
	return errors.Join(err, windows.CloseHandle(b.thread), windows.CloseHandle(b.process))
}

// environmentBlock is an environment as CreateProcess wants it: sorted without
// regard to case, each variable and the whole ended by a zero.
func environmentBlock(env []string) ([]uint16, error) {
	sorted := slices.SortedFunc(slices.Values(env), func(a, b string) int {
		return strings.Compare(strings.ToUpper(a), strings.ToUpper(b))
	})
	var block []uint16
	for _, variable := range sorted {
		if strings.ContainsRune(variable, 0) {
			return nil, errors.New("a variable of the environment holds a zero")
		}
		block = append(append(block, utf16.Encode([]rune(variable))...), 0)
	}
	return append(block, 0), nil
}
