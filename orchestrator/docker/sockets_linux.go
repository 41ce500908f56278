package docker

import "path/filepath"

// sockets lists where engines usually listen here, most usual first.
func sockets(env environment) ([]string, error) {
	places := []string{"unix:///var/run/docker.sock"}
	runtime := env.get("XDG_RUNTIME_DIR")
	if runtime != "" {
		places = append(places, "unix://"+filepath.Join(runtime, "docker.sock")) // rootless
	}
	if home := homeDir(env); home != "" {
		places = append(places, "unix://"+filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	if runtime != "" {
		places = append(places, "unix://"+filepath.Join(runtime, "podman/podman.sock"))
	}
	return append(places, "unix:///run/podman/podman.sock"), nil
}

func homeDir(env environment) string { return env.get("HOME") }

const (
	startCommand      = "sudo systemctl start docker"
	restartCommand    = "sudo systemctl restart docker"
	permissionCommand = "sudo usermod -aG docker \"$USER\" && newgrp docker"
)
