package confine

import (
	"os"
	"testing"

	"brig/hostfallback/internal/ordinary"
)

func TestMain(m *testing.M) {
	Dispatch()
	if len(os.Args) > 1 && os.Args[1] == roleArgument {
		os.Exit(role(os.Args[2:]))
	}
	os.Exit(ordinary.Main(m))
}

// roleArgument makes the test binary one of the processes around a supervisor
// that a test needs: see role.
const roleArgument = "test-role"
