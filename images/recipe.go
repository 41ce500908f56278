package images

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sort"

	"brig"
	"brig/orchestrator/runner"
)

const (
	dockerfileName = "Dockerfile.runner"
	authorityName  = "mirror-ca.pem"
)

//go:embed apt.sh
var aptScript []byte

//go:embed libraries.sh
var librariesScript []byte

//go:embed requirements/standard.txt
var standardPins []byte

//go:embed requirements/full.txt
var fullPins []byte

// recipe is everything that an image is made from, except the mirrors.
type recipe struct {
	choice  Choice
	content string            // names all of it, in hex
	files   map[string][]byte // of the build context, by path
	args    map[string]string
	offline bool
	// Of the user's own image: its interpreter, and what the layers of a build on it are labelled with.
	python, stage string
}

// tierRecipe makes the recipe of a tier. Which base it stands on is no part of its
// content: a label says it.
func tierRecipe(tier Tier) (recipe, error) {
	files, err := runnerFiles()
	if err != nil {
		return recipe{}, err
	}
	files[dockerfileName] = brig.DockerfileRunner
	files["apt.sh"] = aptScript
	files["libraries.sh"] = librariesScript
	files["standard.txt"] = standardPins
	files["full.txt"] = fullPins
	r := recipe{choice: Choice{Tier: tier}, files: files, args: map[string]string{"TIER": string(tier), "RUNNER_HASH": runner.Hash()}}
	r.content = hashFiles("tier "+string(tier), files)
	r.args["CONTENT_HASH"] = r.content
	return r, nil
}

// runnerFiles is the runner's source below runner/.
func runnerFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	source := runner.Files()
	err := fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		files[path.Join("runner", name)] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded runner: %w", err)
	}
	return files, nil
}

// hashFiles names files and what they are for.
func hashFiles(purpose string, files map[string][]byte) string {
	sum := sha256.New()
	fmt.Fprintln(sum, purpose)
	for _, name := range sortedNames(files) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func sortedNames(files map[string][]byte) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
