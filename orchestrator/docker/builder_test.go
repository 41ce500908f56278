package docker

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"brig/images"
)

func TestReadClassic(t *testing.T) {
	var seen []images.Progress
	err := readClassic(strings.NewReader(`{"stream":"Step 1/3 : ARG BASE=debian"}
{"stream":"\n"}
{"stream":" ---\u003e add79e994b7c\n"}
{"stream":"Step 2/3 : RUN make"}
{"stream":"\nGet:1 one\r\nGet:2 two\n"}
{"aux":{"ID":"sha256:1"}}
{"stream":"Successfully built 1\n"}
`), func(p images.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	want := []images.Progress{
		{Step: 1, Total: 3, Text: "ARG BASE=debian", Instruction: true},
		{Step: 1, Total: 3, Text: "---> add79e994b7c"},
		{Step: 2, Total: 3, Text: "RUN make", Instruction: true},
		{Step: 2, Total: 3, Text: "Get:1 one"},
		{Step: 2, Total: 3, Text: "Get:2 two"},
		{Step: 2, Total: 3, Text: "Successfully built 1"},
	}
	if len(seen) != len(want) {
		t.Fatalf("%+v", seen)
	}
	for n := range want {
		if seen[n] != want[n] {
			t.Errorf("%d: %+v, want %+v", n, seen[n], want[n])
		}
	}
}

func TestReadClassicFailure(t *testing.T) {
	err := readClassic(strings.NewReader(`{"stream":"Step 2/3 : RUN make"}
{"stream":"make: *** nothing to do\u001b[0m\n"}
{"errorDetail":{"code":2,"message":"returned a non-zero code: 2"},"error":"returned a non-zero code: 2"}
`), func(images.Progress) {})
	var failed *images.StepError
	if !errors.As(err, &failed) || err.Error() != "in \"RUN make\": returned a non-zero code: 2\n  make: *** nothing to do[0m" {
		t.Errorf("%q", err)
	}
	if err := readClassic(strings.NewReader(`{"stream":"Step 1/3 : X"}{`), func(images.Progress) {}); err == nil {
		t.Error("a stream that is cut off is a success")
	}
}

// record encodes a StatusResponse as BuildKit sends it.
func record(t *testing.T, fields ...[]byte) string {
	t.Helper()
	var all []byte
	for _, f := range fields {
		all = append(all, f...)
	}
	text, err := json.Marshal(map[string]any{"id": traceID, "aux": all})
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// message is a field that holds a message; the numbers are BuildKit's.
func message(number protowire.Number, fields map[protowire.Number]string) []byte {
	inner := protowire.AppendTag(nil, 99, protowire.VarintType) // one that a later BuildKit may add
	inner = protowire.AppendVarint(inner, 7)
	for _, n := range slices.Sorted(maps.Keys(fields)) {
		inner = protowire.AppendTag(inner, n, protowire.BytesType)
		inner = protowire.AppendString(inner, fields[n])
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), inner)
}

func vertexOf(digest, name string, more map[protowire.Number]string) []byte {
	fields := map[protowire.Number]string{1: digest, 3: name}
	maps.Copy(fields, more)
	return message(1, fields)
}

func logOf(digest, text string) []byte {
	return message(3, map[protowire.Number]string{1: digest, 4: text})
}

func TestReadBuildKit(t *testing.T) {
	started := map[protowire.Number]string{5: ""}
	var seen []images.Progress
	err := readBuildKit(strings.NewReader(
		record(t, vertexOf("i", "[internal] load build definition", started))+
			record(t, vertexOf("a", "[1/2] FROM base", nil), vertexOf("b", "[2/2] RUN make", nil), vertexOf("e", "exporting to image", started))+
			record(t, vertexOf("a", "[1/2] FROM base", started))+
			record(t, vertexOf("b", "[2/2] RUN make", started), logOf("b", "one\r\ntwo\n"), logOf("unknown", "three\n"))+
			record(t, vertexOf("b", "[2/2] RUN make", map[protowire.Number]string{5: "", 6: ""}))+
			`{"id":"moby.image.id","aux":{"ID":"sha256:1"}}`),
		func(p images.Progress) { seen = append(seen, p) })
	want := []images.Progress{
		{Step: 1, Total: 2, Text: "FROM base", Instruction: true},
		{Step: 2, Total: 2, Text: "RUN make", Instruction: true},
		{Step: 2, Total: 2, Text: "one"},
		{Step: 2, Total: 2, Text: "two"},
	}
	if err != nil || !slices.Equal(seen, want) {
		t.Errorf("%+v, %v", seen, err)
	}
}

func TestReadBuildKitFailure(t *testing.T) {
	started := map[protowire.Number]string{5: ""}
	err := readBuildKit(strings.NewReader(
		record(t, vertexOf("b", "[libraries 2/2] RUN make", started), logOf("b", "nothing to \x1b[31mdo\n"))+
			record(t, vertexOf("c", "[other 1/1] RUN fine", started), logOf("c", "fine\n"))+
			record(t, vertexOf("b", "[libraries 2/2] RUN make", map[protowire.Number]string{7: "exit code: 2"}))+
			`{"errorDetail":{"message":"process \"/bin/sh -c make\" did not complete successfully: exit code: 2"}}`),
		func(images.Progress) {})
	var failed *images.StepError
	if !errors.As(err, &failed) || failed.Step != "RUN make" || len(failed.Tail) != 1 || failed.Tail[0] != "nothing to [31mdo" || !strings.HasSuffix(failed.Message, "exit code: 2") {
		t.Errorf("%+v", failed)
	}
	for _, aux := range []string{`"/////w=="`, `"CgQ="`, `7`, `"not base64!"`} {
		if err := readBuildKit(strings.NewReader(`{"id":"`+traceID+`","aux":`+aux+`}`), func(images.Progress) {}); err == nil {
			t.Errorf("a record of %s is no failure", aux)
		}
	}
}

func FuzzReadBuildKit(f *testing.F) {
	f.Add(message(1, map[protowire.Number]string{1: "a", 3: "[1/1] RUN make", 5: ""}))
	f.Add(message(3, map[protowire.Number]string{1: "a", 4: "one\n"}))
	f.Fuzz(func(t *testing.T, record []byte) {
		s := &solving{vertices: map[string]*vertex{}, progress: func(p images.Progress) {
			if p.Step < 1 || p.Step > p.Total {
				t.Errorf("%+v", p)
			}
		}}
		_ = s.status(record) // whatever it is, it neither panics nor counts wrongly
	})
}
