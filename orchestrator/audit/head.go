package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"brig/orchestrator/private"
)

const (
	headFile = "head"
	// slotBytes is the room of one head. There are two, written in turn, so that one
	// that was cut off leaves the other.
	slotBytes = 128
	sumDigits = 16
)

func now() time.Time { return time.Now() }

// saveHead writes the head to its file. It follows the log: it may be behind it,
// never ahead.
func (l *Log) saveHead(head Head) error {
	f, err := private.Open(filepath.Join(l.o.Dir, headFile), os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	text := head.String()
	text += " " + headSum(text) + " "
	text += strings.Repeat(".", slotBytes-len(text)-1) + "\n"
	at := int64(head.Number%2) * slotBytes
	if info, looked := f.Stat(); looked == nil && info.Size() < 2*slotBytes {
		text, at = text+text, 0 // from then on it needs no more room
	}
	_, err = f.WriteAt([]byte(text), at)
	return errors.Join(err, f.Close())
}

func headSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:sumDigits]
}

// loadHead is the later head of those in the file; ok is false where there is none.
func loadHead(dir string) (head Head, ok bool) {
	f, err := private.Open(filepath.Join(dir, headFile), os.O_RDONLY)
	if err != nil {
		return Head{}, false
	}
	defer f.Close()
	text := make([]byte, 2*slotBytes)
	n, _ := f.ReadAt(text, 0) // as much as there is
	for at := 0; at+slotBytes <= n; at += slotBytes {
		said, sum, _ := strings.Cut(string(text[at:at+slotBytes]), " ")
		h, err := ParseHead(said)
		if err == nil && strings.HasPrefix(sum, headSum(said)+" ") && h.Number > head.Number {
			head, ok = h, true
		}
	}
	return head, ok
}
