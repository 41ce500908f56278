package images

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"brig/orchestrator/runner"
)

// labelPython is how a user's image names its interpreter, where that is not the
// python3 on its PATH.
const labelPython = "dev.brig.python"

//go:embed bake.py
var bakeScript []byte

// OwnImageError says why the user's own image cannot be used. Code is stable:
// image-missing, image-architecture, image-volume, image-onbuild, image-python-label,
// image-python-missing, image-python-old, image-python-incomplete, image-paths.
type OwnImageError struct {
	Reference string
	Code      string
	Reason    string
	Next      string // the command to type
	Err       error
}

func (e *OwnImageError) Error() string {
	return fmt.Sprintf("the image %s %s; next: %s", e.Reference, e.Reason, e.Next)
}
func (e *OwnImageError) Unwrap() error { return e.Err }

// Remedy is the command to type.
func (e *OwnImageError) Remedy() string { return e.Next }

// ownRecipe makes the recipe of the user's own image with the runner on top. Its
// content names the very image that the reference means now: a tag that has moved
// makes another content, so the image built before is stale.
func ownRecipe(choice Choice, base Details) (recipe, error) {
	if err := usable(choice.Reference, base); err != nil {
		return recipe{}, err
	}
	files, err := runnerFiles()
	if err != nil {
		return recipe{}, err
	}
	files["bake.py"] = bakeScript
	python := base.Labels[labelPython]
	if python == "" {
		python = "python3"
	}
	dockerfile := ownDockerfile(python, silenced(base.Env))
	files[dockerfileName] = []byte(dockerfile)
	r := recipe{choice: choice, files: files, args: map[string]string{}, offline: true}
	r.content = hashFiles(fmt.Sprintf("own %s on %s", choice.Reference, base.ID), files)
	// The labels stand in the text: an ENV of the user's image would win over an argument.
	files[dockerfileName] = fmt.Appendf([]byte(dockerfile), "LABEL %s=runner %s=%s %s=%s %s=%s %s=%s %s=%s\n",
		LabelKind, LabelTier, own, LabelRunner, runner.Hash(), LabelContent, r.content, LabelBase, base.ID, LabelReference, quoted(choice.Reference))
	return r, nil
}

// usable checks what an image says about itself; what only shows when it runs, the
// build finds out.
func usable(name string, base Details) error {
	refuse := func(code, next, format string, args ...any) error {
		return &OwnImageError{Reference: name, Code: code, Reason: fmt.Sprintf(format, args...), Next: next}
	}
	inspect := "docker image inspect " + name
	if base.OS != "" && base.OS != "linux" {
		return refuse("image-architecture", inspect, "is made for %s, and containers of brig are Linux", base.OS)
	}
	for _, v := range base.Volumes {
		// A volume would be a writable place that nothing limits, outlives nothing and no policy asked for.
		if clean := path.Clean(v); clean != "/tmp" && clean != "/workspace" && clean != "/scratch" {
			return refuse("image-volume", inspect, "declares the volume %s, which would be a writable place without a limit; a Dockerfile cannot take it back, so build the image without VOLUME", v)
		}
	}
	if len(base.OnBuild) > 0 {
		return refuse("image-onbuild", inspect, "has ONBUILD instructions, which would run in brig's build; build an image on top of it first and use that")
	}
	if python := base.Labels[labelPython]; python != "" && !plainPath(python) {
		return refuse("image-python-label", inspect, "has the label %s=%.80q, which is no plain absolute path", labelPython, python)
	}
	return nil
}

// plainPath takes what needs no quoting anywhere.
func plainPath(s string) bool {
	return path.IsAbs(s) && path.Clean(s) == s && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-") == ""
}

// KeptVariables are the variables that a user's image may bring along: where its
// programs and libraries are. Everything else is set to nothing by the build,
// because an image's ENV is a usual place for what agents should not read, and
// LD_PRELOAD and the like would act in the runner.
func KeptVariables() []string {
	return []string{
		"PATH", "LD_LIBRARY_PATH", "CONDA_PREFIX", "CUDA_HOME", "GDAL_DATA", "JAVA_HOME", "PROJ_DATA", "PROJ_LIB",
		"R_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE",
	}
}

// silenced lists the variables to set to nothing, sorted.
func silenced(env []string) []string {
	var names []string
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && !slices.Contains(KeptVariables(), name) && name != "LANG" && name != "PYTHONDONTWRITEBYTECODE" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ownDockerfile is the recipe up to its labels. Everything is in exec form: the
// image may have no shell, or one of its own choice.
func ownDockerfile(python string, silenced []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("ARG BASE")
	line("FROM ${BASE}")
	line("USER 0:0")
	line("HEALTHCHECK NONE")
	for _, name := range silenced {
		line("ENV %s=", quoted(name))
	}
	line("ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1")
	// Named after the runner: the user's image may stand on one of brig's, with another runner in it.
	home := fmt.Sprintf("/opt/brig-%.12s/", runner.Hash())
	line("COPY runner/ bake.py %s", home)
	line("RUN %s", list(python, "-I", home+"bake.py"))
	line("WORKDIR /workspace")
	line("USER 65532:65532")
	line("ENTRYPOINT %s", list(python, "-I", "-u", home+"start.py"))
	line("CMD []")
	return b.String()
}

// list writes words in the exec form of an instruction.
func list(words ...string) string {
	text, err := json.Marshal(words)
	if err != nil {
		panic("BUG: words do not marshal: " + err.Error())
	}
	return string(text)
}

// quoted writes one word so that an instruction takes it as it is.
func quoted(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "\n", " ", "\r", " ").Replace(word) + `"`
}

// bakeFailures are the words with which bake.py names what is wrong, and what they mean.
func bakeFailures() map[string]string {
	return map[string]string{
		"python-old":        "has a Python that is too old",
		"python-incomplete": "has a Python without a module that the runner needs",
		"paths":             "cannot take the runner",
	}
}

// explainOwn finds the reason why the runner could not be baked on top of the
// user's image. bake.py prints one; that there is no interpreter at all only shows
// in the engine's words, so those are looked at last.
func explainOwn(choice Choice, failed *StepError) error {
	refuse := func(code, reason, next string) error {
		return &OwnImageError{Reference: choice.Reference, Code: code, Reason: reason, Next: next, Err: failed}
	}
	for _, line := range failed.Tail {
		_, said, found := strings.Cut(line, "brig-bake: ")
		word, detail, _ := strings.Cut(said, ": ")
		if meaning, ok := bakeFailures()[word]; found && ok {
			return refuse("image-"+word, fmt.Sprintf("%s (%s); brig needs Python 3.8 or later with its standard library, as python3 on PATH or named by the label %s",
				meaning, detail, labelPython), "docker run --rm --entrypoint python3 "+choice.Reference+" --version")
		}
	}
	if strings.HasPrefix(failed.Step, "RUN ") {
		for _, text := range append([]string{failed.Message}, failed.Tail...) {
			if strings.Contains(text, "executable file not found") || strings.Contains(text, "no such file or directory") {
				return refuse("image-python-missing", fmt.Sprintf("has no python3 on its PATH; install Python 3.8 or later in it, or name its interpreter by the label %s", labelPython),
					"docker image inspect "+choice.Reference)
			}
			if strings.Contains(text, "exec format error") {
				return refuse("image-architecture", "is made for another kind of processor", "docker pull "+choice.Reference)
			}
		}
	}
	return failed
}
