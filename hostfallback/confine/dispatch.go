package confine

import "os"

// Marker is the environment variable that names the instance a process belongs
// to. It is how processes are found again after their supervisor was killed.
const Marker = "BRIG_INSTANCE"

// The hidden first arguments. They are not verbs of the command line: a plan
// comes over a descriptor that only brig opens.
const (
	VerbSupervise = "--brig-supervise-instance"
	VerbConfine   = "--brig-confine-instance"
)

// Dispatch takes over the process if it was started as supervisor or helper,
// and then never returns. It must be called as early as possible: what the
// program initialises before costs every start of an instance.
func Dispatch() struct{} {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case VerbSupervise:
			os.Exit(supervise())
		case VerbConfine:
			os.Exit(confine())
		case VerbZygote:
			os.Exit(superviseZygote())
		}
	}
	return struct{}{}
}
