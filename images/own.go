package images

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
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
// image-python-missing, image-python-old, image-python-incomplete, image-python-fake,
// image-python-hangs, image-paths.
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
	python, stage := interpreter(base), stageOf(base)
	dockerfile := ownDockerfile(python, stage, silenced(base.Env))
	files[dockerfileName] = []byte(dockerfile)
	r := recipe{choice: choice, files: files, args: map[string]string{}, offline: true, stage: stage, python: python}
	// Not of the reference: the same image is the same, however it is called.
	r.content = hashFiles("own on "+base.ID, files)
	// The labels stand in the text: an ENV of the user's image would win over an argument.
	files[dockerfileName] = fmt.Appendf([]byte(dockerfile), "LABEL %s=runner %s=%s %s=%s %s=%s %s=%s %s=%s\n",
		LabelKind, LabelTier, own, LabelRunner, runner.Hash(), LabelContent, r.content, LabelBase, base.ID, LabelReference, quoted(choice.Reference))
	return r, nil
}

// interpreter is how the image's Python is called.
func interpreter(base Details) string {
	if python := base.Labels[labelPython]; python != "" {
		return python
	}
	return "python3"
}

// stageOf names what a build on top of that image makes on the way, and the proof that
// its interpreter did the work. No image has the proof for its own ID in it already.
func stageOf(base Details) string {
	sum := sha256.Sum256([]byte(base.ID + " " + runner.Hash()))
	return hex.EncodeToString(sum[:8])
}

// proof is the file that bake.py leaves.
func proof(stage string) string { return "baked-" + stage }

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
func ownDockerfile(python, stage string, silenced []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("ARG BASE")
	line("FROM ${BASE} AS baked")
	// First, so that whatever a build leaves that fails is found and removed.
	line("LABEL %s=build %s=%s", LabelKind, labelStage, stage)
	line("USER 0:0")
	line("HEALTHCHECK NONE")
	for _, name := range silenced {
		line("ENV %s=", quoted(name))
	}
	line("ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1")
	// Named after the runner: the user's image may stand on one of brig's, with another runner in it.
	home := fmt.Sprintf("/opt/brig-%.12s/", runner.Hash())
	line("COPY runner/ bake.py %s", home)
	line("RUN %s", list(python, "-I", home+"bake.py", proof(stage)))
	line("FROM baked")
	// Only a Python that ran bake.py to its end has made it; without it the build ends here.
	line("COPY --from=baked %s %s", home+proof(stage), home)
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
func explainOwn(r recipe, failed *StepError) error {
	name := r.choice.Reference
	refuse := func(code, reason, next string) error {
		return &OwnImageError{Reference: name, Code: code, Reason: reason, Next: next, Err: failed}
	}
	inspect, version := "docker image inspect "+name, "docker run --rm --network none --entrypoint "+r.python+" "+name+" --version"
	for _, line := range failed.Tail {
		_, said, found := strings.Cut(line, "brig-bake: ")
		word, detail, _ := strings.Cut(said, ": ")
		meaning, known := bakeFailures()[word]
		switch {
		case !found || !known:
		case word == "paths":
			return refuse("image-"+word, meaning+": "+detail, inspect)
		default:
			return refuse("image-"+word, fmt.Sprintf("%s (%s); brig needs Python 3.8 or later with its standard library, as python3 on PATH or named by the label %s",
				meaning, detail, labelPython), version)
		}
	}
	said := append([]string{failed.Message}, failed.Tail...)
	for _, text := range append(said, failed.Step) {
		if strings.HasPrefix(failed.Step, "RUN ") {
			break
		}
		if strings.Contains(text, proof(r.stage)) {
			return refuse("image-python-fake", fmt.Sprintf("has a %s that is no working Python: it ended without an error and had not done what it was given to do; brig needs Python 3.8 or later, as python3 on PATH or named by the label %s",
				r.python, labelPython), version)
		}
	}
	if !strings.HasPrefix(failed.Step, "RUN ") {
		return failed
	}
	for _, text := range said {
		switch {
		case strings.Contains(text, "executable file not found"), strings.Contains(text, "no such file or directory"):
			if path.IsAbs(r.python) {
				return refuse("image-python-missing", fmt.Sprintf("says by its label %s that its interpreter is %s, and there is no such program in it", labelPython, r.python), inspect)
			}
			return refuse("image-python-missing", fmt.Sprintf("has no python3 on its PATH; install Python 3.8 or later in it, or name its interpreter by the label %s", labelPython), inspect)
		case strings.Contains(text, "exec format error"):
			return refuse("image-architecture", "is made for another kind of processor", "docker pull "+name)
		}
	}
	return failed
}
