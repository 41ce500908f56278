package confine

// The layouts of Python that a Mac has, as an interpreter of each tells them.

const (
	macHome  = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/brig-501/host/0123456789abcdef"
	macWork  = "/Users/ada/Library/Application Support/brig/workspaces/s1"
	macCache = "/Users/ada/Library/Caches/brig/runner/3f2a"
)

func macPolicy(network Network, g Grants) Policy {
	g.Read = append(g.Read, macCache)
	return Policy{
		Mode: ModeBestEffort, Network: network, Workspace: macWork, Scratch: macHome + "/scratch",
		Grants: g, Protected: []string{"/Users/ada/Library/Application Support/brig", "/Users/ada/Library/Caches/brig"},
	}
}

// macLayouts are by the name of their golden file.
var macLayouts = map[string]Grants{
	// python.org: a framework, whose interpreter starts Python.app in it.
	"framework": {
		Execute: []string{"/Library/Frameworks/Python.framework/Versions/3.12"},
		Links: []Link{
			{"/usr/local/bin/python3", "../../../Library/Frameworks/Python.framework/Versions/3.12/bin/python3"},
			{"/Library/Frameworks/Python.framework/Versions/3.12/bin/python3", "python3.12"},
			{"/Library/Frameworks/Python.framework/Versions/Current", "3.12"},
		},
	},
	// A virtual environment in a project, made by a Python of pyenv.
	"venv": {
		Execute: []string{"/Users/ada/project/.venv", "/Users/ada/.pyenv/versions/3.11.7"},
		Links: []Link{
			{"/Users/ada/project/.venv/bin/python3", "python"},
			{"/Users/ada/project/.venv/bin/python", "/Users/ada/.pyenv/versions/3.11.7/bin/python"},
			{"/Users/ada/.pyenv/versions/3.11.7/bin/python", "python3.11"},
		},
	},
	"pyenv": {
		Execute: []string{"/Users/ada/.pyenv/versions/3.11.7"},
		Links:   []Link{{"/Users/ada/.pyenv/versions/3.11.7/bin/python3", "python3.11"}},
	},
	"homebrew": {
		Execute: []string{
			"/opt/homebrew/Cellar", "/opt/homebrew/opt", "/opt/homebrew/lib", "/opt/homebrew/Frameworks", "/opt/homebrew/etc/openssl@3",
		},
		Links: []Link{
			{"/opt/homebrew/bin/python3", "../Cellar/python@3.13/3.13.1/bin/python3"},
			{"/opt/homebrew/Cellar/python@3.13/3.13.1/bin/python3", "../Frameworks/Python.framework/Versions/3.13/bin/python3"},
			{"/opt/homebrew/opt/python@3.13", "../Cellar/python@3.13/3.13.1"},
		},
	},
}
