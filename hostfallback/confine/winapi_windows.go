package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What of Windows is not in golang.org/x/sys/windows.

const (
	disableMaxPrivilege = 0x1        // of CreateRestrictedToken
	attributeJobList    = 0x0002000D // PROC_THREAD_ATTRIBUTE_JOB_LIST
	rateEnable          = 0x1        // JOB_OBJECT_CPU_RATE_CONTROL_ENABLE
	rateHardCap         = 0x4
)

// cpuRate is JOBOBJECT_CPU_RATE_CONTROL_INFORMATION.
type cpuRate struct{ Flags, Rate uint32 }

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	User, Kernel, PeriodUser, PeriodKernel int64
	Faults, Total, Active, Terminated      uint32
}

const mostProcesses = 4096

// processIDs is JOBOBJECT_BASIC_PROCESS_ID_LIST with room for some.
type processIDs struct {
	Assigned, Listed uint32
	IDs              [mostProcesses]uintptr
}

func restrictedToken(from windows.Token, flags uint32) (windows.Token, error) {
	var made windows.Token
	ok, _, err := windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken").Call(
		uintptr(from), uintptr(flags), 0, 0, 0, 0, 0, 0, uintptr(unsafe.Pointer(&made)))
	if ok == 0 {
		return 0, fmt.Errorf("CreateRestrictedToken: %w", err)
	}
	return made, nil
}

func inJob(process, job windows.Handle) (bool, error) {
	var result int32
	ok, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob").Call(
		uintptr(process), uintptr(job), uintptr(unsafe.Pointer(&result)))
	if ok == 0 {
		return false, fmt.Errorf("IsProcessInJob: %w", err)
	}
	return result != 0, nil
}

// emulator is the name and version of what only claims to be Windows, or empty.
func emulator() string {
	wine := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")
	if wine.Find() != nil {
		return ""
	}
	text, _, _ := wine.Call()
	if text == 0 {
		return "wine"
	}
	return "wine " + windows.BytePtrToString(*(**byte)(unsafe.Pointer(&text)))
}
