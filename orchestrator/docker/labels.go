package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Labels of a container. An engine never changes them after the creation, so they
// hold facts only: how long a lease is, not until when.
const (
	labelOwner    = "dev.brig.owner"    // the installation: what Sweep is bound to
	labelProcess  = "dev.brig.process"  // the brig process that made it
	labelInstance = "dev.brig.instance" // "<process>-c<number>"
	labelRunner   = "dev.brig.runner"   // hash of the runner in its image
	labelImage    = "dev.brig.image"    // tag of its image, for people
	labelDigest   = "dev.brig.digest"   // of the user's own image at its registry; none: not from one
	labelSpec     = "dev.brig.spec"     // hash of its whole configuration
	labelBoot     = "dev.brig.boot"     // boot of brig's machine
	labelCreated  = "dev.brig.created"  // brig's clock, for people
	labelLease    = "dev.brig.lease"    // how long it outlives brig; none: not at all
)

// labels says whose the container is. A pooled container has no session yet, and
// labels cannot change, so the session is not among them: the orchestrator knows it.
func (b *Backend) labels(s spec) map[string]string {
	labels := map[string]string{
		labelOwner:    b.options.Owner,
		labelProcess:  b.options.Process,
		labelInstance: s.id,
		labelRunner:   s.image.Runner,
		labelSpec:     s.hash(),
		labelBoot:     b.options.Boot,
		labelCreated:  time.Now().UTC().Format(time.RFC3339),
		labelImage:    s.image.Tag,
	}
	if s.image.Digest != "" {
		labels[labelDigest] = s.image.Digest
	}
	if s.lease > 0 {
		labels[labelLease] = s.lease.String()
	}
	return labels
}

// hash names the configuration; two containers with the same one differ only in whose they are.
func (s spec) hash() string {
	host := s.hostConfig()
	for i := range host.Mounts {
		host.Mounts[i].Source = ""
	}
	text, err := json.Marshal(struct {
		Config *container.Config
		Host   *container.HostConfig
	}{s.config(nil), host})
	if err != nil {
		panic("BUG: a container configuration does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
