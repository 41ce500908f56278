package docker

// sockets lists where engines usually listen here, most usual first.
func sockets(environment) ([]string, error) {
	return []string{"npipe:////./pipe/docker_engine", "npipe:////./pipe/dockerDesktopLinuxEngine"}, nil
}

func homeDir(env environment) string { return env.get("USERPROFILE") }

const (
	startCommand      = "docker desktop start"
	restartCommand    = "docker desktop restart"
	permissionCommand = "net localgroup docker-users %USERNAME% /add"
)
