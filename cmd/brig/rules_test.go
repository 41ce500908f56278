package main_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leaves import nothing of brig but what is listed, and no logger.
var leaves = map[string][]string{
	"brig/orchestrator/wire":      nil,
	"brig/orchestrator/sandbox":   {"brig/orchestrator/wire"},
	"brig/orchestrator/workspace": nil,
	"brig/orchestrator/private":   nil,
	"brig/orchestrator/store":     {"brig/orchestrator/private", "brig/orchestrator/sandbox", "brig/orchestrator/wire"},
	"brig/orchestrator/audit":     {"brig/orchestrator/private"},
	"brig/orchestrator/api":       nil,
	"brig/hostfallback/confine":   {"brig/hostfallback/internal/sys"},
}

// forbidden names, for a package prefix, what none of its packages may import.
var forbidden = []struct {
	from string
	to   []string
	why  string
}{
	{"brig/orchestrator", []string{"brig/orchestrator/docker", "brig/hostfallback", "brig/images", "brig/cmd", "brig/tray"}, "the orchestrator knows the contract, not the backends"},
	{"brig/hostfallback", []string{"brig/orchestrator", "brig/orchestrator/docker", "brig/orchestrator/server", "brig/images", "brig/cmd"}, "a backend knows the contract, not who uses it"},
	{"brig/orchestrator/docker", []string{"brig/orchestrator", "brig/hostfallback", "brig/cmd"}, "a backend knows the contract, not who uses it"},
	{"brig/orchestrator/service", []string{"brig/orchestrator/docker", "brig/hostfallback", "brig/images", "brig/orchestrator/server", "brig/orchestrator/mcp", "brig/cmd"}, "the service knows what a caller may ask, not how it is asked"},
	{"brig/orchestrator/server", []string{"brig/orchestrator/docker", "brig/hostfallback", "brig/images", "brig/cmd"}, "the server speaks for the service and knows no backend"},
	{"brig/orchestrator/mcp", []string{"brig/orchestrator", "brig/orchestrator/server", "brig/orchestrator/service", "brig/cmd"}, "the MCP tools speak to api.Brig, in the process or from outside"},
	{"brig/selftest", []string{"brig/orchestrator/docker", "brig/hostfallback", "brig/cmd"}, "the self-test attacks the contract and knows no backend"},
}

// root is the top of the module, seen from this package.
const root = "../.."

// testSupport are packages for tests only: they may do what tests may, and
// nothing that ships may depend on them.
var testSupport = []string{
	"brig/orchestrator/sandbox/sandboxtest", "brig/orchestrator/docker/enginetest", "brig/hostfallback/internal/ordinary", "brig/orchestrator/api/apitest",
}

type listed struct {
	ImportPath   string
	Dir          string
	Doc          string
	Name         string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json", "brig/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 8 {
		t.Fatalf("go list found %d packages only: the rules would check nothing", len(all))
	}
	return all
}

func TestImportRules(t *testing.T) {
	for _, p := range packages(t) {
		if allowed, leaf := leaves[p.ImportPath]; leaf {
			for _, dep := range p.Deps {
				if strings.HasPrefix(dep, "brig/") && !slices.Contains(allowed, dep) {
					t.Errorf("%s is a leaf and may not depend on %s", p.ImportPath, dep)
				}
				if strings.HasPrefix(dep, "github.com/rs/zerolog") {
					t.Errorf("%s is a leaf and may not import a logger (%s)", p.ImportPath, dep)
				}
			}
			for _, imp := range p.Imports { // net/http has the standard one somewhere below, and is none
				if imp == "log" || imp == "log/slog" {
					t.Errorf("%s is a leaf and may not import a logger (%s)", p.ImportPath, imp)
				}
			}
		}
		for _, rule := range forbidden {
			if p.ImportPath != rule.from && !(rule.from == "brig/hostfallback" && strings.HasPrefix(p.ImportPath, rule.from+"/")) {
				continue
			}
			for _, dep := range p.Deps {
				if slices.Contains(rule.to, dep) {
					t.Errorf("%s may not depend on %s: %s", p.ImportPath, dep, rule.why)
				}
			}
		}
		if !slices.Contains(testSupport, p.ImportPath) {
			for _, dep := range append(testSupport, "testing") {
				if slices.Contains(p.Deps, dep) {
					t.Errorf("%s depends on %s, which is for tests", p.ImportPath, dep)
				}
			}
		}
		for _, imp := range p.Imports {
			if sdk := strings.HasPrefix(imp, "github.com/docker/"); sdk && p.ImportPath != "brig/orchestrator/docker" {
				t.Errorf("%s imports %s: only orchestrator/docker may", p.ImportPath, imp)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.Doc) < 20 {
			t.Errorf("%s has no package comment that says what it is for", p.ImportPath)
		}
	}
}

// TestNoHiddenState keeps three habits: no init function, no environment read
// outside cmd, and no skip that does not say what it needed.
func TestNoHiddenState(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		checkFile(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were read: the rules would check nothing", files)
	}
}

func checkFile(t *testing.T, name string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, 0)
	if err != nil {
		t.Error(err)
		return
	}
	path := strings.TrimPrefix(filepath.ToSlash(name), root+"/")
	test := strings.HasSuffix(path, "_test.go")
	for _, support := range testSupport {
		test = test || strings.HasPrefix("brig/"+path, support+"/")
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			t.Errorf("%s: init function", set.Position(fn.Pos()))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		recv, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		at := set.Position(sel.Pos())
		switch recv.Name + "." + sel.Sel.Name {
		case "os.Getenv", "os.LookupEnv", "os.Environ":
			if !test && !strings.HasPrefix(path, "cmd/") {
				t.Errorf("%s: reads the environment outside cmd", at)
			}
		case "runtime.GOOS":
			if !test && !strings.HasPrefix(path, "cmd/") {
				t.Errorf("%s: branches on the operating system; use a suffixed file", at)
			}
		case "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf":
			if path != "orchestrator/sandbox/sandboxtest/skip.go" {
				t.Errorf("%s: skips without sandboxtest.Skip, so that nothing could forbid it", at)
			}
		}
		return true
	})
}
