package confine

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkTick measures one look at a tree of eight processes with forty
// descriptors each, and one at a process with ten thousand.
func BenchmarkTick(b *testing.B) {
	for name, program := range map[string]string{
		"usual": `
import os, time
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]
for _ in range(7):
    if os.fork() == 0: break
print("ready", flush=True); time.sleep(600)`,
		"many": `
import os, resource, time
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE); resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(min(hard - 10, 10000))]
print("ready", flush=True); time.sleep(600)`,
	} {
		b.Run(name, func(b *testing.B) { benchmarkTick(b, program) })
	}
}

func benchmarkTick(b *testing.B, program string) {
	tree := startTree(b, program)
	m := watchMemory(1<<40, tree)
	defer m.close()
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			m.of(descendants(os.Getpid()))
		}
	})
	m.limit = 0
	b.Run("memory closely", func(b *testing.B) {
		for b.Loop() {
			m.of(descendants(os.Getpid()))
		}
	})
	b.Run("disk", func(b *testing.B) {
		for b.Loop() {
			_, _ = heldDisk(descendants(os.Getpid()), tree, []string{"/nowhere"})
		}
	})
}

// startTree starts a program and waits until it says that its tree stands.
func startTree(b *testing.B, program string) int {
	b.Helper()
	cmd := exec.Command(python, "-I", "-c", program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait() // killed
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return cmd.Process.Pid
}
