package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

// newJob makes a job with these limits. Only brig has a handle to it, so the
// kernel ends everything in it when brig ends. What the limits became is not
// taken from the success of setting them: see readJob.
func newJob(want Job) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("make a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: want.Flags, ActiveProcessLimit: want.ActiveProcesses,
		},
		ProcessMemoryLimit: uintptr(want.ProcessMemory), JobMemoryLimit: uintptr(want.JobMemory),
	}
	if err := setJob(job, windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&limits), unsafe.Sizeof(limits)); err != nil {
		_ = windows.CloseHandle(job) // nothing is in it
		return 0, fmt.Errorf("limit the job object: %w", err)
	}
	// These two are layers by themselves: a job without them still bounds memory
	// and ends the tree, and their rows say what was read back.
	if nested, err := inJob(windows.CurrentProcess(), 0); want.UI != 0 && err == nil && !nested {
		// A job with limits of the desktop cannot be below another, and what brig
		// starts is in the job that brig is in.
		ui := windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: want.UI}
		_ = setJob(job, windows.JobObjectBasicUIRestrictions, unsafe.Pointer(&ui), unsafe.Sizeof(ui))
	}
	if rate := want.Rate(runtime.NumCPU()); rate != 0 {
		cpu := cpuRate{rateEnable | rateHardCap, rate}
		_ = setJob(job, windows.JobObjectCpuRateControlInformation, unsafe.Pointer(&cpu), unsafe.Sizeof(cpu))
	}
	return job, nil
}

func setJob(job windows.Handle, class uint32, information unsafe.Pointer, size uintptr) error {
	_, err := windows.SetInformationJobObject(job, class, uintptr(information), uint32(size))
	return err
}

func queryJob(job windows.Handle, class int32, information unsafe.Pointer, size uintptr) error {
	return windows.QueryInformationJobObject(job, class, uintptr(information), uint32(size), nil)
}

// readJob is what the job says of its limits. What it does not say is not there.
func readJob(job windows.Handle) (Job, uint32, error) {
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if err := queryJob(job, windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&limits), unsafe.Sizeof(limits)); err != nil {
		return Job{}, 0, fmt.Errorf("read the limits of the job object: %w", err)
	}
	got := Job{
		Flags:         limits.BasicLimitInformation.LimitFlags,
		ProcessMemory: uint64(limits.ProcessMemoryLimit), JobMemory: uint64(limits.JobMemoryLimit),
		ActiveProcesses: limits.BasicLimitInformation.ActiveProcessLimit,
	}
	var ui windows.JOBOBJECT_BASIC_UI_RESTRICTIONS
	if queryJob(job, windows.JobObjectBasicUIRestrictions, unsafe.Pointer(&ui), unsafe.Sizeof(ui)) == nil {
		got.UI = ui.UIRestrictionsClass
	}
	var cpu cpuRate
	if queryJob(job, windows.JobObjectCpuRateControlInformation, unsafe.Pointer(&cpu), unsafe.Sizeof(cpu)) != nil || cpu.Flags&rateHardCap == 0 {
		return got, 0, nil
	}
	return got, cpu.Rate, nil
}

// active counts the living processes of a job.
func active(job windows.Handle) (int, error) {
	var a accounting
	if err := queryJob(job, windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		return 0, fmt.Errorf("count the processes of the job object: %w", err)
	}
	return int(a.Active), nil
}

// members are the living processes of a job, some thousands at most.
func members(job windows.Handle) []int {
	list := new(processIDs)
	if queryJob(job, windows.JobObjectBasicProcessIdList, unsafe.Pointer(list), unsafe.Sizeof(*list)) != nil {
		return nil
	}
	pids := make([]int, 0, list.Listed)
	for _, id := range list.IDs[:min(list.Listed, mostProcesses)] {
		pids = append(pids, int(id))
	}
	return pids
}
