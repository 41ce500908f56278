package docker

import (
	"errors"
	"strings"
	"testing"

	"brig/images"
)

func TestReadBuild(t *testing.T) {
	var seen []images.Progress
	err := readBuild(strings.NewReader(`{"stream":"Step 1/3 : ARG BASE=debian"}
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

func TestReadBuildFailure(t *testing.T) {
	err := readBuild(strings.NewReader(`{"stream":"Step 2/3 : RUN make"}
{"stream":"make: *** nothing to do\u001b[0m\n"}
{"errorDetail":{"code":2,"message":"returned a non-zero code: 2"},"error":"returned a non-zero code: 2"}
`), nil)
	var failed *buildFailed
	if !errors.As(err, &failed) || err.Error() != "in \"RUN make\": returned a non-zero code: 2\n  make: *** nothing to do[0m" {
		t.Errorf("%q", err)
	}
	if err := readBuild(strings.NewReader(`{"stream":"Step 1/3 : X"}{`), nil); err == nil {
		t.Error("a stream that is cut off is a success")
	}
}
