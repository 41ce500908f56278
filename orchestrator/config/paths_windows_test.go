package config_test

import (
	"testing"

	"brig/orchestrator/config"
)

func TestFindPaths(t *testing.T) {
	local := `C:\Users\a\AppData\Local`
	got, err := config.FindPaths(environ{"LOCALAPPDATA": local}.look)
	want := config.Paths{
		Config: local + `\brig\config`, State: local + `\brig\state`, Data: local + `\brig\data`,
		Cache: local + `\brig\cache`, Runtime: local + `\brig\run`,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := config.FindPaths(environ{}.look); err == nil {
		t.Error("no LOCALAPPDATA is no error")
	}
}
