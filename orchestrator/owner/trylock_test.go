package owner

import (
	"path/filepath"
	"testing"
)

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path)
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	if second, err := TryLock(path); err != nil || second != nil {
		t.Fatalf("a held lock: %v, %v", second, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := TryLock(path)
	if err != nil || third == nil {
		t.Fatalf("after it was given up: %v, %v", third, err)
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(filepath.Join(path, "below-a-file")); err == nil {
		t.Error("a lock that cannot be opened is no error")
	}
}
