package ordinary

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// firstUID begins a range of user ids that no distribution hands out.
const firstUID = 2_000_000

// Main runs the tests of m and returns the exit status. As root it runs a copy
// of the binary as a user of its own, in a directory that this user owns.
func Main(m *testing.M) int {
	if os.Getuid() != 0 || inPlace() || os.Getenv(rootEnv) != "" {
		return m.Run()
	}
	status, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests as an ordinary user:", err)
		return 1
	}
	return status
}

// MainAndRoot does the same, and runs the tests whose names begin with TestRoot
// as root, where this is root: those are about being root.
func MainAndRoot(m *testing.M) int {
	status := Main(m)
	if os.Getuid() != 0 || inPlace() || os.Getenv(rootEnv) != "" {
		return status
	}
	args := append(os.Args[1:len(os.Args):len(os.Args)], "-test.skip=^(Test([^R]|R[^o]|Ro[^o]|Roo[^t])|Fuzz|Example)", "-test.bench=")
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), rootEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if state := cmd.ProcessState; state == nil || !state.Exited() {
		fmt.Fprintln(os.Stderr, "run the tests about root:", err)
		return 1
	}
	return max(status, cmd.ProcessState.ExitCode())
}

// rootEnv marks the process that runs the tests about root.
const rootEnv = "BRIG_ORDINARY_ROOT"

func again() (int, error) {
	dir, err := os.MkdirTemp("", "brig-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of a test
	uid := firstUID + os.Getpid()
	binary := filepath.Join(dir, "tests")
	if err := copyFile(binary, "/proc/self/exe"); err != nil {
		return 0, err
	}
	home := filepath.Join(dir, "home")
	for _, d := range []string{home, filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return 0, err
		}
		if err := os.Chown(d, uid, uid); err != nil {
			return 0, err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	var args []string
	for _, a := range os.Args[1:] {
		// Files of the go command that the user may not write.
		if !strings.HasPrefix(a, "-test.testlogfile") && !strings.HasPrefix(a, "-test.coverprofile") && !strings.HasPrefix(a, "-test.gocoverdir") {
			args = append(args, a)
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = home
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + filepath.Join(dir, "tmp"), "LANG=C.UTF-8"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "BRIG_TEST_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: false},
		Pdeathsig:  syscall.SIGKILL,
	}
	if group, remove, ok := delegate(uid, os.Getenv("BRIG_TEST_GROUP")); ok {
		defer remove()
		defer func() { _ = group.Close() }() // opened for reading
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	err = cmd.Run()
	if state := cmd.ProcessState; state != nil && state.Exited() {
		return state.ExitCode(), nil
	}
	return 0, err
}

// inPlace tells the runs that work on files of the package: fuzzing and the
// update of golden files.
func inPlace() bool {
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.fuzz=") || strings.HasPrefix(a, "-test.fuzzworker") || a == "-update" {
			return true
		}
	}
	return false
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // opened for reading
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	_, err = io.Copy(out, in)
	return err
}
