package hostfallback

import (
	"os"

	"golang.org/x/sys/windows/registry"
)

// onNT locates an interpreter as it is done here.
func (o Options) onNT(want string) (path, source string, err error) {
	return search{path: o.env("PATH"), size: programSize, registered: noted()}.find(want)
}

// programSize is the size of a program. What Windows runs by other means than its
// content, such as a placeholder, has none.
func programSize(path string) (int64, bool) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		info, err = os.Stat(path)
	}
	if err != nil || info.IsDir() {
		return 0, false
	}
	if !info.Mode().IsRegular() {
		return 0, true
	}
	return info.Size(), true
}

// noted reads what installers wrote down, for this user first. What cannot be
// read is not there.
func noted() []registered {
	var out []registered
	for _, root := range []registry.Key{registry.CURRENT_USER, registry.LOCAL_MACHINE} {
		const base = `Software\Python`
		for _, company := range subkeys(root, base) {
			if company == "PyLauncher" {
				continue
			}
			for _, tag := range subkeys(root, base+`\`+company) {
				if path := executable(root, base+`\`+company+`\`+tag+`\InstallPath`); path != "" {
					out = append(out, registered{Company: company, Tag: tag, Path: path})
				}
			}
		}
	}
	return out
}

func subkeys(root registry.Key, path string) []string {
	k, err := registry.OpenKey(root, path, registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return nil
	}
	defer func() { _ = k.Close() }() // opened for reading
	names, err := k.ReadSubKeyNames(-1)
	if err != nil {
		return nil
	}
	return names
}

// executable is the value ExecutablePath, or what older installers meant by the directory.
func executable(root registry.Key, path string) string {
	k, err := registry.OpenKey(root, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer func() { _ = k.Close() }() // opened for reading
	if file, _, err := k.GetStringValue("ExecutablePath"); err == nil && file != "" {
		return file
	}
	dir, _, err := k.GetStringValue("")
	if err != nil || dir == "" {
		return ""
	}
	if dir[len(dir)-1] != '\\' {
		dir += `\`
	}
	return dir + "python.exe"
}
