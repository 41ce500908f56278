package selftest

import (
	"os"
	"strings"
)

// leaks are canaries where a start of a process could leave them to its child by mistake.
type leaks struct{ env string }

func (p *plot) leak() error {
	p.leaks.env = "BRIG_ST_CANARY_" + strings.ToUpper(p.token)
	p.told["env"] = p.leaks.env
	return os.Setenv(p.leaks.env, p.secret)
}

func (p *plot) unleak() error {
	if p.leaks.env == "" {
		return nil
	}
	name := p.leaks.env
	p.leaks = leaks{}
	return os.Unsetenv(name)
}

func sweepShared() {} // there is no such place
