package confine

import (
	"encoding/json"
	"strings"
	"testing"
)

func windowsPolicy(mode Mode) Policy {
	return Policy{
		Mode: mode, Network: NetworkDeny,
		Workspace: `C:\work`, Scratch: `C:\Users\u\AppData\Local\brig\run\host\t1\scratch`,
		Limits: Limits{Memory: 2 << 30, Processes: 64, MilliCPU: 1500},
	}
}

func TestJobRendersLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Policy)
		want   string
	}{
		{"all", func(*Policy) {}, `{"flags":9992,"process_memory":2147483648,"job_memory":2147483648,"active_processes":64,"ui":255,"milli_cpu":1500}`},
		{"off keeps limits and the tree kill", func(p *Policy) { p.Mode = ModeOff }, `{"flags":9992,"process_memory":2147483648,"job_memory":2147483648,"active_processes":64,"ui":0,"milli_cpu":1500}`},
		{"few processes leave room for launchers", func(p *Policy) { p.Limits.Processes = 3 }, `{"flags":9992,"process_memory":2147483648,"job_memory":2147483648,"active_processes":16,"ui":255,"milli_cpu":1500}`},
		{"no limits", func(p *Policy) { p.Limits = Limits{} }, `{"flags":9216,"process_memory":0,"job_memory":0,"active_processes":0,"ui":255,"milli_cpu":0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := windowsPolicy(ModeBestEffort)
			c.change(&p)
			got, err := json.Marshal(p.Job())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("job\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestJobLetsNobodyOut(t *testing.T) {
	for _, mode := range []Mode{ModeOff, ModeBestEffort, ModeRequire, ""} {
		j := windowsPolicy(mode).Job()
		if j.Flags&(JobBreakaway|JobSilentBreak) != 0 {
			t.Errorf("mode %q: flags %#x let a process leave the job", mode, j.Flags)
		}
		if j.Flags&JobKillOnClose == 0 {
			t.Errorf("mode %q: flags %#x leave processes behind when brig ends", mode, j.Flags)
		}
	}
}

func TestJobRate(t *testing.T) {
	for _, c := range []struct {
		milli, processors int
		want              uint32
	}{
		{1500, 4, 3750}, {1000, 1, 0}, {4000, 4, 0}, {8000, 4, 0}, {0, 4, 0}, {1000, 0, 0}, {1, 64, 1}, {1000, 3, 3333},
	} {
		if got := (Job{MilliCPU: c.milli}).Rate(c.processors); got != c.want {
			t.Errorf("%d of %d processors: got %d, want %d", c.milli, c.processors, got, c.want)
		}
	}
}

func TestPrimaryTokenIsLow(t *testing.T) {
	for _, mode := range []Mode{ModeBestEffort, ModeRequire, ""} {
		if got, want := windowsPolicy(mode).PrimaryToken(), (PrimaryToken{Integrity: "S-1-16-4096", DropPrivileges: true}); got != want {
			t.Errorf("mode %q: got %+v, want %+v", mode, got, want)
		}
	}
	if got, want := windowsPolicy(ModeOff).PrimaryToken(), (PrimaryToken{DropPrivileges: true}); got != want {
		t.Errorf("off: got %+v, want %+v", got, want)
	}
}

func TestLabelsAreWhereCodeMayWrite(t *testing.T) {
	p := windowsPolicy(ModeRequire)
	got, err := json.Marshal(p.Labels())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"path":"C:\\work","sddl":"S:(ML;OICI;NW;;;LW)","entry":"S:(ML;;NW;;;LW)","restore":true},` +
		`{"path":"C:\\Users\\u\\AppData\\Local\\brig\\run\\host\\t1\\scratch","sddl":"S:(ML;OICI;NW;;;LW)","entry":"S:(ML;;NW;;;LW)","restore":false}]`
	if string(got) != want {
		t.Errorf("labels\n got %s\nwant %s", got, want)
	}
	if off := windowsPolicy(ModeOff).Labels(); off != nil {
		t.Errorf("off labels %+v", off)
	}
}

func TestWindowsEnvironment(t *testing.T) {
	got := WindowsPlace{Root: `C:\Windows`, Python: `D:\py\python.exe`, Scratch: `E:\s`, Token: "t1", Threads: 2}.Environment()
	want := []string{
		`SystemRoot=C:\Windows`, `windir=C:\Windows`, `SystemDrive=C:`, `OS=Windows_NT`,
		`ComSpec=C:\Windows\System32\cmd.exe`, `PATHEXT=.COM;.EXE;.BAT;.CMD`,
		`PATH=D:\py;D:\py\Scripts;C:\Windows\System32;C:\Windows`,
		`TEMP=E:\s`, `TMP=E:\s`, `HOME=E:\s`, `USERPROFILE=E:\s`, `HOMEDRIVE=E:`, `HOMEPATH=\s`,
		`APPDATA=E:\s\AppData\Roaming`, `LOCALAPPDATA=E:\s\AppData\Local`, `USERNAME=brig`, `XDG_CACHE_HOME=E:\s\.cache`,
		`MPLCONFIGDIR=E:\s\.matplotlib`, `MPLBACKEND=agg`, `PYTHONUNBUFFERED=1`, `PYTHONUTF8=1`,
		`GIT_CONFIG_NOSYSTEM=1`, `GIT_CONFIG_GLOBAL=NUL`, `NUMBER_OF_PROCESSORS=2`,
		`OMP_NUM_THREADS=2`, `OPENBLAS_NUM_THREADS=2`, `MKL_NUM_THREADS=2`, `NUMEXPR_NUM_THREADS=2`, `BRIG_INSTANCE=t1`,
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("environment\n got %s\nwant %s", a, b)
	}
}
