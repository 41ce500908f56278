package hostfallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"brig/hostfallback/confine"
	"brig/orchestrator/sandbox"
)

// forksHere says whether there are zygotes on this system.
const forksHere = true

// zygote starts one and waits until it is warm.
func (b *Backend) zygote(base sandbox.Base, in interpreter, key zygoteKey, session confine.Plan, spawned confine.Report) (*zygote, error) {
	if why := fits(spawned, spawned); why == notWhole {
		return nil, errors.New(why)
	}
	plan, release, err := b.zygotePlan(base, in, key, session)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), zygotePatient)
	defer cancel()
	z, err := startZygote(ctx, b.options.Executable, plan)
	if err != nil {
		release()
		return nil, fmt.Errorf("make a zygote: %w", err)
	}
	go func() { <-z.process.gone; z.retire(); _ = z.process.hangUp(); release() }()
	if why := fits(z.started.Report, spawned); why != "" {
		return nil, errors.Join(fmt.Errorf("make a zygote: %s", why), z.process.end())
	}
	return z, nil
}

func startZygote(ctx context.Context, executable string, plan confine.Plan) (*zygote, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "sessions")
	ours := pair[0]
	p := newProcess(plan)
	err = errors.Join(p.start(executable, confine.VerbZygote, theirs), theirs.Close())
	if err != nil {
		_ = unix.Close(ours) // nothing was said
		return nil, err
	}
	_, started, err := p.launched(ctx, p.begin)
	if err != nil {
		_ = unix.Close(ours) // nothing was said
		return nil, fmt.Errorf("%w%s", err, quoted(p.words.String()))
	}
	var mu sync.Mutex
	retired := false
	z := &zygote{process: p, started: started}
	z.retire = func() {
		mu.Lock()
		defer mu.Unlock()
		if !retired {
			retired = true
			_ = unix.Close(ours) // its end is the message
		}
	}
	z.ask = func(plan confine.Plan, s *process) error {
		text, err := json.Marshal(plan)
		if err != nil {
			return err
		}
		if len(text) > confine.MaxAsk {
			return errors.New("the plan is too long")
		}
		files, err := s.pipes()
		if err == nil {
			fds := make([]int, 0, len(files))
			for _, f := range files {
				fds = append(fds, int(f.Fd()))
			}
			mu.Lock()
			if retired {
				err = errors.New("the zygote has retired")
			} else {
				err = os.NewSyscallError("sendmsg", unix.Sendmsg(ours, text, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL))
			}
			mu.Unlock()
		}
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			s.drop()
		}
		return err
	}
	return z, nil
}

// fork has the zygote's supervisor make a session with this plan. On error
// nothing of it is left running.
func (z *zygote) fork(ctx context.Context, plan confine.Plan) (*process, confine.Started, error) {
	p := newProcess(plan)
	p.kill = z.process.kill // the last resort, for a supervisor that does nothing any more
	if err := z.ask(plan, p); err != nil {
		return nil, confine.Started{}, fmt.Errorf("ask the zygote: %w", err)
	}
	_, started, err := p.launched(ctx, p.awaitStart)
	if err != nil {
		return nil, started, fmt.Errorf("%w%s", err, quoted(p.words.String()))
	}
	return p, started, nil
}
