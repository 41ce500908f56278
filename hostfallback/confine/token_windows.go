package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// primaryToken makes the token of the runner from a copy of ours. Ours is never
// touched: nobody can raise it again.
func primaryToken(want PrimaryToken) (windows.Token, error) {
	const access = windows.TOKEN_DUPLICATE | windows.TOKEN_ASSIGN_PRIMARY | windows.TOKEN_QUERY | windows.TOKEN_ADJUST_DEFAULT
	var own windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), access, &own); err != nil {
		return 0, fmt.Errorf("open brig's own token: %w", err)
	}
	defer func() { _ = own.Close() }() // a handle, nothing was written
	var flags uint32
	if want.DropPrivileges {
		flags |= disableMaxPrivilege
	}
	made, err := restrictedToken(own, flags)
	if err != nil {
		return 0, err
	}
	if want.Integrity == "" {
		return made, nil
	}
	if err := lower(made, want.Integrity); err != nil {
		_ = made.Close() // nobody runs with it
		return 0, err
	}
	return made, nil
}

func lower(t windows.Token, level string) error {
	sid, err := windows.StringToSid(level)
	if err != nil {
		return fmt.Errorf("read the integrity level %s: %w", level, err)
	}
	label := windows.Tokenmandatorylabel{Label: windows.SIDAndAttributes{Sid: sid, Attributes: windows.SE_GROUP_INTEGRITY}}
	if err := windows.SetTokenInformation(t, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)), label.Size()); err != nil {
		return fmt.Errorf("lower the integrity of the runner's token: %w", err)
	}
	return nil
}

// readToken is the integrity level and the enabled privileges of a process.
func readToken(process windows.Handle) (integrity string, privileges []string, err error) {
	var t windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &t); err != nil {
		return "", nil, fmt.Errorf("open the runner's token: %w", err)
	}
	defer func() { _ = t.Close() }() // opened to be asked
	raw, err := tokenInformation(t, windows.TokenIntegrityLevel)
	if err != nil {
		return "", nil, fmt.Errorf("read the integrity of the runner's token: %w", err)
	}
	integrity = (*windows.Tokenmandatorylabel)(unsafe.Pointer(&raw[0])).Label.Sid.String()
	raw, err = tokenInformation(t, windows.TokenPrivileges)
	if err != nil {
		return "", nil, fmt.Errorf("read the privileges of the runner's token: %w", err)
	}
	for _, p := range (*windows.Tokenprivileges)(unsafe.Pointer(&raw[0])).AllPrivileges() {
		privileges = append(privileges, privilegeName(p.Luid))
	}
	return integrity, privileges, nil
}

func tokenInformation(t windows.Token, class uint32) ([]byte, error) {
	var size uint32
	_ = windows.GetTokenInformation(t, class, nil, 0, &size) // it fails, and says how much room it needs
	raw := make([]byte, max(size, 64))
	if err := windows.GetTokenInformation(t, class, &raw[0], uint32(len(raw)), &size); err != nil {
		return nil, err
	}
	return raw, nil
}

// privilegeName is the name of a privilege, or its number where it has none.
func privilegeName(id windows.LUID) string {
	name, size := [64]uint16{}, uint32(64)
	ok, _, _ := windows.NewLazySystemDLL("advapi32.dll").NewProc("LookupPrivilegeNameW").Call(
		0, uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&size)))
	if ok == 0 {
		return fmt.Sprintf("privilege %d", id.LowPart)
	}
	return windows.UTF16ToString(name[:])
}
