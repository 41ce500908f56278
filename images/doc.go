// Package images says which runner image is trusted and gets it built.
//
// An image is trusted when its content label equals the hash of the context that
// this brig would build it from: Dockerfile.runner, the library pins, the runner's
// source and the tier. Nothing is pulled and nothing is taken by its tag: a tag is
// for people, a container is created from the image's own ID. An image of another
// brig has another hash, so a stale one can never be picked.
//
// The package knows no engine: it declares Builder, which orchestrator/docker
// implements. It does not draw progress either; it hands out Progress values.
package images
