package sandboxtest

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed steps/*.py
var stepFiles embed.FS

// python renders one step: its parameters as a dictionary, then its file.
func (s Step) python() string {
	if s.Act == "broken" {
		return broken(s.Name)
	}
	body, err := fs.ReadFile(stepFiles, "steps/"+string(s.Act)+".py")
	if err != nil {
		panic(fmt.Sprintf("BUG: act %q has no Python: %v", s.Act, err))
	}
	return fmt.Sprintf("_step = {%q: %s, %q: %s, %q: %d, %q: %s, %q: %s}\n%s",
		"text", text(s.Text), "name", text(s.Name), "n", s.N, "fill", text(string(s.Fill)), "to", text(s.To), body)
}

// broken is source text that no interpreter accepts.
func broken(kind string) string {
	switch kind {
	case "syntax":
		return "x = = 1\n"
	case "nul":
		return "x = 1\x00\n"
	case "utf-8":
		return "x = '\xff\xfe'\n"
	}
	panic(fmt.Sprintf("BUG: no broken source of kind %q", kind))
}
