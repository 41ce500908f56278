package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"brig/orchestrator/api"
)

// At most so many archives are put aside at the same time while they are read. What
// agents may have together leaves some to the operator.
const (
	spoolsMost       = 8
	spoolsAgents     = 4
	spoolsCredential = 2
)

// spools counts archives that are put aside, by credential. The service's mu guards it.
type spools struct {
	all, agents int
	by          map[string]int
}

// spooled is an archive that is put aside.
type spooled struct {
	*os.File
	v *view
}

// lengthOf is how long what is read says it is; -1: it does not say.
func lengthOf(content io.Reader) int64 {
	if known, ok := content.(interface{ Size() int64 }); ok {
		return known.Size()
	}
	return -1
}

// spool puts the archive aside, beside the session's files and never more than they
// have room for. Whoever gets one discards it.
func (u *unpacking) spool(content io.Reader) (*spooled, int64, error) {
	free, err := u.w.Free()
	if err != nil {
		return nil, 0, fileProblem(err)
	}
	if u.length > free {
		return nil, 0, noRoomAside(free)
	}
	if err := u.v.takeSpool(); err != nil {
		return nil, 0, err
	}
	f := &spooled{v: u.v}
	// The directory that goes with the session, which code in it does not see.
	if f.File, err = os.CreateTemp(filepath.Dir(u.w.Dir()), ".brig-upload-"); err != nil {
		u.v.giveSpool()
		return nil, 0, retry(api.NewProblem(api.CodeStorage, "the archive cannot be put aside while it is read", "df -h"), 5)
	}
	_ = os.Remove(f.Name()) // so that it goes with this process, whatever ends it, where the system can
	size, err := io.Copy(f, io.LimitReader(&stream{r: content, left: u.most}, free+1))
	if err == nil && size > free {
		err = noRoomAside(free)
	}
	if err != nil {
		f.discard()
		var path *fs.PathError
		if errors.As(err, &path) {
			return nil, 0, api.NewProblem(api.CodeQuota, "the disk has no room to put the archive aside while it is read", "send a tar, which needs none")
		}
		return nil, 0, u.damaged(err, "zip")
	}
	return f, size, nil
}

func noRoomAside(free int64) error {
	return api.NewProblem(api.CodeQuota, fmt.Sprintf("the zip is larger than the %d bytes that the workspace has room for", free), "send less, or a tar, which is not put aside while it is read")
}

func (f *spooled) discard() {
	_ = f.Close()           // nothing of it is needed any more
	_ = os.Remove(f.Name()) // where it was not possible before
	f.v.giveSpool()
}

// takeSpool counts one archive more.
func (v *view) takeSpool() error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n := &v.s.spools
	agent := v.c.Role != Operator
	if n.all >= spoolsMost || agent && n.agents >= spoolsAgents || n.by[v.c.ID] >= spoolsCredential {
		return retry(api.NewProblem(api.CodeTooMany, "too many zip archives are being read", "send a tar, which is not put aside while it is read"), 5)
	}
	if n.by == nil {
		n.by = map[string]int{}
	}
	n.all++
	n.by[v.c.ID]++
	if agent {
		n.agents++
	}
	return nil
}

func (v *view) giveSpool() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	n := &v.s.spools
	n.all--
	if v.c.Role != Operator {
		n.agents--
	}
	if n.by[v.c.ID]--; n.by[v.c.ID] == 0 {
		delete(n.by, v.c.ID)
	}
}
