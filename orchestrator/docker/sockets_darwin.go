package docker

import "path/filepath"

// sockets lists where engines usually listen here, most usual first.
func sockets(env environment) ([]string, error) {
	places := []string{"unix:///var/run/docker.sock"}
	home := homeDir(env)
	if home == "" {
		return places, nil
	}
	for _, name := range []string{
		".docker/run/docker.sock", ".orbstack/run/docker.sock", ".colima/default/docker.sock",
		".rd/docker.sock", ".local/share/containers/podman/machine/podman.sock",
	} {
		places = append(places, "unix://"+filepath.Join(home, name))
	}
	return places, nil
}

func homeDir(env environment) string { return env.get("HOME") }

const (
	startCommand      = "open -a Docker"
	restartCommand    = "docker desktop restart"
	permissionCommand = "ls -l ~/.docker/run/docker.sock /var/run/docker.sock"
)
