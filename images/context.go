package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"time"
)

// buildContext is the tar that the engine gets: sorted, owned by root, one fixed
// time, so that the same brig always sends the same bytes and the engine's build
// cache holds.
func buildContext(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	written := map[string]bool{".": true}
	for _, name := range sortedNames(files) {
		if err := writeDirs(w, written, path.Dir(name)); err != nil {
			return nil, err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])),
			Mode: 0o444, ModTime: fixedTime(), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write the build context: %w", err)
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, fmt.Errorf("write the build context: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write the build context: %w", err)
	}
	return out.Bytes(), nil
}

func writeDirs(w *tar.Writer, written map[string]bool, dir string) error {
	if written[dir] {
		return nil
	}
	if err := writeDirs(w, written, path.Dir(dir)); err != nil {
		return err
	}
	written[dir] = true
	header := &tar.Header{
		Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: fixedTime(), Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write the build context: %w", err)
	}
	return nil
}

func fixedTime() time.Time { return time.Unix(1_000_000_000, 0).UTC() }
