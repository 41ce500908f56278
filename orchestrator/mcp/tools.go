package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

const (
	toolRun    = "run_python_sandboxed"
	toolWait   = "run_wait"
	toolCancel = "run_cancel"
	toolList   = "list_files"
	toolRead   = "read_file"
	toolWrite  = "write_file"
	toolStatus = "sandbox_status"
)

// always are the tools that run no code.
func (s *Server) always() []tool {
	return []tool{
		{&sdk.Tool{
			Name: toolList, Title: "List files of the sandbox", InputSchema: listInput(), OutputSchema: listOutput(), Annotations: reads(),
			Description: "List the files of a session's workspace.",
		}, s.made(list)},
		{&sdk.Tool{
			Name: toolRead, Title: "Read a file of the sandbox", InputSchema: readInput(), OutputSchema: readOutput(), Annotations: reads(),
			Description: "Read a file of a session's workspace: text in pieces, PNG, JPEG, GIF and WebP as an image. Files that are neither are only described.",
		}, s.made(read)},
		{&sdk.Tool{
			Name: toolWrite, Title: "Write a file of the sandbox", InputSchema: writeInput(), OutputSchema: writeOutput(), Annotations: changes(true),
			Description: "Write a whole file into a session's workspace, where Python code finds it by its relative path. It replaces a file of that name.",
		}, s.made(write)},
		{&sdk.Tool{
			Name: toolStatus, Title: "How the sandbox is", InputSchema: statusInput(), OutputSchema: statusOutput(), Annotations: reads(),
			Description: "What would contain code now, which restrictions hold, and why running code is or is not offered.",
		}, s.made(look)},
	}
}

func (s *Server) runTool() tool {
	return tool{&sdk.Tool{
		Name: toolRun, Title: "Run Python in the sandbox", InputSchema: runInput(), OutputSchema: runOutput(), Annotations: changes(true),
		Description: "Run Python in a sandbox: files of the workspace only, bounded memory and time, usually no network. Variables and files stay for the next call. " +
			"Give exactly one of code, lines and path. The value of the last expression and matplotlib figures are returned; long output is cut in the middle. " +
			"The answer says what really contained the code. A run that goes on longer than wait_seconds is answered with its id.",
	}, s.made(run)}
}

// handleTools are for runs that outlast a call.
func (s *Server) handleTools() []tool {
	return []tool{
		{&sdk.Tool{
			Name: toolWait, Title: "Wait for a run", InputSchema: waitInput(), OutputSchema: runOutput(), Annotations: reads(),
			Description: "The result of a run that had not ended, or how far it is.",
		}, s.made(wait)},
		{&sdk.Tool{
			Name: toolCancel, Title: "Cancel a run", InputSchema: cancelInput(), OutputSchema: runOutput(), Annotations: changes(false),
			Description: "End a run. Its output so far is returned; variables may be lost.",
		}, s.made(cancel)},
	}
}

// No tool reaches anything outside of its session.

func reads() *sdk.ToolAnnotations {
	no := false
	return &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
}

func changes(destroys bool) *sdk.ToolAnnotations {
	no := false
	return &sdk.ToolAnnotations{DestructiveHint: &destroys, OpenWorldHint: &no}
}
