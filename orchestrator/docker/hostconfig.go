package docker

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"brig/images"
	"brig/orchestrator/sandbox"
)

// Paths inside a container.
const (
	workspacePath = "/workspace"
	scratchPath   = "/scratch"
)

const (
	shmSize   = 16 << 20 // for semaphores of process pools; charged to the memory limit
	hostname  = "sandbox"
	oomScore  = 500 // the machine gives up a session before its own programs
	minMemory = 64 << 20
)

// spec is everything that decides what one container is. It is a request: what
// came of it is read back, see posture.go.
type spec struct {
	name      string // of the container
	id        string // in the instance label
	image     images.Ref
	choice    images.Choice // as the Base asked, to look for the image again
	limits    sandbox.Limits
	runtime   runtimeChoice
	workspace place
	user      user
	seccomp   string
	cpus      int // of the engine
	podman    bool
	lease     time.Duration // zero: it ends with brig's stream
	sabotaged
}

// place is where the workspace lives.
type place struct {
	directory string // host directory that is bound; empty: a tmpfs of its own
}

type user struct{ uid, gid int }

func (u user) String() string { return strconv.Itoa(u.uid) + ":" + strconv.Itoa(u.gid) }

// sandboxUser is who runs code where the invoking user cannot or should not.
func sandboxUser() user { return user{65532, 65532} }

// config is the container's own half.
func (s spec) config(labels map[string]string) *container.Config {
	return &container.Config{
		Hostname:    hostname,
		User:        s.user.String(),
		Image:       s.image.ID,
		Labels:      labels,
		Env:         s.environment(),
		WorkingDir:  workspacePath,
		OpenStdin:   true,
		StdinOnce:   s.lease == 0, // when brig's stream ends, so does the runner's input, and so the runner, unless it has a lease
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		StopSignal: "SIGKILL",
	}
}

// environment is the whole of what brig adds; nothing of a session is in it.
func (s spec) environment() []string {
	threads := strconv.Itoa(int(math.Ceil(s.cores())))
	return []string{
		"HOME=" + scratchPath,
		"TMPDIR=/tmp",
		"LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1",
		"OMP_NUM_THREADS=" + threads,
		"OPENBLAS_NUM_THREADS=" + threads,
	}
}

// cores is the processor limit; an engine refuses more than it has.
func (s spec) cores() float64 {
	cores := float64(s.limits.MilliCPU) / 1000
	if s.cpus > 0 {
		cores = min(cores, float64(s.cpus))
	}
	return cores
}

// sizes of the in-memory file systems. Together with shmSize they stay below half
// of the memory limit, to which every byte in them is charged.
func (s spec) sizes() (scratch, tmp, workspace int64) {
	if s.workspace.directory != "" {
		return s.limits.Memory / 4, s.limits.Memory / 8, 0
	}
	return s.limits.Memory / 8, s.limits.Memory / 16, s.limits.WorkspaceInMemory()
}

// hostConfig is the hardened half. Every field that widens anything is absent
// here and no caller can set one. What else is absent, and why:
//
//	apparmor= and label= of SecurityOpt   the engine's own profile and label apply where the machine has a module
//	UsernsMode, PidMode, UTSMode          empty is private; "host" would switch a mapping of the engine off
//	StorageOpt                            the root is read-only, and some engines accept a size that they ignore
//	KernelMemoryTCP                       runc ignores it and engines repeat it; what limits TCP is read back
//	MemorySwappiness, OomKillDisable      without swap the first says nothing; the second hangs a session at its limit
//	CpusetCpus, blkio weights             the first fails where a processor is absent, the second is dropped silently
//	StopTimeout                           the stop signal is SIGKILL, so nothing is waited for
//	Devices, GroupAdd, CapAdd, Binds      nothing of the machine is given
func (s spec) hostConfig() *container.HostConfig {
	scratch, tmp, work := s.sizes()
	tmpfs := map[string]string{
		"/tmp":      s.tmpfs(tmp),
		scratchPath: s.tmpfs(scratch),
	}
	var mounts []mount.Mount
	if s.workspace.directory != "" {
		// Mounts and not Binds: a missing source is an error and not a new directory.
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: s.workspace.directory, Target: workspacePath,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	} else {
		tmpfs[workspacePath] = s.tmpfs(work)
	}
	threads := s.hostThreads()
	noInit := false
	return &container.HostConfig{
		// Some engines, 20.10 among them, remove a container that is to be removed at its
		// end also when they come back from a restart which it has survived. One with a
		// lease has to outlive that; brig removes it, at the latest at a later sweep.
		AutoRemove:     s.lease == 0,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "none"},
		NetworkMode:    "none",
		ExtraHosts:     []string{hostname + ":127.0.0.1"},
		DNS:            s.resolvers(),
		DNSSearch:      s.searched(),
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges", "seccomp=" + s.seccomp},
		ReadonlyRootfs: true,
		Tmpfs:          tmpfs,
		Mounts:         mounts,
		IpcMode:        container.IPCModePrivate,
		ShmSize:        shmSize,
		CgroupnsMode:   container.CgroupnsModePrivate,
		OomScoreAdj:    oomScore,
		Runtime:        s.runtime.name,
		Init:           &noInit, // the runner reaps, and its exit status is nobody else's
		MaskedPaths:    maskedPaths(),
		ReadonlyPaths:  readonlyPaths(),
		Resources: container.Resources{
			Memory:     s.limits.Memory,
			MemorySwap: s.limits.Memory, // equal: no swap on top
			NanoCPUs:   int64(s.cores() * 1e9),
			PidsLimit:  &threads,
			Ulimits:    s.ulimits(),
		},
	}
}

// watched says that the workspace is a directory that brig has to watch, because
// nothing limits it; otherwise it is a file system with a size.
func (s spec) watched() bool { return s.workspace.directory != "" }

// resolvers and searched keep the machine's own name servers and domains, which an
// engine copies even where there is no network, from being read inside. Podman
// refuses them there.
func (s spec) resolvers() []string {
	if s.podman {
		return nil
	}
	return []string{"127.0.0.1"}
}

func (s spec) searched() []string {
	if s.podman {
		return nil
	}
	return []string{"."}
}

func (s spec) ulimits() []*units.Ulimit {
	both := func(name string, n int64) *units.Ulimit { return &units.Ulimit{Name: name, Soft: n, Hard: n} }
	limits := []*units.Ulimit{both("nofile", int64(s.limits.OpenFiles)), both("core", 0), both("fsize", s.limits.FileSize)}
	if s.runtime.kernel == gvisorKernel {
		// Only there: a guest has users of its own. Otherwise it counts per user of the
		// machine, and two sessions would starve each other.
		limits = append(limits, both("nproc", int64(s.limits.Processes)))
	}
	return limits
}

func (s spec) tmpfs(size int64) string {
	options := fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d", size)
	if s.podman { // refuses uid= and gid=, and gives it to who runs the container if it is asked to
		return options + ",mode=0700,U"
	}
	return fmt.Sprintf("%s,mode=0700,uid=%d,gid=%d", options, s.user.uid, s.user.gid)
}

// maskedPaths replaces the engine's list, so it repeats all of it; older engines
// lack the last ones.
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/proc/interrupts", "/sys/devices/virtual/powercap",
		// and none has those that tell of the machine and of its other users
		"/proc/cmdline", "/proc/config.gz", "/proc/key-users",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
