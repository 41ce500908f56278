package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"brig/orchestrator/api"
	"brig/orchestrator/config"
)

// helloTimeout bounds how long a brig that runs may take to say that it does.
const helloTimeout = 2 * time.Second

// daemonLock is the file below the runtime directory that a brig which stays holds
// locked, for as long as it lives.
const daemonLock = "daemon.lock"

// downAndUp replaces the brig that runs.
const downAndUp = "brig down && brig up"

// daemon finds the brig that stays, as its operator, and makes sure that it answers
// and is of this version. Without one it returns nil and no error: only then may a
// verb do its work itself. Whoever gets a client closes it.
func (p *program) daemon(parent context.Context, paths config.Paths) (*api.Client, error) {
	return p.daemonAs(parent, paths, api.Operator, "")
}

// daemonAs is daemon with the rights of a role; via is api.ViaMCP for an agent's tools.
func (p *program) daemonAs(parent context.Context, paths config.Paths, role api.Role, via string) (*api.Client, error) {
	ctx, cancel := context.WithTimeoutCause(parent, helloTimeout, errors.New("no answer within "+helloTimeout.String()))
	defer cancel()
	end, err := api.Find(ctx, paths.Runtime, role)
	switch {
	case errors.Is(err, api.ErrNotRunning):
		return nil, nil
	case err != nil:
		return nil, noAnswer(parent, ctx, paths, err)
	}
	if end.Socket == "" {
		// The address may have been left by a brig that was killed, and be somebody
		// else's by now, who would be sent the token.
		if runs, err := daemonRuns(paths); err != nil || !runs {
			return nil, err
		}
	}
	end.Via = via
	c := api.NewClient(end)
	version, err := c.Hello(ctx)
	if err != nil {
		c.Close()
		return nil, noAnswer(parent, ctx, paths, err)
	}
	if own := readVersion().Version; version != own {
		c.Close()
		return nil, &failure{
			Code: "version", Message: fmt.Sprintf("the brig that runs is version %s, and this one is %s", version, own),
			Remedy: downAndUp, Exit: exitFailed,
		}
	}
	return c, nil
}

// noAnswer is a brig that is there and cannot be asked. Nothing is done without it:
// it may be doing the same thing.
func noAnswer(parent, asked context.Context, paths config.Paths, err error) error {
	if parent.Err() != nil {
		return context.Cause(parent)
	}
	text := problemText(err)
	if asked.Err() != nil {
		text = context.Cause(asked).Error()
	}
	return stuck(paths, "the brig that runs does not answer as it should: "+text, err)
}

// needDaemon is daemon for verbs that are about what only a brig that stays has.
func (p *program) needDaemon(ctx context.Context) (*api.Client, error) {
	paths, err := config.FindPaths(p.lookup)
	if err != nil {
		return nil, err
	}
	c, err := p.daemon(ctx, paths)
	if err == nil && c == nil {
		err = notRunning()
	}
	return c, err
}

// asks runs a verb with the brig that stays, ended by a signal.
func (p *program) asks(parent context.Context, do func(ctx context.Context, c *api.Client) error) (err error) {
	sig := watchSignals(parent)
	defer sig.close()
	defer func() { err = sig.rename(err) }()
	c, err := p.needDaemon(sig.ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(sig.ctx, c)
}

// decisive are the settings, by their section, that say where and how code runs.
func decisive(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return slices.Contains([]string{"execution", "host", "docker", "sandbox", "workspace", "guard"}, section) ||
		section == "limits" && key != "limits.sessions" && key != "limits.idle"
}

// another is a setting that is another one in the brig that stays.
type another struct{ key, mine, theirs string }

// differs finds the first decisive setting that is another one in the brig that
// stays. A run that asks for other settings than those is not handed to it: they
// would be passed over in silence, and could be the stricter ones. With given only
// what the file or a variable here says counts, and not what is a default.
func differs(ctx context.Context, c *api.Client, mine config.Loaded, given bool) (*another, error) {
	list, err := c.Settings(ctx)
	if err != nil {
		return nil, err
	}
	theirs := map[string]string{}
	for _, s := range list.Settings {
		theirs[s.Key] = s.Value
	}
	for _, row := range config.Render(mine) {
		if !decisive(row.Key) || given && mine.Sources[row.Key].From == config.FromDefault {
			continue
		}
		if value, known := theirs[row.Key]; !known || value != redact(row.Value) && value != row.Value {
			return &another{key: row.Key, mine: redact(row.Value), theirs: value}, nil
		}
	}
	return nil, nil
}

// agrees refuses to work in a session of the brig that stays where this shell asks for
// another setting than that brig has: the session lives there, under that brig's.
func (p *program) agrees(ctx context.Context, c *api.Client, s settings, without string) error {
	other, err := differs(ctx, c, s.Loaded, true)
	if err != nil || other == nil {
		return err
	}
	source := s.Sources[other.key]
	shown := func(value string) string { return cmp.Or(value, "empty") }
	f := &failure{
		Code: "settings",
		Message: fmt.Sprintf("%s says %s = %s, and in the brig that stays, where sessions live, it is %s", source.Where, other.key,
			shown(other.mine), shown(other.theirs)),
		Exit: exitFailed,
	}
	if source.From == config.FromEnvironment {
		f.Remedy = "unset " + source.Where + "; to have it for sessions too, set it in the file that brig config path names and tell brig to read it"
	} else {
		f.Remedy = p.readAnew(s.Paths)
	}
	if without != "" {
		f.Remedy += "\n" + without
	}
	return f
}

// readAnew is the command with which the brig that stays reads its settings file again.
func (p *program) readAnew(paths config.Paths) string {
	if pid := boundOf(paths).PID; pid > 0 && runtime.GOOS != "windows" {
		return fmt.Sprintf("to let brig read its settings anew: kill -HUP %d", pid)
	}
	return downAndUp
}
