package main

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"brig/selftest"
)

// This file is where --report goes. The place is looked at before anything is tried,
// without opening it: whoever opens a pipe that nobody reads waits for ever.

// ownOutput are names of standard output and of other descriptors.
const ownOutput = `^/(dev/(stdout|stderr|fd/[0-9]+)|proc/(self|[0-9]+)/fd/[0-9]+)$`

// checkReport says before the test that a report could not be written after it.
func (o selftestOptions) checkReport() error {
	if o.report == "" || o.report == "-" {
		if o.overwrite {
			return usage("brig selftest --report FILE --overwrite", "--overwrite is about the file of --report, which is not given")
		}
		return nil
	}
	if regexp.MustCompile(ownOutput).MatchString(o.report) {
		return input("brig selftest --report -", "%s is no file: standard output is --report -", o.report)
	}
	name, err := o.reportPlace()
	if err != nil {
		return err
	}
	f, err := besides(name)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if _, missing := os.Stat(dirOf(name)); errors.Is(missing, fs.ErrNotExist) {
		return input("mkdir -p "+quote(dirOf(name)), "%s cannot be written: %s", o.report, because(err))
	}
	if err != nil {
		return input("ls -ld "+quote(dirOf(name)), "%s cannot be written: %s", o.report, because(err))
	}
	return nil
}

// reportPlace is the file that --report names, behind symbolic links: nothing that is
// there is replaced unless --overwrite says so, and nothing but a regular file ever is.
func (o selftestOptions) reportPlace() (string, error) {
	const hint = "name another file: brig selftest --report FILE"
	if _, err := os.Lstat(o.report); errors.Is(err, fs.ErrNotExist) {
		return o.report, nil
	}
	name, err := filepath.EvalSymlinks(o.report)
	if errors.Is(err, fs.ErrNotExist) {
		return "", input(hint, "%s cannot be written: it is a symbolic link to nothing", o.report)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(name)
	}
	switch {
	case err != nil:
		return "", input("ls -ld "+quote(dirOf(o.report)), "%s cannot be written: %s", o.report, because(err))
	case info.IsDir():
		return "", input("brig selftest --report "+quote(filepath.Join(o.report, "selftest.md")), "%s cannot be written: it is a directory", o.report)
	case !info.Mode().IsRegular():
		return "", input(hint, "%s cannot be written: it is not a regular file", o.report)
	case !o.overwrite:
		return "", input("to replace what is there: brig selftest --overwrite --report "+quote(o.report), "%s exists already", o.report)
	}
	return name, nil
}

// besides makes a file next to name, which will take its place.
func besides(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dirOf(name), ".brig-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
}

// writeReport writes Markdown for a reviewer to a file, or with - to standard output.
// Whoever reads the file meanwhile gets a whole report, the old one or the new one.
func (p *program) writeReport(o selftestOptions, reports []selftest.Report, missing []absent) error {
	if o.report == "" {
		return nil
	}
	text := markdown(reports, missing)
	if o.report == "-" {
		_, err := io.WriteString(p.tui.stdout, text)
		return err
	}
	name, err := o.reportPlace() // something may have come there while the test ran
	if err != nil {
		return err
	}
	f, err := besides(name)
	if err == nil {
		_, err = io.WriteString(f, text)
		if info, no := os.Stat(name); err == nil && no == nil {
			err = f.Chmod(info.Mode().Perm()) // who could not read the old one cannot read the new one
		}
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}
	if err != nil {
		return input("to write it now: brig selftest --last --report FILE", "%s cannot be written: %s", o.report, because(err))
	}
	if !o.json {
		p.tui.note("the report is in %s", escapeLine(o.report))
	}
	return nil
}

// markdown is all reports on one page, and what was not tested.
func markdown(reports []selftest.Report, missing []absent) string {
	var pages []string
	for _, r := range reports {
		pages = append(pages, r.Markdown())
	}
	if len(missing) > 0 {
		page := "# Not tested\n\n"
		for _, m := range missing {
			page += "- " + selftest.Cell(m.words()) + "\n"
		}
		pages = append(pages, page)
	}
	return strings.Join(pages, "\n")
}

// tellMissing ends the answer with what was not tested, where it is read together with
// the rest; what to do about it goes where hints go.
func (p *program) tellMissing(o selftestOptions, missing []absent) {
	for _, m := range missing {
		if o.report == "-" { // the page says it
			p.tui.note("%s", escapeLine(m.words()))
		} else {
			p.wrapped("", "  ", escapeLine(m.words()))
		}
		if m.Remedy != "" {
			p.tui.hint(escapeLine(m.Remedy))
		}
	}
}
