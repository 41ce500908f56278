package selftest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
)

const mostNames = 256 // of a home directory that are told

// tellHome adds what the user's home is known by. A session is not told the names in
// it, but digests of some that are worth nothing without the directory.
func (p *plot) tellHome(home string) {
	p.told["home_id"], p.told["home_names"], p.told["home_own"] = "", []string{}, []string{}
	if home == "" {
		return
	}
	if info, err := os.Stat(home); err == nil {
		p.told["home_id"] = identity(info)
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		return // it cannot be listed outside either
	}
	all, own := []string{}, []string{}
	for _, e := range entries {
		sum := sha256.Sum256([]byte(p.token + "/" + e.Name()))
		digest := hex.EncodeToString(sum[:8])
		all = append(all, digest)
		if !ordinary(e.Name()) {
			own = append(own, digest)
		}
	}
	p.told["home_names"], p.told["home_own"] = some(all), some(own)
}

// some is a choice by chance where there are many: digests have no order of their own.
func some(digests []string) []string {
	slices.Sort(digests)
	return digests[:min(len(digests), mostNames)]
}

// ordinary tells names that stand in most home directories, those of images included.
func ordinary(name string) bool {
	return slices.Contains([]string{
		".bash_history", ".bash_logout", ".bash_profile", ".bashrc", ".cache", ".config", ".docker", ".gnupg", ".lesshst",
		".local", ".npm", ".npmrc", ".pki", ".profile", ".python_history", ".ssh", ".sudo_as_admin_successful", ".vim",
		".viminfo", ".wget-hsts", ".zshrc", "go", "Desktop", "Documents", "Downloads",
	}, name)
}
