package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files of the workspace that are named like modules of the standard library
// neither run before the code does nor speak for it.
func TestShadowedModules(t *testing.T) {
	for _, p := range shared.interpreters {
		t.Run(p.minor, func(t *testing.T) {
			r := launch(t, p)
			const end = "import os\nos._exit(0)\n"
			for _, name := range []string{"traceback", "linecache", "ast", "threading", "pickle", "tokenize", "textwrap", "types", "json", "select", "asyncio", "brigrunner", "colorsys"} {
				if err := os.WriteFile(filepath.Join(r.workspace, name+".py"), []byte(end), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			greet(t, r, hello())
			if got := r.ok("print('ran')"); got.out != "ran\n" {
				t.Fatalf("%s", got)
			}
			got := r.run("print('ran again'); 1/0")
			if got.out != "ran again\n" || got.Exception == nil || !strings.Contains(got.Exception.Traceback, "ZeroDivisionError") {
				t.Errorf("%s", got)
			}
			// The control: for the code itself they come first, as beside any program.
			if got := r.once("import colorsys; print(1)"); got.out != "" || got.Status != 0 {
				t.Errorf("the workspace is not on the path: %s", got)
			}
		})
	}
}
