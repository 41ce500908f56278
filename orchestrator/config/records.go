package config

import "time"

// records are the keys about what is kept of what happened.
func records() []row {
	return []row{
		{"records.runs", "", false, "How many runs of one session are kept with their source and output; what is older goes. The audit log is not concerned.", count{
			func(c *Config) *int { return &c.Records.Runs }, 10, 100_000, false,
		}},
		{"records.size", "", false, "How much the sources and outputs of all runs may take; what is older goes, of closed sessions first.", bytesize{
			func(c *Config) *int64 { return &c.Records.Size }, 16 << 20, 64 << 30,
		}},
		{"records.age", "", false, "How long a run is kept after its end; of a closed session a week at most.", duration{
			func(c *Config) *time.Duration { return &c.Records.Age }, time.Hour, 365 * 24 * time.Hour,
		}},
		{"audit.code", "", false, "Whether the audit log holds the source of every run. With false it holds its SHA-256 and its size.", truth{
			func(c *Config) *bool { return &c.Audit.Code },
		}},
		{"audit.size", "", false, "How much the audit log may take before its oldest part is removed, which a line of it says.", bytesize{
			func(c *Config) *int64 { return &c.Audit.Size }, 16 << 20, 1 << 40,
		}},
	}
}
