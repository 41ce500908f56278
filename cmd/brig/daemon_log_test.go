package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/rs/zerolog"
)

// What agents say stands in the log, and neither form lets it make a line or reach a
// terminal.
func TestLogReachesNoTerminal(t *testing.T) {
	hostile := "a\nb\r\x1b[2J\x1b]0;x\x07\u009b31m\u0085\u2028\x7f\u202e\xff" + `","level":"error","x":"`
	var console bytes.Buffer
	file := &rotating{path: filepath.Join(t.TempDir(), logName), most: logBytes, keep: logFiles}
	if err := file.open(); err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(zerolog.MultiLevelWriter(file, consoleOf(&console, false))).With().Timestamp().Logger()
	log.Error().Str("name", hostile).Err(errors.New(hostile)).AnErr("met", errors.New(hostile)).Strs("list", []string{hostile}).
		Interface("object", map[string]string{hostile: hostile}).Bytes("bytes", []byte(hostile)).Str(hostile, "key").Msg(hostile)
	text, err := os.ReadFile(file.path)
	if err := errors.Join(err, file.close()); err != nil {
		t.Fatal(err)
	}
	for name, out := range map[string]string{"file": string(text), "console": console.String()} {
		if n := strings.Count(out, "\n"); n != 1 || !strings.HasSuffix(out, "\n") {
			t.Errorf("%s: %d lines: %q", name, n, out)
		}
		if !strings.Contains(out, "31m") {
			t.Errorf("%s: the text is not there: %q", name, out)
		}
		for _, r := range strings.TrimSuffix(out, "\n") {
			if unicode.Is(unicode.Cc, r) || hidden(r) {
				t.Errorf("%s: %U in %q", name, r, out)
				break
			}
		}
	}
}
