package server

import (
	"net/http"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

func TestFileConditionsAndRanges(t *testing.T) {
	w := opened(t)
	const path = "/v1/sessions/work/files/a%20b/c%2Fd.txt"
	put := func(text string, headers map[string]string) (int, http.Header) {
		all := map[string]string{"Content-Type": fileType}
		for k, v := range headers {
			all[k] = v
		}
		status, header, _ := w.send(t, sent{method: "PUT", path: path, body: text, headers: all})
		return status, header
	}
	status, header := put("0123456789", map[string]string{"If-None-Match": "*"})
	tag := header.Get("ETag")
	if status != 201 || tag == "" {
		t.Fatalf("%d %v", status, header)
	}
	for _, c := range []struct {
		name, method string
		headers      map[string]string
		status       int
		text, ranged string
	}{
		{"whole", "GET", nil, 200, "0123456789", ""},
		{"head", "HEAD", nil, 200, "", ""},
		{"first", "GET", map[string]string{"Range": "bytes=0-3"}, 206, "0123", "bytes 0-3/10"},
		{"rest", "GET", map[string]string{"Range": "bytes=8-"}, 206, "89", "bytes 8-9/10"},
		{"last", "GET", map[string]string{"Range": "bytes=-2"}, 206, "89", "bytes 8-9/10"},
		{"more than there is", "GET", map[string]string{"Range": "bytes=5-99999999999999999999"}, 206, "56789", "bytes 5-9/10"},
		{"beyond", "GET", map[string]string{"Range": "bytes=10-"}, 416, "", "bytes */10"},
		{"none", "GET", map[string]string{"Range": "bytes=-0"}, 416, "", "bytes */10"},
		{"two", "GET", map[string]string{"Range": "bytes=0-1,3-4"}, 200, "0123456789", ""},
		{"another unit", "GET", map[string]string{"Range": "lines=1-2"}, 200, "0123456789", ""},
		{"backwards", "GET", map[string]string{"Range": "bytes=5-2"}, 200, "0123456789", ""},
		{"range of another", "GET", map[string]string{"Range": "bytes=0-3", "If-Range": `"x"`}, 200, "0123456789", ""},
		{"range of this", "GET", map[string]string{"Range": "bytes=0-3", "If-Range": tag}, 206, "0123", "bytes 0-3/10"},
		{"unchanged", "GET", map[string]string{"If-None-Match": `"y", W/` + tag}, 304, "", ""},
		{"changed", "GET", map[string]string{"If-None-Match": `"y"`}, 200, "0123456789", ""},
		{"another wanted", "GET", map[string]string{"If-Match": `"y"`}, 412, "", ""},
		{"this wanted", "GET", map[string]string{"If-Match": tag}, 200, "0123456789", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, text := w.send(t, sent{method: c.method, path: path, headers: c.headers})
			if status != c.status || c.status < 400 && text != c.text || header.Get("Content-Range") != c.ranged {
				t.Errorf("%d %q %q", status, text, header.Get("Content-Range"))
			}
			if status < 300 && (header.Get("ETag") != tag || header.Get("Content-Type") != fileType || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment")) {
				t.Errorf("%v", header)
			}
		})
	}
	if status, _ := put("x", map[string]string{"If-None-Match": "*"}); status != 412 {
		t.Errorf("made anew: %d", status)
	}
	if status, _ := put("x", map[string]string{"If-Match": `"y"`}); status != 412 {
		t.Errorf("another replaced: %d", status)
	}
	if status, header := put("other", map[string]string{"If-Match": tag}); status != 200 || header.Get("ETag") == tag {
		t.Errorf("this replaced: %d %v", status, header)
	}
	_, _, text := w.send(t, sent{method: "GET", path: "/v1/sessions/work/files?prefix=a%20b"})
	if !strings.Contains(text, `"a b/c/d.txt"`) {
		t.Errorf("%s", text)
	}
	if status, _, text := w.send(t, sent{method: "DELETE", path: path}); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if p, _ := w.problem(t, sent{method: "GET", path: path}); p.Code != api.CodeNotFound {
		t.Error(p.Code)
	}
}

func TestByteRange(t *testing.T) {
	for header, want := range map[string][2]int64{"bytes=0-0": {0, 0}, "bytes = 3-": {3, 9}, "bytes=-99": {0, 9}, "BYTES=2-4": {2, 4}} {
		first, last, err := byteRange(header, 10)
		if err != nil || first != want[0] || last != want[1] {
			t.Errorf("%s: %d-%d %v", header, first, last, err)
		}
	}
	if _, _, err := byteRange("bytes=-1", 0); err == nil {
		t.Error("the last byte of nothing was found")
	}
}
