package api

import "time"

// RunRequest asks for one execution: of Code, or of the workspace file Path.
type RunRequest struct {
	Code string `json:"code,omitempty" doc:"Python source; at most 16 MiB"`
	// CodeBase64 is for source in another encoding, which it declares (PEP 263).
	CodeBase64 []byte   `json:"code_base64,omitempty" doc:"instead of code, where the source is not UTF-8"`
	Path       string   `json:"path,omitempty" maxLength:"4096" doc:"a .py file of the workspace instead of code"`
	Filename   string   `json:"filename,omitempty" maxLength:"255" doc:"what tracebacks show; empty: the cell's number"`
	Argv       []string `json:"argv,omitempty" maxItems:"1000" nullable:"false" doc:"sys.argv[1:]"`
	Once       bool     `json:"once,omitempty" doc:"a whole program: the interpreter ends with it"`
	TimeoutMs  int64    `json:"timeout_ms,omitempty" minimum:"0" doc:"milliseconds of wall clock; 0: workspace.exec_timeout, at most limits.max_timeout"`
	// Session is what a one shot asks of its session.
	Session *SessionRequest `json:"session,omitempty" doc:"of one shots alone: the session for this run; it has no name"`
	Files   []InlineFile    `json:"files,omitempty" maxItems:"1000" nullable:"false" doc:"put into the workspace before the run"`
}

// Source is the code of the request, as the interpreter gets it; nil: it is Path's.
func (r RunRequest) Source() []byte {
	switch {
	case r.CodeBase64 != nil:
		return r.CodeBase64
	case r.Code != "":
		return []byte(r.Code)
	default:
		return nil
	}
}

// InlineFile is a small file inside of a request.
type InlineFile struct {
	Path   string `json:"path" minLength:"1" maxLength:"4096"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty" doc:"instead of text"`
}

// RunOptions are what HTTP says in headers.
type RunOptions struct {
	// Key makes a request safe to repeat for 24 hours: the same key and request get the
	// first answer. At most 255 printable characters.
	Key string
}

// FindOptions of FindRun and FindSelftest.
type FindOptions struct {
	Wait time.Duration // for the end, at most 45 s; 0: not at all
}

// RunState is where a run stands.
type RunState string

const (
	RunQueued  RunState = "queued"
	RunRunning RunState = "running"
	RunEnded   RunState = "ended"
)

// Run is one execution, as it stands or as it ended.
type Run struct {
	ID      string     `json:"id"`
	Session string     `json:"session" doc:"id of its session"`
	State   RunState   `json:"state" enum:"queued,running,ended"`
	Created time.Time  `json:"created" doc:"when it was accepted"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	// CodeSHA256 and CodeBytes say which source it was.
	CodeSHA256 string `json:"code_sha256" doc:"of the source, hex"`
	CodeBytes  int64  `json:"code_bytes"`
	Filename   string `json:"filename,omitempty"`

	// From here on empty until it has ended.

	Cause          string     `json:"cause,omitempty" enum:"ok,exception,exit,timeout,interrupted,cancelled,memory,processes,disk,output,killed,backend-lost,refused,internal" doc:"why it ended, from evidence"`
	RunnerReported bool       `json:"runner_reported,omitempty" doc:"the cause rests on the word of the runner alone"`
	Detail         string     `json:"detail,omitempty" doc:"the cause in sentences"`
	ExitStatus     *int       `json:"exit_status,omitempty" doc:"the program's own, for cause exit"`
	Signal         int        `json:"signal,omitempty"`
	Exception      *Exception `json:"exception,omitempty"`
	Stdout         Output     `json:"stdout"`
	Stderr         Output     `json:"stderr"`
	Displays       []Display  `json:"displays" nullable:"false" doc:"results, figures and what display() showed"`
	// DisplaysDropped were too many or too large to be kept with the run.
	DisplaysDropped int      `json:"displays_dropped,omitempty"`
	Log             *Log     `json:"log,omitempty" doc:"the workspace file with the full output"`
	Variables       string   `json:"variables,omitempty" enum:"kept,lost,ended" doc:"what became of the interpreter's variables"`
	ElapsedMs       float64  `json:"elapsed_ms" doc:"milliseconds, by brig's clock"`
	QueuedMs        float64  `json:"queued_ms" doc:"milliseconds it waited for earlier runs"`
	NotCarried      []string `json:"not_carried,omitempty" doc:"files that could not travel between workspace and instance"`
	// NotBrought are those of NotCarried of which the workspace has no copy, or an older one.
	NotBrought []string `json:"not_brought,omitempty" doc:"those of not_carried that the code made or changed, and that are lost to the workspace"`
	Stamp      *Stamp   `json:"stamp,omitempty" doc:"what really ran it"`
}

// Output is one stream of a run.
type Output struct {
	Text string `json:"text" doc:"UTF-8; what is not is replaced by U+FFFD and base64 holds the bytes"`
	// Tail follows Text after what was dropped.
	Tail   string `json:"tail,omitempty" doc:"what came after the dropped part"`
	Lossy  bool   `json:"lossy,omitempty" doc:"text is not exactly what was written"`
	Base64 []byte `json:"base64,omitempty" doc:"the bytes of text and tail where lossy"`
	// Total = Kept + Dropped.
	TotalBytes   int64 `json:"total_bytes"`
	KeptBytes    int64 `json:"kept_bytes"`
	DroppedBytes int64 `json:"dropped_bytes"`
	Incomplete   bool  `json:"incomplete,omitempty" doc:"the end of the run was not seen: more may have been written"`
}

// Display is one thing shown, in several representations.
type Display struct {
	Role string        `json:"role" doc:"result, display or figure"`
	Data []DisplayPart `json:"data" nullable:"false"`
}

// DisplayPart is one representation: text or bytes.
type DisplayPart struct {
	MIME   string `json:"mime"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty" doc:"instead of text where it is binary"`
}

// Log names the workspace file with the full output.
type Log struct {
	Path         string `json:"path"`
	Bytes        int64  `json:"bytes"`
	DroppedBytes int64  `json:"dropped_bytes"`
	Error        string `json:"error,omitempty"`
}

// Exception is an uncaught exception.
type Exception struct {
	Name      string  `json:"name"`
	Message   string  `json:"message"`
	Frames    []Frame `json:"frames,omitempty" doc:"outermost first"`
	Traceback string  `json:"traceback"`
	Truncated bool    `json:"truncated,omitempty"`
}

// Frame is one line of a traceback.
type Frame struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
}

// RunList is one page, the latest first; outputs are left out.
type RunList struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty"`
}
