// Package images says which runner image is trusted and gets it built: those of the
// tiers, and the user's own images with the runner baked on top.
//
// An image is trusted when its content label equals the hash of what this brig would
// build it from (the recipe, the library pins, the runner's source, the tier or the
// very image that the user's reference means now) and when it lies under brig's own
// local name. A container is created from the image's ID. Nothing is pulled. An image
// of another brig has another hash, so a stale one can never be picked.
//
// What the package does not protect from is whoever controls the engine, and from
// what a user's own image contains: its interpreter runs the runner, so what the
// runner reports from inside such a container is as true as that image is honest.
//
// The package knows no engine: it declares Builder, which orchestrator/docker
// implements. It does not draw progress either; it hands out Progress values.
package images
