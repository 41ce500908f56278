package confine

// relative is a process of the table, as far as it matters whose it is.
type relative struct {
	pid, parent, group, session int
	start                       int64 // when it was started; with the pid it names one process for good
	zombie                      bool  // it has ended and waits to be taken by its parent
	// unique and made are numbers that are never used again: the process's own, and
	// that of the process which made it, whoever is its parent now. 0 is unknown.
	unique, made uint64
}

type identity struct {
	pid   int
	start int64
}

func (r relative) identity() identity { return identity{r.pid, r.start} }

// family remembers who belongs to an instance where the kernel does not: a process
// whose parent ends becomes nobody's child, and only who was seen before is known.
type family struct {
	root  identity // the runner
	known map[identity]bool
	made  map[uint64]bool // unique numbers of members, also of those that have ended
}

func newFamily(root identity) *family {
	return &family{root: root, known: map[identity]bool{root: true}, made: map[uint64]bool{}}
}

// see looks at a table of processes and returns the members in it that live.
// stranger is asked about every process that is none by the table alone, such as
// whether it carries a mark; nil asks nothing.
func (f *family) see(table []relative, stranger func(relative) bool) []relative {
	byPID := make(map[int]relative, len(table))
	for _, r := range table {
		byPID[r.pid] = r
	}
	// The number of a session or group is taken as long as it has members, but not
	// longer. Another process that has the runner's number is the head of others.
	head, there := byPID[f.root.pid]
	ours := !there || head.identity() == f.root
	for grown := true; grown; {
		grown = false
		for _, r := range table {
			if f.known[r.identity()] {
				if r.unique != 0 {
					f.made[r.unique] = true
				}
				continue
			}
			parent, alive := byPID[r.parent]
			if alive && r.parent > 1 && f.known[parent.identity()] || r.made != 0 && f.made[r.made] ||
				ours && (r.session == f.root.pid || r.group == f.root.pid) || stranger != nil && stranger(r) {
				f.known[r.identity()] = true
				grown = true
			}
		}
	}
	var members []relative
	for _, r := range table {
		if f.known[r.identity()] && !r.zombie {
			members = append(members, r)
		}
	}
	return members
}
