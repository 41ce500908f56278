package confine

import (
	"os"
	"testing"

	"brig/hostfallback/internal/ordinary"
)

func TestMain(m *testing.M) {
	Dispatch()
	os.Exit(ordinary.Main(m))
}
