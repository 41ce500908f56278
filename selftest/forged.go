package selftest

import (
	"bytes"
	"encoding/hex"

	"brig/orchestrator/wire"
)

// forgedFrame is the probe whose attempt prints what the runner would send to brig.
const forgedFrame = "control-frame"

// stderrStream is the number that both sides know for what code prints as an error.
const stderrStream = 2

// forgery is a whole frame of the runner's, which would tell brig of a line on the
// other stream. It is harmless where it is believed: a line more.
func (p *plot) forgery() (string, error) {
	var b bytes.Buffer
	line := hello + p.token + " " + forgedFrame + "\n"
	if err := wire.WriteFrame(&b, wire.RawFrame{Kind: wire.KindData, Stream: stderrStream, Payload: []byte(line)}); err != nil {
		return "", err
	}
	return hex.EncodeToString(b.Bytes()), nil
}

// believed reads printed as brig reads the runner's stream, and hears what is on the
// other stream in it: the control, which shows that the forgery is a frame.
func (p *plot) believed(printed []byte) {
	frame, err := hex.DecodeString(p.told["frame"].(string))
	if err != nil {
		panic("BUG: a forgery that is no hexadecimal: " + err.Error())
	}
	at := bytes.Index(printed, frame)
	if at < 0 {
		return
	}
	f, err := wire.ReadFrame(bytes.NewReader(printed[at:]))
	if err == nil && f.Kind == wire.KindData && f.Stream == stderrStream {
		p.yard.heard.hear(f.Payload)
	}
}
