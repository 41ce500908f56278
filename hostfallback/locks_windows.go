package hostfallback

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// The lock files of instances and of the runner's directories. They are opened
// so that they can be removed while they are held, as elsewhere.

func openLock(path string, how uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, share, nil, how, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return h, nil
}

// take tries a lock of the first byte. A taken one is held until release.
func take(h windows.Handle, flags uint32) (release func(), ok bool, err error) {
	err = windows.LockFileEx(h, flags|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if err == nil {
		return func() { _ = windows.CloseHandle(h) }, true, nil
	}
	_ = windows.CloseHandle(h) // nothing was written
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return nil, false, nil
	}
	return nil, false, err
}

// abandoned takes the lock of an instance's directory for good if nobody works
// for it any more.
func abandoned(lock string) (release func(), ok bool, err error) {
	h, err := openLock(lock, windows.OPEN_EXISTING)
	if err != nil {
		return nil, false, err
	}
	return take(h, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

// occupy makes the lock file and holds a shared lock on it.
func occupy(lock string) (release func(), err error) {
	h, err := openLock(lock, windows.CREATE_NEW)
	if err != nil {
		return nil, err
	}
	release, ok, err := take(h, 0)
	if err == nil && !ok {
		err = errors.New("somebody else holds the lock that was just made")
	}
	return release, err
}

// share holds a shared lock on a file that may be there already, or be removed by
// whoever had it alone. It waits for that one, who is quick.
func share(lock string) (release func(), err error) {
	for range 100 {
		h, err := openLock(lock, windows.OPEN_ALWAYS)
		if errors.Is(err, windows.ERROR_ACCESS_DENIED) { // it is being removed
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		release, ok, err := take(h, 0)
		if err != nil {
			return nil, err
		}
		if ok {
			if _, err := os.Stat(lock); err == nil {
				return release, nil
			}
			release()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.New("another brig is removing them and does not finish")
}
