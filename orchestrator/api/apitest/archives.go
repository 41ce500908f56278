package apitest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"brig/orchestrator/api"
)

// entry is one member of an archive.
type entry struct {
	name, content string
	kind          byte   // of tar; 0: a file
	link          string // where it leads
}

func pack(t *testing.T, f api.ArchiveFormat, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if f == api.Zip {
		z := zip.NewWriter(&b)
		for _, e := range entries {
			h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
			switch e.kind {
			case tar.TypeSymlink:
				h.SetMode(fs.ModeSymlink | 0o777)
				e.content = e.link
			case tar.TypeFifo:
				h.SetMode(fs.ModeNamedPipe | 0o600)
			case tar.TypeChar, tar.TypeLink:
				continue // there is no such thing in a zip
			}
			w, err := z.CreateHeader(h)
			must(t, err)
			_, err = io.WriteString(w, e.content)
			must(t, err)
		}
		must(t, z.Close())
		return b.Bytes()
	}
	var to io.Writer = &b
	var z *gzip.Writer
	if f == api.TarGz {
		z = gzip.NewWriter(&b)
		to = z
	}
	w := tar.NewWriter(to)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: int64(len(e.content)), Typeflag: e.kind, Linkname: e.link, Mode: 0o644, Format: tar.FormatPAX}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		must(t, err)
	}
	must(t, w.Close())
	if z != nil {
		must(t, z.Close())
	}
	return b.Bytes()
}

func unpack(t *testing.T, f api.ArchiveFormat, data []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	if f == api.Zip {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		for _, m := range z.File {
			r, err := m.Open()
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			must(t, r.Close())
			out[m.Name] = string(text)
		}
		return out
	}
	var from io.Reader = bytes.NewReader(data)
	if f == api.TarGz {
		z, err := gzip.NewReader(from)
		must(t, err)
		from = z
	}
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		out[h.Name] = string(text)
	}
}

func download(t *testing.T, b api.Brig, session, prefix string, f api.ArchiveFormat) map[string]string {
	t.Helper()
	r, err := b.ReadArchive(within(t), session, prefix, f)
	must(t, err)
	data, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	return unpack(t, f, data)
}

func archives(t *testing.T, s Subject) {
	b := s.Agent
	for _, f := range []api.ArchiveFormat{api.Tar, api.TarGz, api.Zip} {
		x := open(t, b, api.SessionRequest{Limits: &api.LimitsRequest{WorkspaceBytes: 4 << 20, FileBytes: 1 << 20}})
		write(t, b, x.ID, "mine", "kept")
		sent := []entry{
			{name: "./"},
			{name: "in/"},
			{name: "in/a.txt", content: "a"},
			{name: "./ünï.txt", content: strings.Repeat("x", 100_000)},
			{name: "mine", content: "replaced"},
			{name: "link", kind: tar.TypeSymlink, link: "/etc/passwd"},
			{name: "in/hard", kind: tar.TypeLink, link: "mine"},
			{name: "pipe", kind: tar.TypeFifo},
			{name: "device", kind: tar.TypeChar},
			{name: "../up", content: "x"},
			{name: "/abs", content: "x"},
			{name: "in/../../up", content: "x"},
			{name: "a\x01b", content: "x"},
			{name: "link/below", content: "x"},
			{name: "in/a.txt/below", content: "x"},
			{name: "in", content: "a file where a directory is"},
			{name: "too large", content: strings.Repeat("y", 1<<20+1)},
			{name: "last", content: "z"},
		}
		got, err := b.WriteArchive(within(t), x.ID, "", f, bytes.NewReader(pack(t, f, sent)))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		refused := []string{"link", "pipe", "../up", "/abs", "in/../../up", "a\x01b", "in/a.txt/below", "in", "too large"}
		if f != api.Zip {
			refused = append(refused, "in/hard", "device")
		}
		var named []string
		for _, one := range got.Skipped {
			named = append(named, one.Name)
			if one.Reason == "" {
				t.Errorf("%s: %q without a reason", f, one.Name)
			}
		}
		slices.Sort(named)
		slices.Sort(refused)
		if !slices.Equal(named, refused) {
			t.Errorf("%s: refused %q, want %q", f, named, refused)
		}
		have := download(t, b, x.ID, "", f)
		want := map[string]string{"in/": "", "in/a.txt": "a", "ünï.txt": strings.Repeat("x", 100_000), "mine": "replaced", "last": "z", "link/": "", "link/below": "x"}
		if got.Files != 5 || got.Bytes != 100_011 {
			t.Errorf("%s: %d files, %d bytes", f, got.Files, got.Bytes)
		}
		for name, text := range want {
			if have[name] != text {
				t.Errorf("%s: %s holds %.20q", f, name, have[name])
			}
		}
		if len(have) != len(want) {
			t.Errorf("%s: %d members, want %d", f, len(have), len(want))
		}
		if below := download(t, b, x.ID, "in", f); len(below) != 1 || below["a.txt"] != "a" {
			t.Errorf("%s: below in: %v", f, below)
		}
		if _, err := b.WriteArchive(within(t), x.ID, "deep/er", f, bytes.NewReader(pack(t, f, sent[2:3]))); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if text, _ := read(t, b, x.ID, "deep/er/in/a.txt", api.Range{}); text != "a" {
			t.Errorf("%s: %q", f, text)
		}

		whole := pack(t, f, []entry{{name: "cut", content: strings.Repeat("c", 300_000)}})
		for what, data := range map[string][]byte{"nothing": {}, "text": []byte(strings.Repeat("no archive ", 200)), "a part": whole[:len(whole)/2]} {
			_, err := b.WriteArchive(within(t), x.ID, "", f, bytes.NewReader(data))
			wantCode(t, string(f)+" of "+what, err, api.CodeMalformed)
		}
		_, err = b.StatFile(within(t), x.ID, "cut")
		wantCode(t, string(f)+": a file that was cut off", err, api.CodeNotFound)
		var bomb []entry
		for range 6 {
			bomb = append(bomb, entry{name: "b" + strings.Repeat("o", len(bomb)), content: strings.Repeat("\x00", 1<<20)})
		}
		_, err = b.WriteArchive(within(t), x.ID, "", f, bytes.NewReader(pack(t, f, bomb)))
		wantCode(t, string(f)+" of more than there is room for", err, api.CodeQuota)
		if text, _ := read(t, b, x.ID, "last", api.Range{}); text != "z" {
			t.Errorf("%s: %q", f, text)
		}
		_, err = b.ReadArchive(within(t), x.ID, "none", f)
		wantCode(t, "a directory that is not there", err, api.CodeNotFound)
		must(t, b.CloseSession(within(t), x.ID))
	}
}
