package config_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"brig/orchestrator/config"
)

func TestFindPaths(t *testing.T) {
	run := "/run-" + strconv.Itoa(os.Geteuid())
	for _, c := range []struct {
		name string
		env  environ
		want config.Paths
		bad  string // the variable that is blamed
	}{
		{"home only", environ{"HOME": "/home/a"}, config.Paths{
			Config: "/home/a/.config/brig", State: "/home/a/.local/state/brig", Data: "/home/a/.local/share/brig",
			Cache: "/home/a/.cache/brig", Runtime: "/home/a/.local/state/brig" + run,
		}, ""},
		{"all set, no home", environ{
			"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s/", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/x", "XDG_RUNTIME_DIR": "/run/user/1000",
		}, config.Paths{Config: "/c/brig", State: "/s/brig", Data: "/d/brig", Cache: "/x/brig", Runtime: "/run/user/1000/brig"}, ""},
		{"set to nothing", environ{"HOME": "/h", "XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": ""}, config.Paths{
			Config: "/h/.config/brig", State: "/h/.local/state/brig", Data: "/h/.local/share/brig",
			Cache: "/h/.cache/brig", Runtime: "/h/.local/state/brig" + run,
		}, ""},
		{"nothing", environ{}, config.Paths{}, "HOME"},
		{"home empty", environ{"HOME": ""}, config.Paths{}, "HOME"},
		{"home relative", environ{"HOME": "a"}, config.Paths{}, "HOME"},
		{"relative", environ{"HOME": "/h", "XDG_CACHE_HOME": "cache"}, config.Paths{}, "XDG_CACHE_HOME"},
		{"a line break", environ{"HOME": "/h", "XDG_DATA_HOME": "/d\nata"}, config.Paths{}, "XDG_DATA_HOME"},
		{"relative runtime", environ{"HOME": "/h", "XDG_RUNTIME_DIR": "./run"}, config.Paths{}, "XDG_RUNTIME_DIR"},
	} {
		got, err := config.FindPaths(c.env.look)
		if c.bad == "" {
			if err != nil || got != c.want {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			continue
		}
		var e *config.Error
		if errors.As(err, &e) && strings.Contains(e.Error(), "line break") != (c.name == "a line break") {
			t.Errorf("%s: %v", c.name, err)
		}
		if !errors.As(err, &e) || e.Problems[0].Source != c.bad || got != (config.Paths{}) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}
