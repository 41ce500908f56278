package hostfallback

// appleStub is what Apple puts in the place of Python on every Mac.
const appleStub = "/usr/bin/python3"

// standIn says that a path is Apple's stand-in with no Python behind it. Started,
// it opens a window that offers to install one, and does not end before that.
func standIn(path string, exists func(string) bool) bool {
	if path != appleStub {
		return false
	}
	for _, behind := range []string{
		"/Library/Developer/CommandLineTools/usr/bin/python3",
		"/Applications/Xcode.app/Contents/Developer/usr/bin/python3",
		"/var/db/xcode_select_link/usr/bin/python3",
	} {
		if exists(behind) {
			return false
		}
	}
	return true
}

func noPythonBehind() error {
	return unavailable("python-apple-stub", "xcode-select --install", nil,
		"%s is Apple's stand-in, and there is no Python behind it: it would open a window instead of running code", appleStub)
}

// stores are directories of package managers whose programs find their libraries
// by paths all over their tree. Where the interpreter is in one, all of it is granted;
// of Homebrew not its etc and var, where databases and keys may lie.
func stores(executable string) []string {
	var out []string
	for _, store := range []string{"/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew"} {
		if within(executable, store) {
			out = append(out, store)
		}
	}
	for _, brew := range []string{"/opt/homebrew", "/usr/local"} {
		if within(executable, brew+"/Cellar") {
			for _, dir := range []string{"Cellar", "opt", "lib", "Frameworks", "etc/openssl@3", "etc/ca-certificates"} {
				out = append(out, brew+"/"+dir)
			}
		}
	}
	return out
}
