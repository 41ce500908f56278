package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"

	"brig/orchestrator/api"
	"brig/orchestrator/private"
)

// tokens are those of this start: all are made anew each time, and only their
// hashes are kept.
type tokens struct {
	operator, agent, mcp             [sha256.Size]byte
	operatorText, agentText, mcpText string // until they are written
}

func newTokens() *tokens {
	t := &tokens{operatorText: newToken(), agentText: newToken(), mcpText: newToken()}
	t.operator, t.agent, t.mcp = sha256.Sum256([]byte(t.operatorText)), sha256.Sum256([]byte(t.agentText)), sha256.Sum256([]byte(t.mcpText))
	return t
}

// newToken is 256 bits that nobody can guess.
func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// write puts the tokens where the user's own programs find them.
func (t *tokens) write(dir string) error {
	defer func() { t.operatorText, t.agentText, t.mcpText = "", "", "" }()
	return errors.Join(
		writeText(dir, api.OperatorToken, t.operatorText), writeText(dir, api.AgentToken, t.agentText),
		writeText(dir, api.MCPToken, t.mcpText))
}

// writeText makes a file for this user alone in place of whatever has that name.
func writeText(dir, name, text string) error {
	if err := private.Replace(filepath.Join(dir, name), []byte(text+"\n"), private.FileMode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
