package hostfallback

import (
	"os"
	"testing"

	"brig/hostfallback/confine"
	"brig/hostfallback/internal/ordinary"
)

func TestMain(m *testing.M) {
	poorKernel()
	confine.Dispatch()
	os.Exit(ordinary.MainAndRoot(m))
}
