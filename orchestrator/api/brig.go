package api

import (
	"context"
	"io"
)

// Brig is everything that a caller can ask of a living brig, seen with the rights
// of one credential. The service implements it in the process, Client from
// outside; one suite, package apitest, holds for both.
//
// A session is named by its ID or by its name. Errors are *Problem. ctx bounds the
// call; what it bounds beyond that is said with the method. A caller that may
// not see something is told that it does not exist (CodeNotFound).
type Brig interface {
	// Status is where code would run now and what holds there.
	Status(ctx context.Context) (Status, error)
	Backends(ctx context.Context) (BackendList, error)

	// OpenSession opens a session, or with a Name that exists returns that one and
	// false. What the request asks for besides the name is not held against it.
	OpenSession(ctx context.Context, r SessionRequest) (s Session, created bool, err error)
	Sessions(ctx context.Context, p Page) (SessionList, error)
	Session(ctx context.Context, session string) (Session, error)
	// RenewSession counts as a use of the session, and moves the end of its lifetime.
	RenewSession(ctx context.Context, session string, r Renewal) (Session, error)
	CloseSession(ctx context.Context, session string) error
	Reset(ctx context.Context, session string, o ResetOptions) (Session, error)
	// Interrupt ends the run that has the interpreter, softly first. CodeNotRunning.
	Interrupt(ctx context.Context, session string) error
	Variables(ctx context.Context, session string) (VariableList, error)
	// SessionToken makes a credential for this session alone; it replaces an earlier one.
	SessionToken(ctx context.Context, session string) (Token, error)

	// Run executes code and passes its events to emit, in order, until it has ended;
	// nil: nobody looks. The end of ctx, and an error of emit, cancel the run.
	// session empty: a session of its own for this one run (one shot).
	Run(ctx context.Context, session string, r RunRequest, o RunOptions, emit func(Event) error) (Run, error)
	// Start begins a run and returns when it is accepted; only CancelRun, Interrupt
	// and the session's end cancel it.
	Start(ctx context.Context, session string, r RunRequest, o RunOptions) (Run, error)
	// FindRun is the run as it stands; with wait it returns when the run has ended, or
	// after that time.
	FindRun(ctx context.Context, run string, o FindOptions) (Run, error)
	Runs(ctx context.Context, session string, p Page) (RunList, error)
	CancelRun(ctx context.Context, run string) (Run, error)
	// Follow passes the events of a run after the one with that ID (0: all that are
	// still held), until its end was passed. An EventReset comes first where some are
	// no longer held. Ending it never cancels the run.
	Follow(ctx context.Context, run string, after uint64, emit func(Event) error) error
	// Watch passes what happens in this brig, as Follow does, until ctx ends.
	Watch(ctx context.Context, after uint64, emit func(Event) error) error

	Files(ctx context.Context, session, prefix string, p Page) (FileList, error)
	// StatFile describes a regular file; its ETag changes whenever anything about it does.
	StatFile(ctx context.Context, session, path string) (File, error)
	// ReadFile opens a file; whoever gets the reader closes it.
	ReadFile(ctx context.Context, session, path string, r Range) (io.ReadCloser, File, error)
	// WriteFile replaces a file as a whole; it is on the disk when the call returns.
	WriteFile(ctx context.Context, session, path string, content io.Reader, o WriteOptions) (File, error)
	RemoveFile(ctx context.Context, session, path string, o RemoveOptions) error
	// ReadArchive is everything below prefix; WriteArchive unpacks beside what is
	// there. Links and special files are refused by name, nothing leads out.
	ReadArchive(ctx context.Context, session, prefix string, f ArchiveFormat) (io.ReadCloser, error)
	WriteArchive(ctx context.Context, session, prefix string, f ArchiveFormat, content io.Reader) (ArchiveResult, error)
	// Export is what really ran in the session.
	Export(ctx context.Context, session string, f ExportFormat) (io.ReadCloser, error)

	PutDataset(ctx context.Context, session, name string, r DatasetRequest) (Dataset, error)
	Datasets(ctx context.Context, session string) (DatasetList, error)
	RemoveDataset(ctx context.Context, session, name string) error

	// Selftest begins one and returns when it is accepted; FindSelftest with an empty
	// id is the latest.
	Selftest(ctx context.Context, r SelftestRequest) (Selftest, error)
	FindSelftest(ctx context.Context, id string, o FindOptions) (Selftest, error)
	Selftests(ctx context.Context, p Page) (SelftestList, error)
	FollowSelftest(ctx context.Context, id string, after uint64, emit func(Event) error) error

	// For operators only; others get CodeForbidden.

	Audit(ctx context.Context, q AuditQuery) (AuditList, error)
	Settings(ctx context.Context) (SettingList, error)
	// PageLogin makes a one-time token for opening the pages in a browser.
	PageLogin(ctx context.Context) (PageLogin, error)
	// Shutdown asks brig to end; it returns before that.
	Shutdown(ctx context.Context) error
}
