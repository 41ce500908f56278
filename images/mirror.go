package images

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// authority is the certificate bundle that pip is told to trust on the user's
// machine, so that a mirror behind an inspecting proxy works in the build as well.
// It is not part of an image's identity: it decides whom the build trusts on the way
// to a mirror, and the pins decide what may come back.
func (t *Trust) authority() ([]byte, error) {
	name, ok := t.env("PIP_CERT")
	if !ok || name == "" {
		return nil, nil
	}
	const most = 4 << 20
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %w", err)
	}
	if len(text) > most {
		return nil, fmt.Errorf("read the certificates that PIP_CERT names: %s is larger than %d bytes", name, most)
	}
	return text, nil
}

// mirrorArgs are the build arguments that decide where packages come from. What
// may come is decided by the hashes of the pins and by apt's signatures.
func mirrorArgs(env func(string) (string, bool)) map[string]string {
	args := map[string]string{}
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "APT_MIRROR"} {
		if value, ok := env(name); ok && value != "" {
			args[name] = value
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		for _, spelling := range []string{name, strings.ToUpper(name)} {
			if value, ok := env(spelling); ok && value != "" {
				args[spelling] = value
			}
		}
	}
	return args
}
