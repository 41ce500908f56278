package api

import "strings"

// ProblemType is the media type of every error answer (RFC 9457).
const ProblemType = "application/problem+json"

// Problem is every error of this package and of the HTTP service.
type Problem struct {
	Type     string       `json:"type" doc:"urn:brig:problem: and the code"`
	Title    string       `json:"title" doc:"the kind of problem in a few words, the same for every occurrence"`
	Status   int          `json:"status" doc:"the HTTP status"`
	Detail   string       `json:"detail,omitempty" doc:"this occurrence in one sentence, for people"`
	Instance string       `json:"instance,omitempty" doc:"the request's id, as in the log"`
	Code     Code         `json:"code" doc:"the kind of problem, for programs"`
	Remedy   string       `json:"remedy,omitempty" doc:"the next command to type, or what else to do"`
	Errors   []FieldError `json:"errors,omitempty" doc:"what is wrong with which part of the request; never its values"`
	// Isolation says what would have contained the code, where a refusal is about that.
	Isolation *Isolation `json:"isolation,omitempty"`
	// RetryAfter is when to try again, in seconds; 0: not said.
	RetryAfter int `json:"retry_after_seconds,omitempty" doc:"seconds after which trying again makes sense"`
}

// FieldError is one thing that is wrong with a request.
type FieldError struct {
	Location string `json:"location" doc:"such as body.timeout_ms or query.limit"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = strings.ToLower(p.Title)
	}
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}

// Is makes errors.Is(err, &Problem{Code: c}) a comparison of codes.
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Code == p.Code
}

// Code is the kind of a problem.
type Code string

const (
	CodeInvalid       Code = "invalid"           // 422: the request is not right; Errors
	CodeMalformed     Code = "malformed"         // 400: it cannot be read at all
	CodeUnauthorized  Code = "unauthorized"      // 401: no credential, or not one of this brig's
	CodeForbidden     Code = "forbidden"         // 403: not with this credential, or from another site
	CodeNotFound      Code = "not-found"         // 404: it does not exist, or not for this credential
	CodeMethod        Code = "method"            // 405
	CodeNotAccepted   Code = "not-acceptable"    // 406
	CodeTooSlow       Code = "request-timeout"   // 408: the body did not come
	CodeNameTaken     Code = "name-taken"        // 409
	CodeNotRunning    Code = "not-running"       // 409: nothing to interrupt or cancel
	CodeConflict      Code = "conflict"          // 409: it does not fit the state that the thing is in
	CodeKeyInUse      Code = "key-in-use"        // 409: the run with this idempotency key has not ended
	CodeGone          Code = "gone"              // 410: it was, and is no more
	CodePrecondition  Code = "precondition"      // 412: If-Match or If-None-Match does not hold
	CodeTooLarge      Code = "too-large"         // 413
	CodeMedia         Code = "media-type"        // 415
	CodeRange         Code = "range"             // 416
	CodeHost          Code = "misdirected"       // 421: the Host header names something else
	CodeKeyReused     Code = "key-reused"        // 422: this idempotency key was used for another request
	CodeUnusable      Code = "unusable-file"     // 422: a name or a kind of file that a workspace does not take
	CodeBusy          Code = "busy"              // 429: too many runs wait for this session
	CodeRate          Code = "rate"              // 429: too many requests of this credential
	CodeTooMany       Code = "too-many"          // 429: sessions, streams or connections
	CodeHeader        Code = "header-too-large"  // 431
	CodeInternal      Code = "internal"          // 500: a fault of brig; Instance is in its log
	CodeStorage       Code = "storage"           // 503: the disk refuses, nothing was recorded
	CodeRefused       Code = "refused"           // 503: nothing that contains the code may run it now; Isolation
	CodeBackendLost   Code = "backend-lost"      // 503: what would have run it went away
	CodeShuttingDown  Code = "shutting-down"     // 503
	CodeDeadline      Code = "deadline"          // 504: it took longer than the caller or brig allows
	CodeQuota         Code = "quota"             // 507: the workspace, a file or the disk is full
	CodeUnreachable   Code = "unreachable"       // of Client alone: no brig answers
	CodeInterruptedIO Code = "connection-broken" // of Client alone: the answer broke off
)

// kinds are title and status of every code.
var kinds = map[Code]struct {
	status int
	title  string
}{
	CodeInvalid: {422, "Request not valid"}, CodeMalformed: {400, "Request not readable"},
	CodeUnauthorized: {401, "Credential missing or unknown"}, CodeForbidden: {403, "Not allowed"},
	CodeNotFound: {404, "Not found"}, CodeMethod: {405, "Method not allowed"}, CodeNotAccepted: {406, "Representation not available"},
	CodeTooSlow: {408, "Request too slow"}, CodeNameTaken: {409, "Name taken"}, CodeNotRunning: {409, "Nothing is running"},
	CodeConflict: {409, "Conflict with the present state"}, CodeKeyInUse: {409, "First request still running"},
	CodeGone: {410, "No longer there"}, CodePrecondition: {412, "Precondition failed"}, CodeTooLarge: {413, "Too large"},
	CodeMedia: {415, "Media type not supported"}, CodeRange: {416, "Range not satisfiable"}, CodeHost: {421, "Misdirected request"},
	CodeKeyReused: {422, "Idempotency key reused"}, CodeUnusable: {422, "File not usable"}, CodeBusy: {429, "Session busy"},
	CodeRate: {429, "Too many requests"}, CodeTooMany: {429, "Too many"}, CodeHeader: {431, "Header too large"},
	CodeInternal: {500, "Internal fault"}, CodeStorage: {503, "Storage not available"}, CodeRefused: {503, "Refused: not contained"},
	CodeBackendLost: {503, "Backend lost"}, CodeShuttingDown: {503, "Shutting down"}, CodeDeadline: {504, "Took too long"},
	CodeQuota: {507, "No room left"}, CodeUnreachable: {0, "No brig answers"}, CodeInterruptedIO: {0, "Connection broken"},
}

// NewProblem fills in what follows from the code.
func NewProblem(c Code, detail, remedy string) *Problem {
	k, known := kinds[c]
	if !known {
		panic("BUG: no problem has the code " + string(c))
	}
	return &Problem{Type: "urn:brig:problem:" + string(c), Title: k.title, Status: k.status, Detail: detail, Code: c, Remedy: remedy}
}
