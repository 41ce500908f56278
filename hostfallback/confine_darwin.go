package hostfallback

import "os"

// ourselves is the program that is started again as supervisor and helper.
func ourselves() (string, error) { return os.Executable() }

// supported says whether this system has a host sandbox at all. Whether it works on
// this Mac is tried with each instance.
func supported() error { return nil }

// shield does nothing. Only root and debuggers that the user has agreed to may read
// another program's memory here, and PT_DENY_ATTACH would end brig under one. The
// environment of a program can be read by others of the user; the profile refuses that.
func shield() error { return nil }
