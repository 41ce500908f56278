package hostfallback

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"brig/orchestrator/sandbox"
)

//go:embed ask.py
var askProgram string

const (
	askTimeout = 10 * time.Second
	maxAnswer  = 1 << 20
	maxStderr  = 4 << 10
)

// interpreter is a Python found on this machine, and what it said about itself
// outside of any sandbox.
type interpreter struct {
	Found  string // the path it was found or configured at
	Source string // why that one
	About  about
	// Left are directories that it looks for modules in and that are not its own:
	// no instance may read them.
	Left []string
}

// about is the answer of ask.py.
type about struct {
	Version        [3]int   `json:"version"`
	Implementation string   `json:"implementation"`
	Executable     string   `json:"executable"`
	Prefixes       []string `json:"prefixes"`
	Own            []string `json:"own"`
	Path           []string `json:"path"`
	Loaded         []string `json:"loaded"`
}

func (a about) version() string {
	return fmt.Sprintf("%d.%d.%d", a.Version[0], a.Version[1], a.Version[2])
}

// unavailable is the answer where no interpreter can be used.
func unavailable(code, remedy string, err error, format string, args ...any) *sandbox.Unavailable {
	return &sandbox.Unavailable{
		Backend: sandbox.Host, Code: code, Reason: fmt.Sprintf(format, args...), Remedy: remedy, Err: err,
	}
}

const (
	remedyConfigure = "set host.python to an interpreter of 3.8 or newer, for example: export BRIG_HOST_PYTHON=/usr/bin/python3"
)

// find locates an interpreter by name or path. want comes from the session,
// then from the options; empty means the first python3 or python on PATH.
func (o Options) find(want string) (path, source string, err error) {
	source = "host.python"
	if want == "" {
		want = o.Python
	}
	if isWindows {
		return o.onNT(want)
	}
	if want == "" {
		var stub error
		for _, name := range []string{"python3", "python"} {
			path, ok := lookPath(name, o.env("PATH"))
			switch {
			case ok && isDarwin && standIn(path, exists):
				stub = noPythonBehind() // there may be another by the other name
			case ok:
				return path, "found on PATH", nil
			}
		}
		if stub != nil {
			return "", "", stub
		}
		return "", "", unavailable("python-missing", remedyInstall, nil, "no python3 was found on PATH")
	}
	if !strings.ContainsRune(want, filepath.Separator) {
		path, ok := lookPath(want, o.env("PATH"))
		if !ok {
			return "", "", unavailable("python-missing", remedyConfigure, nil, "host.python is %s, and that is not on PATH", want)
		}
		if isDarwin && standIn(path, exists) {
			return "", "", noPythonBehind()
		}
		return path, source, nil
	}
	path, err = filepath.Abs(want)
	if err != nil {
		return "", "", fmt.Errorf("resolve host.python: %w", err)
	}
	info, err := os.Stat(path)
	target, link := os.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && link == nil:
		return "", "", unavailable("python-missing", remedyConfigure, err,
			"host.python is %s, which is a link to %s, and that does not exist; a virtual environment is like this when its Python was removed", path, target)
	case errors.Is(err, fs.ErrNotExist):
		return "", "", unavailable("python-missing", remedyConfigure, err, "host.python is %s, and there is no such file", path)
	case err != nil:
		return "", "", unavailable("python-unreadable", remedyConfigure, err, "host.python %s cannot be looked at: %v", path, err)
	case info.IsDir():
		remedy := remedyConfigure
		if inside := filepath.Join(path, "bin", "python3"); exists(inside) {
			remedy = "export BRIG_HOST_PYTHON=" + inside
		}
		return "", "", unavailable("python-not-executable", remedy, nil, "host.python %s is a directory and not an executable file", path)
	case info.Mode()&0o111 == 0:
		return "", "", unavailable("python-not-executable", remedyConfigure, nil, "host.python %s is not an executable file", path)
	}
	if isDarwin && standIn(path, exists) {
		return "", "", noPythonBehind()
	}
	return path, source, nil
}

// lookPath is exec.LookPath over a given PATH. Relative entries do not count:
// an interpreter must not depend on where brig was started.
func lookPath(name, path string) (string, bool) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", false
}

// answers remembers what interpreters said, so that one start asks once.
type answers struct {
	mu     sync.Mutex
	recent map[string]answer // by memory file
}

type answer struct {
	about about
	at    time.Time
}

// scriptAge is how long the answer of a script counts: long enough for one
// start, short enough that a switched version is noticed by the next.
const scriptAge = 10 * time.Second

// interpret finds the interpreter and asks it about itself, or remembers what it
// said when it was the same file. runner is the directory of the runner's files.
func (o Options) interpret(ctx context.Context, known *answers, want, runner string) (interpreter, error) {
	path, source, err := o.find(want)
	if err != nil {
		return interpreter{}, err
	}
	in := interpreter{Found: path, Source: source}
	if in.About, err = o.recall(ctx, known, path, runner); err != nil {
		return interpreter{}, err
	}
	if in.About.Version[0] != 3 || in.About.Version[1] < 8 {
		return interpreter{}, unavailable("python-too-old", remedyConfigure, nil,
			"%s is Python %s, and brig needs 3.8 or newer", path, in.About.version())
	}
	_, in.Left = o.trees(in)
	return in, nil
}

func (o Options) recall(ctx context.Context, known *answers, path, runner string) (about, error) {
	memory := o.memory(path, runner)
	if a, err := remembered(memory); err == nil {
		return a, nil
	}
	// Held while asking: whoever comes meanwhile wants the same answer.
	known.mu.Lock()
	defer known.mu.Unlock()
	if a, ok := known.recent[memory]; ok && time.Since(a.at) < scriptAge {
		return a.about, nil
	}
	a, err := o.ask(ctx, path, runner)
	if err != nil {
		return about{}, err
	}
	// Only a program is the same as long as its file is. A script that looks for
	// an interpreter can find another one tomorrow.
	if isProgram(path) {
		remember(memory, a)
		return a, nil
	}
	if known.recent == nil {
		known.recent = make(map[string]answer)
	}
	known.recent[memory] = answer{a, time.Now()}
	return a, nil
}

// memory is the file with the answer of this very interpreter.
func (o Options) memory(path, runner string) string {
	key := []string{path, runner, askProgram}
	for _, p := range []string{path, filepath.Dir(path) + "/../pyvenv.cfg"} {
		if info, err := os.Stat(p); err == nil {
			key = append(key, info.ModTime().String(), strconv.FormatInt(info.Size(), 10))
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return filepath.Join(o.Cache, "python", hex.EncodeToString(sum[:12])+".json")
}

func remembered(file string) (about, error) {
	var a about
	raw, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, err
	}
	_, err = os.Stat(a.Executable)
	return a, err
}

// remember is an optimisation: what cannot be written is asked again.
func remember(file string, a about) {
	raw, err := json.Marshal(a)
	if err != nil {
		panic("BUG: an interpreter's answer does not marshal: " + err.Error())
	}
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err != nil {
		return
	}
	_, err = f.Write(raw)
	if errors.Join(err, f.Close()) != nil || os.Rename(f.Name(), file) != nil {
		_ = os.Remove(f.Name()) // it may be gone already
	}
}

// ask runs the interpreter outside of any sandbox, isolated from the user's
// settings. It runs no code but its own start-up and ask.py.
func (o Options) ask(ctx context.Context, path, runner string) (about, error) {
	patience := cmp.Or(o.patience, askTimeout)
	slow := fmt.Errorf("no answer within %s", patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, slow)
	defer cancel()
	var out, errs bounded
	out.left, errs.left = maxAnswer, maxStderr
	cmd := exec.CommandContext(ctx, path, "-I", "-c", askProgram, runner)
	// HOME is for version managers, whose python3 is a script that looks for one.
	cmd.Env = []string{"PATH=" + filepath.Dir(path) + ":/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + o.env("HOME")}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, slow) {
		return about{}, unavailable("python-hangs", "see what it waits for: "+path+" -I -c pass", err,
			"%s does not say within %s what it is%s", path, patience, quoted(errs.String()))
	}
	if err == nil {
		a, ok := answerOf(out.Bytes())
		if ok {
			return a, nil
		}
		said := quoted(out.String())
		if said == "" {
			said = " nothing"
		}
		return a, notPython(path, nil, "asked about itself, it answers"+said)
	}
	// Versions before 3.4 know neither -I nor the modules that are asked for.
	if old, ok := oldVersion(ctx, path); ok {
		return old, nil
	}
	why := err.Error()
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		why = path.Err.Error()
	}
	if errors.Is(err, syscall.ENOEXEC) || strings.Contains(why, "bad CPU type") {
		why += ": it is for another processor or system, or damaged"
	}
	// A program that does not know what -c means repeats the question in its complaint.
	if said := errs.String(); strings.HasPrefix(said, "pyenv:") {
		// Advice for a shell follows. What helps here is the interpreter itself.
		return about{}, unavailable("python-broken", shimRemedy(path), err,
			"%s is a shim of pyenv that finds no interpreter%s", path, quoted(firstLine(said)))
	} else if !strings.Contains(said, firstLine(askProgram)) {
		why += quoted(said)
	}
	return about{}, notPython(path, err, "asked about itself, it ends with "+why)
}

// answerOf reads what an interpreter said about itself. What says less than
// every Python does is none.
func answerOf(raw []byte) (about, bool) {
	var a about
	err := json.Unmarshal(raw, &a)
	return a, err == nil && a.Version[0] > 0 && a.Implementation != "" && filepath.IsAbs(a.Executable)
}

// shimRemedy names an interpreter of the shim's name among the versions of pyenv.
func shimRemedy(shim string) string {
	root := filepath.Dir(filepath.Dir(shim))
	found, _ := filepath.Glob(filepath.Join(root, "versions", "*", "bin", filepath.Base(shim))) // a bad pattern finds nothing
	if len(found) == 0 {
		return remedyConfigure
	}
	return "export BRIG_HOST_PYTHON=" + found[len(found)-1]
}

func notPython(path string, err error, why string) error {
	return unavailable("python-broken", remedyConfigure, err, "%s is not a Python interpreter: %s", path, why)
}

// oldVersion asks for the version in the one way that every Python understands.
func oldVersion(ctx context.Context, path string) (about, bool) {
	cmd := exec.CommandContext(ctx, path, "-V")
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return about{}, false
	}
	var a about
	n, err := fmt.Sscanf(string(out), "Python %d.%d.%d", &a.Version[0], &a.Version[1], &a.Version[2])
	return a, err == nil && n == 3 && a.Version[0] < 3
}

// bounded is a buffer that drops what is beyond its size.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.left)]
	b.left -= len(keep)
	b.Buffer.Write(keep)
	return len(p), nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// isProgram tells a program from a script that starts one.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // opened for reading
	var magic [4]byte
	n, err := f.Read(magic[:])
	if err != nil || n < len(magic) {
		return false
	}
	switch string(magic[:]) {
	case "\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe": // the last two of macOS, for one processor and for several
		return true
	}
	return string(magic[:2]) == "MZ"
}
