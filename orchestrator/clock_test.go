package orchestrator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Deadlines are kept by the monotonic clock, on both sides of the wire: what takes
// the wall clock's reading out of a time, or makes a time out of one, is the way
// to a deadline that jumps with the clock. Where a file's time or a record for
// people is meant it is listed, with the reason.
func TestNoWallClock(t *testing.T) {
	allowed := map[string]string{
		"orchestrator/mirror.go UnixNano":     "the time of a file, compared for equality",
		"orchestrator/docker/builder.go Unix": "when an image was made, for people",
	}
	calls := map[string]bool{"Unix": true, "UnixNano": true, "UnixMilli": true, "UnixMicro": true, "Round": true, "Truncate": true}
	files := 0
	for _, root := range []string{".", "docker", "wire", "../hostfallback"} {
		walk(t, root, ".go", func(path string) {
			if strings.HasSuffix(path, "_test.go") || root == "." && strings.Contains(filepath.ToSlash(path), "/") {
				return
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.ToSlash(filepath.Clean(filepath.Join("orchestrator", path)))
			ast.Inspect(file, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				sel, is := call.Fun.(*ast.SelectorExpr)
				if !is || !calls[sel.Sel.Name] || !aboutTime(sel, call) {
					return true
				}
				if _, ok := allowed[name+" "+sel.Sel.Name]; !ok {
					t.Errorf("%s: %s is wall-clock arithmetic", set.Position(call.Pos()), sel.Sel.Name)
				}
				return true
			})
		})
	}
	if files < 50 {
		t.Fatalf("only %d files were read: the rule would check nothing", files)
	}
	wall := regexp.MustCompile(`\btime\.(time|time_ns|clock|localtime|gmtime)\(|\b(datetime|date)\.(now|utcnow|today|fromtimestamp)\(|CLOCK_REALTIME`)
	if !wall.MatchString("x = time.time() + 5") || !wall.MatchString("datetime.datetime.now()") || wall.MatchString("time.monotonic()") {
		t.Fatal("the pattern does not see what it looks for")
	}
	scripts := 0
	walk(t, "runner", ".py", func(path string) {
		scripts++
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if wall.MatchString(line) {
				t.Errorf("%s:%d: reads the wall clock: %s", path, n+1, strings.TrimSpace(line))
			}
		}
	})
	if scripts < 10 {
		t.Fatalf("only %d scripts were read: the rule would check nothing", scripts)
	}
}

// aboutTime tells time.Unix(…) and t.UnixNano() from math.Round and os.Truncate.
func aboutTime(sel *ast.SelectorExpr, call *ast.CallExpr) bool {
	switch sel.Sel.Name {
	case "Round", "Truncate":
		// Round(0) is the idiom that strips the monotonic reading; elsewhere it shortens what people read.
		lit, is := firstArg(call).(*ast.BasicLit)
		return is && lit.Value == "0" && sel.Sel.Name == "Round"
	case "Unix":
		pkg, is := sel.X.(*ast.Ident)
		return !is || pkg.Name != "syscall" && pkg.Name != "unix"
	}
	return true
}

func firstArg(call *ast.CallExpr) ast.Expr {
	if len(call.Args) == 0 {
		return nil
	}
	return call.Args[0]
}

func walk(t *testing.T, root, ext string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")) { // for tests only
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ext) {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
