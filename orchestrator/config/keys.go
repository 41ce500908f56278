package config

// Key describes one setting to people and pages.
type Key struct {
	Name    string   // limits.memory
	Env     []string // names in the environment, all of equal rank
	Type    string   // word, text, number, size, duration, true or false
	Default string   // as shown; empty where Empty says what stands for it
	Empty   string   // what an empty value stands for
	Allowed string
	Doc     string
	Unused  bool // read and checked, but its feature does not exist in this version
}

// Keys lists every setting in the order in which they are shown.
func Keys() []Key {
	def := Default()
	var out []Key
	for _, r := range table() {
		out = append(out, Key{
			Name: r.name, Env: r.variables(), Type: r.typ(), Default: r.show(def), Empty: emptyOf(r.value),
			Allowed: r.allowed(), Doc: r.doc, Unused: r.unused,
		})
	}
	return out
}

func emptyOf(v value) string {
	switch v := v.(type) {
	case text:
		return v.empty
	case count:
		if v.unset {
			return "unset"
		}
	}
	return ""
}
