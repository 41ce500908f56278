package hostfallback

import "brig/hostfallback/confine"

// The directories and files of a Linux system that a program needs and that
// hold no secret of the user. Directories where the content is replaced by
// renaming, files where the directory beside them is nobody's business.
func systemGrants() confine.Grants {
	return confine.Grants{
		Execute: []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"},
		Read: []string{
			// As a whole: rules on single files there stop to match when the kernel
			// drops them from its cache, and Landlock itself guards what is private
			// of other processes.
			"/proc",
			"/sys/devices/system/cpu",
			"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/fonts", "/etc/group",
			"/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/matplotlibrc", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release",
			"/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf",
			"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone",
			"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		},
		Devices: []string{"/dev/null"},
	}
}

// networkGrants are needed to find names where the network is allowed.
func networkGrants() []string {
	return []string{
		"/etc/resolv.conf",
		// The files and not the directory, which has sockets in it that take orders.
		"/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf",
		"/etc/gai.conf", "/etc/host.conf", "/etc/services", "/etc/protocols",
	}
}
