package service

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"brig/orchestrator/api"
	"brig/orchestrator/workspace"
)

const (
	// namedMost is how many members that were not unpacked are named.
	namedMost = 1000
	// nameMost is how much of such a name is told, in bytes.
	nameMost = 512
)

func (v *view) WriteArchive(ctx context.Context, session, prefix string, f api.ArchiveFormat, content io.Reader) (api.ArchiveResult, error) {
	_, w, err := v.files(ctx, session)
	if err != nil {
		return api.ArchiveResult{}, err
	}
	if strings.Trim(prefix, "./") == "" && !strings.Contains(prefix, "..") {
		prefix = ""
	} else if prefix, err = workspace.Clean(prefix); err != nil {
		return api.ArchiveResult{}, fileProblem(err)
	}
	u := &unpacking{v: v, w: w, length: lengthOf(content), bulk: w.Bulk(), prefix: prefix, most: 2 * w.Limits().Bytes, left: w.Limits().Bytes, small: newSmall()}
	u.result.Skipped = []api.ArchiveSkipped{}
	defer u.bulk.Close()
	switch content = workspace.While(ctx, content); f {
	case api.Tar:
		err = u.tar(content)
	case api.TarGz:
		err = u.tarGz(content)
	case api.Zip:
		err = u.zip(content)
	default:
		return api.ArchiveResult{}, api.NewProblem(api.CodeInvalid, "there is no such format of archives", "send tar, tar.gz or zip")
	}
	if smallErr := u.small.settle(); err == nil {
		err = smallErr
	}
	// What was unpacked stays, whatever came then: so it has to be on the disk.
	if syncErr := u.bulk.Sync(); err == nil && syncErr != nil {
		err = fileProblem(syncErr)
	}
	if u.unnamed > 0 {
		u.result.Skipped = append(u.result.Skipped, api.ArchiveSkipped{Reason: fmt.Sprintf("%d more were not unpacked", u.unnamed)})
	}
	return u.result, u.partly(err)
}

// unpacking is one upload of many files.
type unpacking struct {
	v       *view
	w       *workspace.Workspace
	length  int64 // of the archive; -1: not known
	bulk    *workspace.Bulk
	prefix  string
	most    int64 // bytes that the archive may have, what is skipped in it included
	left    int64 // bytes that members may still unpack to: replacing one gives nothing back
	members int
	small   *small

	mu      sync.Mutex
	result  api.ArchiveResult // guarded by mu, as unnamed
	unnamed int               // skipped beyond those that are named
}

// partly says in an error what had been unpacked before it.
func (u *unpacking) partly(err error) error {
	var p *api.Problem
	if err == nil || !errors.As(err, &p) || u.result.Files == 0 {
		return err
	}
	told := *p
	told.Detail += fmt.Sprintf("; %d files had been unpacked before and are there", u.result.Files)
	return &told
}

func (u *unpacking) skip(name, reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.result.Skipped) >= namedMost {
		u.unnamed++
		return
	}
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) > nameMost {
		name = strings.ToValidUTF8(name[:nameMost], "") + "…"
	}
	u.result.Skipped = append(u.result.Skipped, api.ArchiveSkipped{Name: name, Reason: reason})
}

// next counts a member.
func (u *unpacking) next() error {
	if u.members++; u.members > workspace.MaxEntries {
		return api.NewProblem(api.CodeTooLarge, fmt.Sprintf("the archive has more than %d members", workspace.MaxEntries), "send it in parts")
	}
	return nil
}

// place is where a member goes; false: nowhere, and that was noted.
func (u *unpacking) place(name string) (string, bool) {
	clean, err := workspace.Clean(name)
	if err != nil {
		u.skip(name, sentence(err))
		return "", false
	}
	return path.Join(u.prefix, clean), true
}

// dir makes a directory. The archive's own top is there already.
func (u *unpacking) dir(name string) error {
	if strings.Trim(name, "./") == "" && !strings.Contains(name, "..") {
		return nil
	}
	at, ok := u.place(name)
	if !ok {
		return nil
	}
	if u.small.meets(at) {
		if err := u.small.settle(); err != nil {
			return err
		}
	}
	return u.over(name, u.bulk.Mkdir(at))
}

// file unpacks one file of that size, if it can be told before.
func (u *unpacking) file(name string, size int64, mode fs.FileMode, content io.Reader) error {
	at, ok := u.place(name)
	if !ok {
		return nil
	}
	if size > u.w.Limits().File {
		u.skip(name, "it is larger than one file may be")
		return nil
	}
	if size > roomFirst {
		if err := u.w.Room(size); err != nil {
			return fileProblem(err)
		}
	}
	content = expanded{content, u}
	mode = mode.Perm()&0o755 | 0o600
	if u.small.meets(at) {
		if err := u.small.settle(); err != nil {
			return err
		}
	}
	if size > smallMost {
		return u.put(name, at, mode, content)
	}
	head, err := io.ReadAll(io.LimitReader(content, smallMost+1))
	if err != nil {
		return u.over(name, &workspace.Error{Op: "put", Why: "reading it failed", Err: err})
	}
	if len(head) > smallMost { // it is larger than it says
		return u.put(name, at, mode, io.MultiReader(bytes.NewReader(head), content))
	}
	return u.small.do(at, func() error { return u.put(name, at, mode, bytes.NewReader(head)) })
}

func (u *unpacking) put(name, at string, mode fs.FileMode, content io.Reader) error {
	n, err := u.bulk.Put(at, content, mode)
	if err != nil {
		return u.over(name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.result.Files++
	u.result.Bytes += n
	return nil
}

// roomFirst is from how many bytes on room is asked for before a file is written.
const roomFirst = 1 << 20

// over tells what ends the whole from what is about this member alone.
func (u *unpacking) over(name string, err error) error {
	var broken *brokenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken):
		return broken
	case errors.Is(err, workspace.ErrName), errors.Is(err, workspace.ErrEscapes), errors.Is(err, workspace.ErrNotRegular),
		errors.Is(err, workspace.ErrTooLarge), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission),
		errors.Is(err, zip.ErrChecksum), errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrAlgorithm):
		u.skip(name, sentence(err))
		return nil
	}
	var ready *api.Problem
	var e *workspace.Error
	if !errors.As(err, &ready) && errors.As(err, &e) && e.Kind == nil && e.Why != "" {
		u.skip(name, sentence(err)) // such as a file where a directory would have to be
		return nil
	}
	return fileProblem(err)
}

// brokenError is about a stream that cannot be read on.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "the archive is damaged: " + e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// stream marks the errors of an archive's stream, and bounds it.
type stream struct {
	r    io.Reader
	left int64
	read bool
}

func (s *stream) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, api.NewProblem(api.CodeTooLarge, "what the archive unpacks to is larger than the workspace may be", "send less")
	}
	if int64(len(b)) > s.left {
		b = b[:s.left]
	}
	n, err := s.r.Read(b)
	s.left -= int64(n)
	s.read = s.read || n > 0
	if err != nil && err != io.EOF {
		var ready *api.Problem
		if !errors.As(err, &ready) {
			err = &brokenError{err}
		}
	}
	return n, err
}

func (u *unpacking) tarGz(content io.Reader) error {
	z, err := gzip.NewReader(content)
	if err != nil {
		return u.damaged(err, "gzip")
	}
	return u.tar(z)
}

// damaged is about what cannot be read as an archive at all, or not to its end.
func (u *unpacking) damaged(err error, what string) error {
	var ready *api.Problem
	if errors.As(err, &ready) {
		return ready
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fileProblem(err)
	}
	return api.NewProblem(api.CodeMalformed, "it is no "+what+" archive, or is damaged", "")
}

func (u *unpacking) tar(content io.Reader) error {
	s := &stream{r: content, left: u.most}
	t := tar.NewReader(s)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && s.read {
			return nil
		}
		if err == nil {
			err = u.next()
		}
		if err == nil {
			err = u.tarMember(h, t)
		}
		if err != nil {
			return u.damaged(err, "tar")
		}
	}
}

func (u *unpacking) tarMember(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		if sparse(h) {
			u.skip(h.Name, "it is sparse: a few bytes of it unpack to any number")
			return nil
		}
		if strings.HasSuffix(h.Name, "/") {
			return u.dir(h.Name)
		}
		return u.file(h.Name, h.Size, fs.FileMode(h.Mode), member{content})
	case tar.TypeDir:
		return u.dir(h.Name)
	case tar.TypeSymlink:
		u.skip(h.Name, "it is a symbolic link")
	case tar.TypeLink:
		u.skip(h.Name, "it is a hard link")
	case tar.TypeChar, tar.TypeBlock:
		u.skip(h.Name, "it is a device")
	case tar.TypeFifo:
		u.skip(h.Name, "it is a named pipe")
	case tar.TypeXGlobalHeader:
	default:
		u.skip(h.Name, "it is no regular file")
	}
	return nil
}

// sparse tells whether a member has holes, in any of the forms that GNU tar writes.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// expanded counts what members unpack to, all of them together.
type expanded struct {
	r io.Reader
	u *unpacking
}

func (e expanded) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	if e.u.left -= int64(n); e.u.left < 0 {
		return 0, api.NewProblem(api.CodeQuota, fmt.Sprintf("its members unpack to more than %d bytes, which is all that the workspace may have", e.u.w.Limits().Bytes), "send less, or raise limits.workspace")
	}
	return n, err
}

// member marks the errors of a tar's member: where it cannot be read, nothing after it can.
type member struct{ r io.Reader }

func (m member) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	var ready *api.Problem
	if err != nil && err != io.EOF && !errors.As(err, &ready) {
		err = &brokenError{err}
	}
	return n, err
}

// zip needs the archive whole, because its directory is at the end.
func (u *unpacking) zip(content io.Reader) error {
	file, size, err := u.spool(content)
	if err != nil {
		return err
	}
	defer file.discard()
	z, err := zip.NewReader(file, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return u.damaged(err, "zip")
	}
	var total uint64
	for _, f := range z.File {
		total += min(f.UncompressedSize64, 1<<50)
		if err := u.next(); err != nil {
			return err
		}
	}
	if most := uint64(u.w.Limits().Bytes); total > most {
		return api.NewProblem(api.CodeQuota, fmt.Sprintf("it unpacks to %d bytes, and the workspace may have %d", total, most), "send less, or raise limits.workspace")
	}
	for _, f := range z.File {
		if err := u.zipMember(f); err != nil {
			return u.damaged(err, "zip")
		}
	}
	return nil
}

func (u *unpacking) zipMember(f *zip.File) error {
	mode := f.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		u.skip(f.Name, "it is a symbolic link")
		return nil
	case mode.IsDir() || strings.HasSuffix(f.Name, "/"):
		return u.dir(f.Name)
	case mode.Type() != 0:
		u.skip(f.Name, "it is a special file")
		return nil
	case f.Flags&1 != 0:
		u.skip(f.Name, "it is encrypted")
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return u.over(f.Name, err)
	}
	defer r.Close()
	return u.file(f.Name, int64(min(f.UncompressedSize64, 1<<62)), mode, r)
}
