package mcp

import "encoding/json"

// The schemas are written by hand, for the least that clients understand: an object
// with properties at the root, one type each, no unions, no references.

const sessionProperty = `"session":{"type":"string","maxLength":64,"description":"Name or id of a session. Where code is run or a file written a name that does not exist makes a new one; reading needs one that exists. Leave it out to use your own session."}`

func runInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
"code":{"type":"string","description":"Python source. The value of its last expression is shown, as in a notebook."},
"lines":{"type":"array","items":{"type":"string"},"description":"The source as a list of lines, instead of code."},
"path":{"type":"string","description":"A .py file of the workspace to run, instead of code."},
"argv":{"type":"array","items":{"type":"string"},"description":"sys.argv[1:] for the code."},
"timeout_seconds":{"type":"integer","minimum":1,"description":"When to end the run. Left out: as the user configured it, usually 30."},
"wait_seconds":{"type":"integer","minimum":0,"maximum":40,"description":"How long to wait for the end before answering with the run's id. Left out: 40."},
` + sessionProperty + `}}`)
}

func runOutput() json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["run","session","state","sandbox"],"properties":{
"run":{"type":"string","description":"Id of the run, for run_wait and run_cancel."},
"session":{"type":"string","description":"Id of its session."},
"state":{"type":"string","enum":["queued","running","ended"]},
"cause":{"type":"string","description":"Why it ended: ok, exception, exit, timeout, interrupted, cancelled, memory, processes, disk, output, killed, backend-lost, refused, internal."},
"detail":{"type":"string"},
"exit_status":{"type":"integer","description":"The program's own, for cause exit."},
"result":{"type":"string","description":"Value of the last expression."},
"stdout":{"type":"string","description":"Bounded: the beginning and the end; what is missing is marked where it is missing."},
"stderr":{"type":"string"},
"stdout_bytes":{"type":"integer","description":"What was written in all."},
"stderr_bytes":{"type":"integer"},
"left_out_bytes":{"type":"integer","description":"Of stdout and stderr, what is not shown here."},
"exception":{"type":"string","description":"Name and message."},
"traceback":{"type":"string"},
"displays":{"type":"array","items":{"type":"string"},"description":"What else was shown, as text."},
"images":{"type":"integer","description":"How many figures the content holds."},
"variables":{"type":"string","description":"What became of the variables: kept, lost or ended."},
"elapsed_ms":{"type":"number"},
"links":{"type":"array","items":{"type":"string"},"description":"Resources that hold what is not shown here."},
"log_path":{"type":"string","description":"Workspace file with the full output."},
"note":{"type":"string"},
"sandbox":{"type":"object","required":["words"],"properties":{
"words":{"type":"string","description":"What contained the code."},
"backend":{"type":"string"},
"containment":{"type":"string"},
"degraded":{"type":"boolean"},
"uncontained":{"type":"boolean"},
"approval":{"type":"string"}}}}}`)
}

func waitInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["run"],"properties":{
"run":{"type":"string","description":"Id of the run."},
"wait_seconds":{"type":"integer","minimum":0,"maximum":40,"description":"How long to wait for its end. Left out: 40."}}}`)
}

func cancelInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["run"],"properties":{
"run":{"type":"string","description":"Id of the run."}}}`)
}

func listInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
"prefix":{"type":"string","description":"Only what is below this directory."},
"cursor":{"type":"string","description":"next of the page before."},
` + sessionProperty + `}}`)
}

func listOutput() json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["files"],"properties":{
"files":{"type":"array","items":{"type":"object","required":["path","kind","bytes"],"properties":{
"path":{"type":"string"},"kind":{"type":"string","enum":["file","dir","link","other"]},"bytes":{"type":"integer"},"modified":{"type":"string"},"problem":{"type":"string"}}}},
"next":{"type":"string","description":"There is more: call again with this as cursor."},
"note":{"type":"string"}}}`)
}

func readInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","description":"File of the workspace."},
"offset":{"type":"integer","minimum":0,"description":"Byte to begin at. Left out: 0."},
"max_bytes":{"type":"integer","minimum":1,"maximum":65536,"description":"Most bytes of text to return. Left out: 32768."},
` + sessionProperty + `}}`)
}

func readOutput() json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["path","bytes"],"properties":{
"path":{"type":"string"},
"bytes":{"type":"integer","description":"Size of the whole file."},
"mime_type":{"type":"string"},
"text":{"type":"string"},
"offset":{"type":"integer","description":"Where text begins."},
"next_offset":{"type":"integer","description":"There is more: call again with this as offset."},
"etag":{"type":"string"},
"note":{"type":"string"}}}`)
}

func writeInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","description":"File of the workspace; directories are made."},
"text":{"type":"string","description":"The whole content."},
"base64":{"type":"string","description":"The whole content as base64, instead of text."},
"create_only":{"type":"boolean","description":"Fail where a file is there already."},
"if_etag":{"type":"string","description":"Fail unless the file has this etag, as read_file told it."},
` + sessionProperty + `}}`)
}

func writeOutput() json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["path","bytes","replaced"],"properties":{
"path":{"type":"string"},"bytes":{"type":"integer"},"replaced":{"type":"boolean","description":"There was a file before."},
"etag":{"type":"string"},"session":{"type":"string"},"note":{"type":"string"}}}`)
}

func statusInput() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)
}

func statusOutput() json.RawMessage {
	return json.RawMessage(`{"type":"object","required":["runs_code","words"],"properties":{
"runs_code":{"type":"boolean","description":"run_python_sandboxed is offered now."},
"why_not":{"type":"string"},
"words":{"type":"string"},
"backend":{"type":"string","description":"What would contain code now; empty: nothing."},
"configured":{"type":"string"},
"degraded":{"type":"boolean"},
"weakened":{"type":"boolean"},
"warnings":{"type":"array","items":{"type":"string"}},
"layers":{"type":"array","items":{"type":"object","required":["id","state"],"properties":{
"id":{"type":"string"},"state":{"type":"string","enum":["enforced","partial","off","unsupported"]},"reason":{"type":"string"},"verdict":{"type":"string","description":"Of the latest self-test: blocked, allowed, inconclusive or unsupported."}}}},
"selftest":{"type":"string"},
"session":{"type":"string","description":"Your own session; empty: it is opened by the first call that needs it."},
"version":{"type":"string"}}}`)
}
