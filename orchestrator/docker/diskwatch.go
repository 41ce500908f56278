package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/go-units"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/workspace"
)

const (
	// diskLook is how often the file system is asked for its free room while
	// something runs, which costs microseconds. Only when there is less of it than
	// before can the workspace have grown.
	diskLook = 50 * time.Millisecond
	// diskIdle is the same while nothing runs: what a run left behind may still write.
	diskIdle = time.Second
	// diskShare bounds the cost of measuring to this part of the time.
	diskShare = 20
	// diskLatest is when a workspace is measured at the latest though the file system
	// shows nothing: what others free at the same time hides what is written.
	diskLatest = 5 * time.Second
	// diskSlack is what a workspace that is over its limit from the beginning may
	// grow by, so that a run can begin, say something and delete.
	diskSlack = 1 << 20
)

// diskWatch measures a bound workspace, which no engine limits, from brig's side.
// It sees what has a name there: a file that was deleted and is still open, and
// what stands in a directory that brig may not read, it does not.
type diskWatch struct {
	files   *workspace.Workspace
	path    string
	limit   int64
	allowed int64 // limit, or a little more than there was before any code ran

	used int64         // when it was measured last
	took time.Duration // that measurement
	at   time.Time     // its end
	free int64         // room on the file system then; -1: not known
}

// watchDisk opens the workspace of s and measures it for the first time. Nil:
// there is nothing to watch, because the workspace is a file system with a size.
func watchDisk(s spec) (*diskWatch, error) {
	if !s.watched() {
		return nil, nil
	}
	files, err := workspace.Open(s.workspace.directory)
	if err != nil {
		return nil, fmt.Errorf("watch the disk: %w", err)
	}
	d := &diskWatch{files: files, path: s.workspace.directory, limit: s.limits.Workspace}
	if err := d.measure(); err != nil {
		return nil, errors.Join(uncountable(d.path, err), files.Close())
	}
	if d.allowed = d.limit; d.used > d.limit {
		d.allowed = d.used + diskSlack
	}
	return d, nil
}

// uncountable is a refusal where what is there cannot be watched, and err otherwise.
func uncountable(directory string, err error) error {
	unseen := unwatchable(err)
	if unseen == "" {
		return fmt.Errorf("watch the disk: %w", err)
	}
	code := "workspace-too-many-files"
	if errors.Is(err, workspace.ErrTooDeep) {
		code = "workspace-too-deep"
	}
	return misset(code, "ls "+directory, err, "%s, which cannot be watched for its disk limit: delete some", unseen)
}

// unwatchable says why a workspace is over what can be watched; empty: it is not,
// and err is of another kind.
func unwatchable(err error) string {
	switch {
	case errors.Is(err, workspace.ErrTooMany):
		return fmt.Sprintf("the workspace holds more than %d files and directories", workspace.MaxEntries)
	case errors.Is(err, workspace.ErrTooDeep):
		return fmt.Sprintf("the workspace's directories are nested deeper than %d", workspace.MaxNesting)
	}
	return ""
}

func (d *diskWatch) measure() (err error) {
	began := time.Now()
	free := freeRoom(d.path) // before: what is written meanwhile may be missed by the walk, and is not missed by the next look
	used, _, err := d.files.Usage()
	d.at = time.Now()
	d.used, d.took, d.free = used, d.at.Sub(began), free
	return err
}

// due tells whether it is time to measure.
func (d *diskWatch) due() bool {
	since := time.Since(d.at)
	lost := int64(0)
	if free := freeRoom(d.path); free >= 0 && d.free >= 0 {
		lost = d.free - free
	} else {
		lost = 1
	}
	switch {
	case lost >= d.allowed-d.used: // it may be over: at once, though never more than half of the time
		return since >= d.took
	case lost > 0:
		return since >= max(diskShare*d.took, diskLook)
	default:
		return since >= max(diskShare*d.took, diskLatest)
	}
}

// run watches until ctx ends. A word on begun says that something begins to run.
// full: the workspace is over what it may hold, and the words for it.
func (d *diskWatch) run(ctx context.Context, active func() bool, begun <-chan struct{}) (full string) {
	defer d.files.Close()
	every := time.NewTimer(diskLook)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-every.C:
		case <-begun:
		}
		if d.due() {
			err := d.measure()
			if unseen := unwatchable(err); unseen != "" {
				return unseen
			}
			if err == nil && d.used > d.allowed {
				return d.words()
			}
		}
		if every.Reset(diskIdle); active() {
			every.Reset(diskLook)
		}
	}
}

func (d *diskWatch) words() string {
	text := fmt.Sprintf("the workspace held %s, its limit is %s", units.BytesSize(float64(d.used)), units.BytesSize(float64(d.limit)))
	if d.allowed > d.limit {
		text += ", and it was over it before: delete files first"
	}
	return text
}

func (d *diskWatch) close() {
	if d != nil {
		_ = d.files.Close()
	}
}

// guardDisk ends the instance when its workspace is over the limit.
func (i *instance) guardDisk(d *diskWatch) {
	full := d.run(i.life, func() bool { return i.active.Load() > 0 }, i.begun)
	if full == "" {
		return
	}
	i.end(sandbox.Ending{Cause: sandbox.DiskOut, Detail: full})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.life), undoTimeout)
	defer cancel()
	_ = i.box.remove(ctx) // first, because it stops the writing; Close asks again and tells
	_ = i.peer.Close()
}
