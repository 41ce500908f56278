// Package brig embeds what lies at the top of the module and cannot be reached
// from a package below it. It holds no code.
package brig

import _ "embed"

// DockerfileRunner is the recipe of the runner image.
//
//go:embed Dockerfile.runner
var DockerfileRunner []byte
