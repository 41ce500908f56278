package config

// ParseFile reads a file's content without a file.
func ParseFile(data []byte) (Config, []Problem) {
	c := Default()
	_, problems := parseFile(&c, "config.toml", data)
	return c, problems
}

// CheckValues checks every value alone, without the rules between keys.
func CheckValues(c Config) []Problem {
	var out []Problem
	for _, r := range table() {
		if f := r.check(c); f != nil {
			out = append(out, r.problem("", f))
		}
	}
	return out
}
