package enginetest

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// build reads a context and makes an image of it. Of the instructions it carries
// out what decides over trust and over a start: FROM, ARG, LABEL, ENV, USER, WORKDIR
// and ENTRYPOINT, and the copying of the runner. Nothing is run.
func (e *Engine) build(_ *daemon, w http.ResponseWriter, r *request) {
	dir, err := os.MkdirTemp(e.dir, "image")
	if err != nil {
		e.fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	if err := unpack(r.Body, dir); err != nil {
		e.fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	query := r.URL.Query()
	args := map[string]*string{}
	if text := query.Get("buildargs"); text != "" && json.Unmarshal([]byte(text), &args) != nil {
		e.fail(w, http.StatusBadRequest, "error reading build args")
		return
	}
	name := query.Get("dockerfile")
	if name == "" {
		name = "Dockerfile"
	}
	file, err := os.ReadFile(filepath.Join(dir, filepath.Clean("/"+name)))
	if err != nil {
		e.fail(w, http.StatusInternalServerError, "Cannot locate specified Dockerfile: "+name)
		return
	}
	e.headers(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	say := json.NewEncoder(w)
	lines := instructions(string(file))
	recipe := &recipe{args: args, global: map[string]string{}}
	for n, line := range lines {
		_ = say.Encode(map[string]string{"stream": fmt.Sprintf("Step %d/%d : %s\n", n+1, len(lines), line)})
		if err := recipe.step(e, line); err != nil {
			_ = say.Encode(map[string]any{"errorDetail": map[string]string{"message": err.Error()}, "error": err.Error()})
			return
		}
	}
	made := recipe.image
	made.id, made.created, made.runner = "sha256:"+newID(), time.Now(), filepath.Join(dir, "runner")
	if _, err := os.Stat(made.runner); err == nil {
		compile(r, made.runner)
	}
	e.mu.Lock()
	for _, tag := range query["t"] {
		e.giveName(made, tag)
	}
	e.images[made.id] = made
	e.mu.Unlock()
	_ = say.Encode(map[string]any{"aux": map[string]string{"ID": made.id}})
	_ = say.Encode(map[string]string{"stream": "Successfully built " + made.id[7:19] + "\n"})
}

// compile saves every start the same work; without it starts are slower and no less right.
func compile(r *request, dir string) {
	_ = exec.CommandContext(r.Context(), "python3", "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", dir).Run()
}

func unpack(r io.Reader, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for reader := tar.NewReader(r); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the context: %w", err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
}

// instructions are the lines of a Dockerfile, joined and without comments.
func instructions(text string) []string {
	var lines []string
	open := false
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		more := strings.HasSuffix(line, "\\")
		line = strings.TrimSpace(strings.TrimSuffix(line, "\\"))
		if open {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		open = more
	}
	return lines
}

// recipe is a Dockerfile as far as it was read.
type recipe struct {
	args   map[string]*string // of the request
	global map[string]string  // declared before the first FROM
	vars   map[string]string  // of the stage
	stages map[string]*image
	image  *image
}

func (c *recipe) expand(s string) string {
	return os.Expand(s, func(name string) string {
		if value, ok := c.vars[name]; ok {
			return value
		}
		return c.global[name]
	})
}

func (c *recipe) step(e *Engine, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToUpper(word) {
	case "ARG":
		name, value, _ := strings.Cut(rest, "=")
		if given := c.args[name]; given != nil {
			value = *given
		}
		if c.vars == nil {
			c.global[name] = value
		} else {
			c.vars[name] = c.expand(value)
		}
	case "FROM":
		return c.from(e, strings.Fields(rest))
	case "LABEL", "ENV":
		for _, pair := range pairs(rest) {
			name, value, _ := strings.Cut(pair, "=")
			value = c.expand(strings.Trim(value, `"`))
			if word == "LABEL" {
				c.image.labels[name] = value
			} else {
				c.image.env = append(c.image.env, name+"="+value)
			}
		}
	case "USER":
		c.image.user = c.expand(rest)
	case "WORKDIR":
		c.image.dir = c.expand(rest)
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &c.image.entry)
	}
	return nil
}

func (c *recipe) from(e *Engine, words []string) error {
	if len(words) == 0 {
		return errors.New("FROM requires either one or three arguments")
	}
	name := c.expand(words[0])
	from := c.stages[name]
	if from == nil {
		e.mu.Lock()
		from = e.findImage(name)
		e.mu.Unlock()
	}
	if from == nil {
		return fmt.Errorf("pull access denied for %s, repository does not exist or may require 'docker login'", name)
	}
	c.vars = map[string]string{}
	c.image = &image{labels: map[string]string{}, env: slices.Clone(from.env), user: from.user, dir: from.dir, entry: from.entry}
	for name, value := range from.labels {
		c.image.labels[name] = value
	}
	if c.stages == nil {
		c.stages = map[string]*image{}
	}
	if len(words) == 3 {
		c.stages[words[2]] = c.image
	}
	return nil
}

// pairs splits name=value words; quotes keep blanks together.
func pairs(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}
