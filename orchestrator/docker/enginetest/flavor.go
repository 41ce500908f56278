package enginetest

// Flavor is a kind of engine, with the differences that brig has to know.
type Flavor struct {
	Version, API, MinAPI string
	Podman               bool // no attach before the start, no uid= in a tmpfs, other words
	OOMFlagOnChild       bool // State.OOMKilled also says that only a child was killed
}

// Docker20 is Docker 20.10 as Debian 12 has it.
func Docker20() Flavor { return Flavor{Version: "20.10.24+dfsg1", API: "1.41", MinAPI: "1.12"} }

// Docker29 is an engine of the 29.x line.
func Docker29() Flavor {
	return Flavor{Version: "29.0.0", API: "1.52", MinAPI: "1.44", OOMFlagOnChild: true}
}

// Podman4 is Podman 4.3 behind its compatible socket.
func Podman4() Flavor { return Flavor{Version: "4.3.1", API: "1.41", MinAPI: "1.24", Podman: true} }
