package config_test

import (
	"os"
	"strconv"
	"testing"

	"brig/orchestrator/config"
)

func TestFindPaths(t *testing.T) {
	got, err := config.FindPaths(environ{"HOME": "/Users/a"}.look)
	support := "/Users/a/Library/Application Support/brig"
	want := config.Paths{
		Config: support, State: support + "/state", Data: support + "/data",
		Cache: "/Users/a/Library/Caches/brig", Runtime: support + "/run-" + strconv.Itoa(os.Geteuid()),
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := config.FindPaths(environ{}.look); err == nil {
		t.Error("no HOME is no error")
	}
}
