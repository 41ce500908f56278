package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sharedMake is the probe whose attempt makes something where everybody may.
const sharedMake = "files-shared-make"

const meetName = "meet-" // after strayName

// meetingPlaces are where programs meet that do not know each other.
func meetingPlaces() []string { return []string{"/tmp", sharedMemory} }

// left is the name that the session of a plot leaves in shared directories, and others
// are those of the other sessions: whoever may not list a directory can still know them.
func (p *plot) left() string { return p.yard.meeting(p.name) }

func (p *plot) others() []string {
	if p.name == inControl {
		return []string{p.yard.meeting("another")} // which the control leaves itself
	}
	return slices.DeleteFunc([]string{p.yard.meeting(inFresh), p.yard.meeting(inWarm)}, func(name string) bool { return name == p.left() })
}

func (y *yard) meeting(name string) string { return strayName + meetName + y.token + "-" + name }

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
		for _, name := range append(p.others(), p.left(), p.left()+"-made") {
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
