package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"time"

	"brig"
	"brig/orchestrator/runner"
)

const (
	dockerfileName = "Dockerfile.runner"
	authorityName  = "mirror-ca.pem"
)

//go:embed apt.sh
var aptScript []byte

//go:embed libraries.sh
var librariesScript []byte

//go:embed requirements.txt
var requirements []byte

// buildFiles is everything that a build reads, by its path in the context.
// authority is the one thing that is not part of the image's identity: it decides
// whom the build trusts on the way to a mirror, and the pins decide what may come back.
func buildFiles(authority []byte) (map[string][]byte, error) {
	files := map[string][]byte{
		dockerfileName:     brig.DockerfileRunner,
		"apt.sh":           aptScript,
		"libraries.sh":     librariesScript,
		"requirements.txt": requirements,
		authorityName:      authority,
	}
	source := runner.Files()
	err := fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		files[path.Join("runner", name)] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded runner: %w", err)
	}
	return files, nil
}

// ContentHash names what an image of the tier is built from, in hex.
func ContentHash(tier Tier) (string, error) {
	files, err := buildFiles(nil)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "tier %s\n", tier)
	for _, name := range sortedNames(files) {
		if name == authorityName {
			continue
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// buildContext is the tar that the engine gets: sorted, owned by root, one fixed
// time, so that the same brig always sends the same bytes and the engine's build
// cache holds.
func buildContext(authority []byte) (*bytes.Buffer, error) {
	files, err := buildFiles(authority)
	if err != nil {
		return nil, err
	}
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
	return &out, nil
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

func sortedNames(files map[string][]byte) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
