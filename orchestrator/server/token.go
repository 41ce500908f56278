package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"brig/orchestrator/api"
)

// tokens are those of this start: both are made anew each time, and only their
// hashes are kept.
type tokens struct {
	operator, agent         [sha256.Size]byte
	operatorText, agentText string // until they are written
}

func newTokens() *tokens {
	t := &tokens{operatorText: newToken(), agentText: newToken()}
	t.operator, t.agent = sha256.Sum256([]byte(t.operatorText)), sha256.Sum256([]byte(t.agentText))
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
	defer func() { t.operatorText, t.agentText = "", "" }()
	return errors.Join(
		writePrivate(dir, api.OperatorToken, t.operatorText+"\n"), writePrivate(dir, api.AgentToken, t.agentText+"\n"))
}

// writePrivate makes a file for this user alone (0600 from its first moment) in
// place of whatever has that name. The directory is this user's alone.
func writePrivate(dir, name, text string) error {
	temp := filepath.Join(dir, "."+name+"."+newID())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o600), f.Close()) // the umask may have taken too much
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(temp))
	}
	return nil
}
