//go:build unix

package config_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"brig/orchestrator/config"
	"brig/orchestrator/sandbox"
	"brig/orchestrator/sandbox/sandboxtest"
)

// Whoever could write the settings could switch the sandbox off.
func TestFilePermissions(t *testing.T) {
	e := bare(t.TempDir())
	for _, c := range []struct {
		file, dir fs.FileMode
		want      string
	}{
		{0o600, 0o700, ""},
		{0o644, 0o755, ""},
		{0o400, 0o500, ""},
		{0o644, 0o777 | fs.ModeSticky, ""},
		{0o602, 0o700, "users besides its owner can write it, so somebody else could weaken the sandbox; chmod go-w "},
		{0o600, 0o703, "users besides its owner can write it"},
	} {
		path := file(t, `host.sandbox = "off"`)
		must(t, os.Chmod(path, c.file))
		must(t, os.Chmod(filepath.Dir(path), c.dir))
		_, err := config.Load(e.look, path)
		must(t, os.Chmod(filepath.Dir(path), 0o700))
		if c.want == "" {
			must(t, err)
			continue
		}
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("file %v in %v: %v", c.file, c.dir, err)
		}
	}
}

// as runs a test of this file again as an ordinary user, whose group is his own,
// and says whether that is so already.
func as(t *testing.T, uid, gid uint32) bool {
	t.Helper()
	if os.Geteuid() == int(uid) && os.Getegid() == int(gid) {
		return true
	}
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to become an ordinary user", "another user")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid %d, gid %d: %v\n%s", uid, gid, err, out)
	}
	return false
}

// Where everybody has a group of his own, everything is writable by it, and that
// lets nobody in.
func TestPrivateGroup(t *testing.T) {
	if !as(t, 65534, 65534) {
		return
	}
	e := bare(t.TempDir())
	path := file(t, "pool.host = 3")
	must(t, os.Chmod(path, 0o664))
	must(t, os.Chmod(filepath.Dir(path), 0o775))
	if l, err := config.Load(e.look, path); err != nil || l.Config.Pool.Host != 3 {
		t.Errorf("%+v, %v", l.Config.Pool, err)
	}
	dir := filepath.Join(t.TempDir(), "brig")
	must(t, os.Mkdir(dir, 0o775))
	must(t, os.Chmod(dir, 0o775))
	must(t, config.Ensure(config.Paths{Config: dir, State: dir, Data: dir, Cache: dir, Runtime: dir}))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must(t, os.Chmod(path, 0o666))
	if _, err := config.Load(e.look, path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that everybody can write: %v", err)
	}
}

// A group of several lets the others in.
func TestSharedGroup(t *testing.T) {
	if !as(t, 65534, 65533) {
		return
	}
	path := file(t, "")
	for _, open := range []string{path, filepath.Dir(path)} {
		must(t, os.Chmod(open, 0o770))
		_, err := config.Load(bare(t.TempDir()).look, path)
		if !errors.Is(err, fs.ErrPermission) || !strings.HasSuffix(err.Error(), "users besides its owner can write it, so somebody else could weaken the sandbox; chmod go-w "+open) {
			t.Errorf("%s: %v", open, err)
		}
		must(t, os.Chmod(open, 0o700))
	}
}

// Whoever can write above the file can put another directory in its place.
func TestDirectoriesAbove(t *testing.T) {
	above := func(t *testing.T) (home, path string) {
		t.Helper()
		home = filepath.Join(filepath.Dir(file(t, "")), "home")
		path = filepath.Join(home, ".config", "brig", "config.toml")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(`host.sandbox = "require"`), 0o600))
		return home, path
	}
	load := func(home string) error {
		l, err := config.Load(bare(home).look, filepath.Join(home, ".config", "brig", "config.toml"))
		if err == nil && l.Config.Host.Sandbox != sandbox.ModeRequire {
			t.Errorf("loaded %+v", l.Config.Host)
		}
		return err
	}
	for _, c := range []struct {
		name, dir string
		mode      fs.FileMode
		refused   bool
	}{
		{"control", ".config", 0o755, false},
		{"the directory above", ".config", 0o777, true},
		{"with the sticky bit", ".config", 0o777 | fs.ModeSticky, false},
		{"the home directory", ".", 0o757, true},
		{"what is above home is the administrator's", "..", 0o777, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, _ := above(t)
			dir := filepath.Join(home, c.dir)
			must(t, os.Chmod(dir, c.mode))
			err := load(home)
			if (err != nil) != c.refused {
				t.Fatalf("got %v", err)
			}
			want := dir + ": users besides its owner can write it, so somebody else could weaken the sandbox; chmod go-w " + dir
			if c.refused && (!errors.Is(err, fs.ErrPermission) || err.Error() != want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	t.Run("outside of home every one counts", func(t *testing.T) {
		home, path := above(t)
		must(t, os.Chmod(filepath.Dir(home), 0o777))
		if _, err := config.Load(bare(t.TempDir()).look, path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the way that a linked directory takes", func(t *testing.T) {
		home, path := above(t)
		other := filepath.Join(filepath.Dir(file(t, "")), "dotfiles")
		must(t, os.Mkdir(other, 0o755))
		must(t, os.Rename(filepath.Dir(path), filepath.Join(other, "brig")))
		must(t, os.Symlink(filepath.Join(other, "brig"), filepath.Dir(path)))
		must(t, load(home))
		must(t, os.Chmod(other, 0o777))
		if err := load(home); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("settings that are not there could be put there", func(t *testing.T) {
		home, path := above(t)
		must(t, os.RemoveAll(filepath.Dir(path)))
		e := bare(home)
		_, err := config.Load(e.look, "")
		must(t, err)
		must(t, os.Chmod(home, 0o777))
		if _, err := config.Load(e.look, ""); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
}

// A link is as safe as what it points to.
func TestLinkedFile(t *testing.T) {
	e := bare(t.TempDir())
	target := file(t, "pool.host = 2")
	link := filepath.Join(filepath.Dir(file(t, "")), "link.toml")
	must(t, os.Symlink(target, link))
	l, err := config.Load(e.look, link)
	if err != nil || l.Config.Pool.Host != 2 {
		t.Fatalf("%+v, %v", l.Config.Pool, err)
	}
	must(t, os.Chmod(filepath.Dir(target), 0o777))
	if _, err := config.Load(e.look, link); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("a link into an open directory: %v", err)
	}
}

func TestNotAFile(t *testing.T) {
	e := bare(t.TempDir())
	path := file(t, "")
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	done := make(chan error, 1)
	go func() { _, err := config.Load(e.look, path); done <- err }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
			t.Errorf("a named pipe gave %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a named pipe hangs")
	}
	must(t, os.Remove(path))
	must(t, os.Symlink("nowhere", path))
	if _, err := config.Load(e.look, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dangling link gave %v", err)
	}
}

func TestFileOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "root, to give a file away", "an ordinary user")
	}
	e := bare(t.TempDir())
	path := file(t, "")
	must(t, os.Chown(path, 65533, 65533))
	_, err := config.Load(e.look, path)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "it belongs to user 65533") {
		t.Errorf("a file of somebody else: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "brig")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chown(dir, 65533, 65533))
	err = config.Ensure(config.Paths{Config: dir, State: dir, Data: dir, Cache: dir, Runtime: dir})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "it belongs to user 65533") {
		t.Errorf("a directory of somebody else: %v", err)
	}
}

// An ordinary user, because root may read everything.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUnreadable$", "-test.v")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestUnreadable") {
			t.Fatalf("as uid 65534: %v\n%s", err, out)
		}
		return
	}
	path := file(t, "")
	must(t, os.Chmod(path, 0))
	got := problems(t, bare(t.TempDir()), path)
	if len(got) != 1 || got[0] != "FILE: it cannot be read: permission denied" {
		t.Errorf("got %q", got)
	}
	// A file of root is fine: an administrator wrote it.
	if _, err := config.Load(bare(t.TempDir()).look, "/etc/hostname"); errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file of root: %v", err)
	}
}

func TestEnsure(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	top := t.TempDir()
	must(t, os.Chmod(top, 0o700))
	p := config.Paths{}
	for to, name := range map[*string]string{&p.Config: "c/brig", &p.State: "s/brig", &p.Data: "d/brig", &p.Cache: "x/brig", &p.Runtime: "s/brig/run"} {
		*to = filepath.Join(top, name)
	}
	must(t, os.MkdirAll(p.Cache, 0o755))
	must(t, config.Ensure(p))
	must(t, config.Ensure(p))
	for _, dir := range []string{p.Config, p.State, p.Data, p.Cache, p.Runtime} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s is %v, %v", dir, info.Mode(), err)
		}
	}
	must(t, os.Chmod(p.State, 0o702))
	must(t, os.Chmod(p.Data, 0o707))
	must(t, os.RemoveAll(p.Config))
	must(t, os.WriteFile(p.Config, nil, 0o600))
	err := config.Ensure(p)
	var e *config.Error
	if !errors.As(err, &e) || len(e.Problems) != 3 || !strings.Contains(e.Problems[0].Text, "not a directory") ||
		e.Problems[1].Suggestion != "chmod 700 "+p.State || e.Problems[2].Suggestion != "chmod 700 "+p.Data {
		t.Errorf("got %v", err)
	}
	if config.Ensure(config.Paths{}) == nil {
		t.Error("empty paths are accepted")
	}
}
