package service_test

import (
	"os"
	"testing"

	"brig/hostfallback/confine"
)

func TestMain(m *testing.M) {
	confine.Dispatch() // this program is the helper of the host sandbox that it tests
	os.Exit(m.Run())
}
