package selftest

import (
	"os"
	"path/filepath"
	"testing"
)

// attemptWith runs the attempt at one probe with nothing around it and other targets.
func attemptWith(t *testing.T, y *yard, pr Probe, change func(p *plot, told map[string]any)) (*plot, Outcome) {
	t.Helper()
	p, err := y.plot("fresh", []Probe{pr})
	if err != nil {
		t.Fatal(err)
	}
	told := p.targets()
	change(p, told)
	source, err := program(told, []Probe{pr})
	if err != nil {
		t.Fatal(err)
	}
	out, err := y.control(t.Context(), source, p)
	if err != nil {
		t.Fatal(err)
	}
	return p, outcomes(out)[pr.ID]
}

func probeOf(t *testing.T, id string) Probe {
	t.Helper()
	for _, pr := range Catalogue() {
		if pr.ID == id {
			return pr
		}
	}
	t.Fatal("no probe", id)
	return Probe{}
}

// TestHome: a home directory is known again when its names change meanwhile and when
// its numbers do; another one of the same name is none.
func TestHome(t *testing.T) {
	o := yardOptions(t)
	for _, name := range []string{".bashrc", ".profile", "letters", "taxes"} {
		if err := os.WriteFile(filepath.Join(o.Home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	for _, name := range []string{".bashrc", ".profile"} {
		if err := os.WriteFile(filepath.Join(other, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	y := mustYard(t, o)
	defer y.close()
	ordinaryOnly := func(told map[string]any) {
		q := &plot{token: told["token"].(string), told: told}
		q.tellHome(other)
	}
	for _, c := range []struct {
		name   string
		change func(told map[string]any)
		ok     bool
		sign   string
	}{
		{"as it was", func(map[string]any) {}, true, ""},
		{"a new name", func(map[string]any) {
			if err := os.WriteFile(filepath.Join(o.Home, "new"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, true, ""},
		{"other numbers", func(told map[string]any) { told["home_id"] = "0:0" }, true, ""},
		{"another directory", func(told map[string]any) { told["home"] = other }, false, "absent"},
		{"ordinary names within one kernel", func(told map[string]any) { ordinaryOnly(told); told["home"] = o.Home }, false, "absent"},
		{"ordinary names behind another kernel", func(told map[string]any) {
			ordinaryOnly(told)
			told["home"], told["boot"] = o.Home, "another"
		}, false, "changed"},
	} {
		pr := probeOf(t, "files-read-home")
		_, got := attemptWith(t, y, pr, func(_ *plot, told map[string]any) { c.change(told) })
		if got.OK != c.ok || got.Sign != c.sign {
			t.Errorf("%s: %+v", c.name, got)
		}
		if _, known := pr.evidence(got); known != (c.sign == "absent") {
			t.Errorf("%s: predicted %v", c.name, known)
		}
	}
}

// TestRealSockets: what is not predicted of one of them is not covered by another, and
// one that answers is enough.
func TestRealSockets(t *testing.T) {
	y := mustYard(t, yardOptions(t))
	defer y.close()
	file := filepath.Join(t.TempDir(), "no-socket")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := file + "-missing"
	for _, c := range []struct {
		real   []string
		listen bool
		ok     bool
		sign   string
	}{
		{[]string{missing, missing}, false, false, "ENOENT"},
		{[]string{missing, file}, false, false, "ECONNREFUSED"},
		{[]string{file, missing}, false, false, "ECONNREFUSED"},
		{[]string{missing, file}, true, true, ""},
	} {
		_, got := attemptWith(t, y, probeOf(t, "unix-real"), func(_ *plot, told map[string]any) {
			if c.listen {
				c.real = append(c.real, told["sockets"].(map[string]any)["engine"].(string))
			}
			told["real"] = c.real
		})
		if got.OK != c.ok || got.Sign != c.sign {
			t.Errorf("%v: %+v", c.real, got)
		}
	}
}

// TestPublic: what everybody may read is so indeed, whatever the umask is, has a secret
// that the attempts are not told, and goes with the yard.
func TestPublic(t *testing.T) {
	o := yardOptions(t)
	y := mustYard(t, o)
	pr := probeOf(t, "files-read-public")
	p, got := attemptWith(t, y, pr, func(p *plot, told map[string]any) {
		for key, value := range told {
			if value == p.public {
				t.Errorf("the attempts are told as %s", key)
			}
		}
	})
	if p.sight(pr, got) != SeenYes {
		t.Errorf("%+v", got)
	}
	dir, _ := p.told["public"].(string)
	for path, want := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, canaryFile): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if err := y.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}
