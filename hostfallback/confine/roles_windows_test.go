package confine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows"
)

// role is what the runner does in a test; what it says goes to its standard output.
//
//	tree N     starts N processes below it, each of which starts another, and waits for its input to end
//	sleep      for a long time
//	open H…    says which of these handles are open in it
//	hold N     holds N MiB
//	spawn N    says how many of N processes it could start
//	write P…   tries to make a file at each of these paths
//	environ    says which variables it has
//	level      says its own integrity level
//	parent D   supervises an instance whose home is below D, like brig, until it is killed
func role(args []string) int {
	switch args[0] {
	case "tree":
		n, _ := strconv.Atoi(args[1])
		for range n {
			if err := startSelf("link"); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		fmt.Println("ready", os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "link":
		if err := startSelf("sleep"); err != nil {
			return 1
		}
		time.Sleep(time.Minute)
	case "sleep":
		time.Sleep(time.Minute)
	case "open":
		for _, word := range args[1:] {
			n, _ := strconv.ParseUint(word, 10, 64)
			kind, err := windows.GetFileType(windows.Handle(n))
			fmt.Printf("%s=%v ", word, err == nil && kind != windows.FILE_TYPE_UNKNOWN)
		}
	case "hold":
		n, _ := strconv.Atoi(args[1])
		var kept [][]byte
		for range n {
			page := make([]byte, 1<<20)
			for i := 0; i < len(page); i += 4096 {
				page[i] = 1
			}
			kept = append(kept, page)
		}
		fmt.Println("held", len(kept))
	case "spawn":
		n, _ := strconv.Atoi(args[1])
		started := 0
		for range n {
			if startSelf("sleep") == nil {
				started++
			}
		}
		fmt.Println("started", started)
	case "write":
		for _, path := range args[1:] {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				_ = f.Close()
			}
			fmt.Println("write", err == nil)
		}
	case "environ":
		for _, variable := range os.Environ() {
			name, _, _ := strings.Cut(variable, "=")
			fmt.Println("has", name)
		}
	case "level":
		level, privileges, err := readToken(windows.CurrentProcess())
		fmt.Println(level, privileges, err)
	case "parent":
		parent(args[1])
	default:
		return 2
	}
	return 0
}

func startSelf(args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return exec.Command(self, append([]string{roleArgument}, args...)...).Start()
}
