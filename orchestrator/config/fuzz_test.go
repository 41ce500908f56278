package config_test

import (
	"strings"
	"testing"

	"brig/orchestrator/config"
)

// Whatever stands in a file, the outcome is a valid Config or a list of one-line problems.
func FuzzFile(f *testing.F) {
	f.Add(config.Example())
	for _, seed := range []string{
		"", "host.sandbox = \"off\"", "[limits]\nmemory = \"1GiB\"\ncpus = 0x10", "[[host]]\n[host.x]", "a = [[[[[[[[1]]]]]]]]",
		"host = {sandbox = \"off\", x = {y = {z = 1}}}", "\"\" = 1\n'a.b' = 2", "limits.cpus = nan", "limits.idle = 1979-05-27T07:32:00Z",
		"x = \"\"\"\nlong\n\"\"\"", "\"\\u0000\" = 1", "docker.endpoint = \"unix://\\u001b[2J\"", "limits.memory = \"9223372036854775807TiB\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := config.ParseFile(data)
		if len(problems) == 0 {
			if bad := config.CheckValues(c); len(bad) != 0 {
				t.Fatalf("accepted, but %v", bad)
			}
			return
		}
		if len(problems) > 51 {
			t.Fatalf("%d problems", len(problems))
		}
		for _, p := range problems {
			if text := p.String(); strings.ContainsAny(text, "\n\x00\x1b") || len(text) > 1000 {
				t.Fatalf("not one line: %q", text)
			}
		}
	})
}
