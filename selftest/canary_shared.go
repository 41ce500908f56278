package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sharedMake is the probe whose attempt makes something where everybody may.
const sharedMake = "files-shared-make"

const meetName = "meet-" // after strayName

// meetingPlaces are where programs meet that do not know each other.
func meetingPlaces() []string { return []string{"/tmp", sharedMemory} }

// meeting begins the names that all sessions of a run leave in shared directories, and
// left is what this plot's leaves.
func (p *plot) meeting() string { return strayName + meetName + p.yard.token }
func (p *plot) left() string    { return p.meeting() + "-" + p.token }

func isMeeting(name string) bool {
	rest, ok := strings.CutPrefix(name, strayName+meetName)
	token, _, _ := strings.Cut(rest, "-")
	return ok && isToken(token)
}

// meetings are what the attempts may make in the machine's own shared directories, if
// they get at them.
func (p *plot) meetings() []string {
	var all []string
	for _, dir := range meetingPlaces() {
		for _, name := range []string{p.left(), p.left() + "-made", p.meeting() + "-another"} {
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all
}

// expect notes what the attempts may make, for the run after one that was killed.
func (p *plot) expect() error {
	for _, path := range p.meetings() {
		if err := p.yard.note(path, false); err != nil {
			return err
		}
	}
	return nil
}

// madeShared tells whether what the attempt has made is in the machine's own directories.
func (p *plot) madeShared() bool {
	for _, dir := range meetingPlaces() {
		if _, err := os.Lstat(filepath.Join(dir, p.left()+"-made")); err == nil {
			return true
		}
	}
	return false
}

func (p *plot) clear() error {
	var errs []error
	for _, path := range p.meetings() {
		errs = append(errs, gone(os.Remove(path)))
	}
	return errors.Join(errs...)
}

// sweepMeetings removes such names of runs that are long over and whose record is gone.
func sweepMeetings() {
	for _, dir := range meetingPlaces() {
		all, err := filepath.Glob(filepath.Join(dir, strayName+meetName+"*"))
		if err != nil {
			continue
		}
		for _, path := range all {
			info, err := os.Lstat(path)
			if err == nil && isMeeting(filepath.Base(path)) && info.Mode().IsRegular() && mine(info) && time.Since(info.ModTime()) > unheldFor {
				_ = os.Remove(path) // or another run has, at this moment
			}
		}
	}
}
