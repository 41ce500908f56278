package config

import (
	"bytes"
	"fmt"
	"strings"
)

// Row is one setting as `config show` and the settings page show it.
type Row struct {
	Key     string
	Value   string // empty where Empty says what stands for it
	Empty   string
	Source  Source
	Default string
	Doc     string
	Unused  bool
}

// Render lists every setting with its value and where that comes from.
func Render(l Loaded) []Row {
	def := Default()
	var out []Row
	for _, r := range table() {
		s, ok := l.Sources[r.name]
		if !ok {
			s = Source{From: FromDefault}
		}
		out = append(out, Row{
			Key: r.name, Value: r.show(l.Config), Empty: emptyOf(r.value), Source: s,
			Default: r.show(def), Doc: r.doc, Unused: r.unused,
		})
	}
	return out
}

const notYet = "Not used yet by this version."

// Example is a settings file with every key commented out at its default.
func Example() []byte {
	var b bytes.Buffer
	b.WriteString("# Settings of brig. Every key stands here with its default; remove the # in\n" +
		"# front of a key, and of its [section], to change it. A variable in the\n" +
		"# environment is stronger than this file. Check with: brig config check\n")
	def, last := Default(), ""
	for _, r := range table() {
		if s := r.section(); s != last {
			fmt.Fprintf(&b, "\n# [%s]\n", s)
			last = s
		}
		b.WriteString("\n")
		doc := r.doc
		if r.unused {
			doc += " " + notYet
		}
		wrap(&b, "## ", doc)
		wrap(&b, "## ", "Allowed: "+r.allowed()+". Variable: "+strings.Join(r.variables(), " or ")+".")
		literal := r.literal(def)
		if r.show(def) == "" {
			if empty := emptyOf(r.value); empty != "" {
				wrap(&b, "## ", "Default: "+empty+".")
			}
			literal = placeholder(r.value)
		}
		fmt.Fprintf(&b, "# %s = %s\n", r.field(), literal)
	}
	return b.Bytes()
}

// placeholder stands in the example for a key that has no default.
func placeholder(v value) string {
	if _, ok := v.(count); ok {
		return "1"
	}
	return `""`
}

// Markdown is the documentation of the settings.
func Markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# Settings\n\n" +
		"<!-- Generated from orchestrator/config/table.go: go test ./orchestrator/config -update -->\n\n" +
		"brig reads `config.toml` in its configuration directory (`brig config path` prints it) or the file that\n" +
		"`BRIG_CONFIG` names. Every key also has a variable; variables are stronger than the file, and a variable that is\n" +
		"set to nothing counts as not set.\n\n" +
		"Unknown keys, unknown `BRIG_` variables and misspelt values are errors, and so is a file or directory that\n" +
		"others can write: brig never goes on with a weaker mode than the one that was meant. `brig config check` lists\n" +
		"every problem, `brig config show` every value and where it comes from.\n\n" +
		"Sizes are bytes or a number with `KiB`, `MiB`, `GiB` or `TiB`; durations have a unit: `200ms`, `30s`, `10m`, `1h`.\n" +
		"A limit is never unlimited: 0 is too small.\n")
	def, last := Default(), ""
	for _, r := range table() {
		if s := r.section(); s != last {
			fmt.Fprintf(&b, "\n## %s\n\n| key | default | allowed | variable | |\n|---|---|---|---|---|\n", s)
			last = s
		}
		shown := "`" + r.show(def) + "`"
		if r.show(def) == "" {
			shown = emptyOf(r.value)
		}
		doc := r.doc
		if r.unused {
			doc += " *" + notYet + "*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n",
			r.name, shown, cell(r.allowed()), strings.Join(r.variables(), "`, `"), cell(doc))
	}
	return b.Bytes()
}

// cell keeps text from ending a table's cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// wrap writes text in lines of at most 90 columns, each after a prefix.
func wrap(b *bytes.Buffer, before, text string) {
	line := before
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > 90 && line != before {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = before
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
