package hostfallback

import (
	"os"
	"testing"

	"brig/hostfallback/confine"
	"brig/hostfallback/internal/ordinary"
)

func TestMain(m *testing.M) {
	confine.Dispatch()
	os.Exit(ordinary.Main(m))
}
