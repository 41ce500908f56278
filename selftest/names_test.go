package selftest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestNames: all attempts are one program, in which a second definition would
// silently replace the first and change what another area attempts.
func TestNames(t *testing.T) {
	files, err := filepath.Glob("attempts/*.py")
	if err != nil || len(files) == 0 {
		t.Fatal("no attempts", err)
	}
	names := regexp.MustCompile(`(?m)^(?:def (\w+)|class (\w+)|([A-Z_]+) =|@attempt\(("[^"]+"))`)
	given := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range names.FindAllSubmatch(text, -1) {
			name := string(m[1]) + string(m[2]) + string(m[3]) + string(m[4])
			if name == "_" { // of what is only registered
				continue
			}
			if first, ok := given[name]; ok {
				t.Errorf("%s is in %s and in %s", name, first, file)
			}
			given[name] = file
		}
	}
}
