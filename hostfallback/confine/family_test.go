package confine

import (
	"slices"
	"testing"
)

func numbersOf(members []relative) []int {
	var out []int
	for _, r := range members {
		out = append(out, r.pid)
	}
	slices.Sort(out)
	return out
}

// TestFamily follows an instance through tables in which its processes do what
// makes them hard to find.
func TestFamily(t *testing.T) {
	t.Parallel()
	const runner = 500
	root := relative{pid: runner, parent: 400, group: runner, session: runner, start: 10, unique: 9000, made: 8000}
	others := []relative{
		{pid: 1, parent: 0, group: 1, session: 1, start: 1, unique: 1},
		{pid: 300, parent: 1, group: 300, session: 300, start: 2, unique: 7000, made: 1},
		{pid: 400, parent: 300, group: 400, session: 400, start: 9, unique: 8000, made: 7000},
		{pid: 600, parent: 300, group: 600, session: 300, start: 11, unique: 9500, made: 7000},
	}
	table := func(ours ...relative) []relative { return append(slices.Clone(others), ours...) }
	child := relative{pid: 501, parent: runner, group: runner, session: runner, start: 11, unique: 9001, made: 9000}
	grandchild := relative{pid: 502, parent: 501, group: 502, session: 502, start: 12, unique: 9002, made: 9001} // setsid
	orphan := grandchild
	orphan.parent = 1
	daemon := relative{pid: 503, parent: 1, group: 503, session: 503, start: 13, unique: 9004, made: 9003} // its maker was never seen

	f := newFamily(root.identity())
	if got := numbersOf(f.see(table(root, child, grandchild), nil)); !slices.Equal(got, []int{500, 501, 502}) {
		t.Errorf("descendants are %v", got)
	}
	if got := numbersOf(f.see(table(root, orphan), nil)); !slices.Equal(got, []int{500, 502}) {
		t.Errorf("with the child gone, %v", got)
	}
	if got := numbersOf(f.see(table(orphan), nil)); !slices.Equal(got, []int{502}) {
		t.Errorf("with the runner gone, %v", got)
	}
	if got := numbersOf(f.see(table(orphan, daemon), nil)); !slices.Equal(got, []int{502}) {
		t.Errorf("a daemon that nothing connects is found: %v", got)
	}
	if got := numbersOf(f.see(table(orphan, daemon), func(r relative) bool { return r.pid == 503 })); !slices.Equal(got, []int{502, 503}) {
		t.Errorf("a daemon with the mark is not found: %v", got)
	}
	// What it makes is known from then on.
	if got := numbersOf(f.see(table(daemon, relative{pid: 504, parent: 503, group: 504, session: 504, start: 14, unique: 9005, made: 9004}), nil)); !slices.Equal(got, []int{503, 504}) {
		t.Errorf("what a daemon made is not found: %v", got)
	}
	// Its maker has ended between two looks, but the number of that one was seen.
	if got := numbersOf(f.see(table(relative{pid: 505, parent: 1, group: 505, session: 505, start: 15, unique: 9010, made: 9005}), nil)); !slices.Equal(got, []int{505}) {
		t.Errorf("by the number of its maker: %v", got)
	}
	// Numbers of processes come again, for others.
	again := relative{pid: runner, parent: 300, group: runner, session: runner, start: 99, unique: 9900, made: 7000}
	theirs := relative{pid: 777, parent: runner, group: runner, session: runner, start: 100, unique: 9901, made: 9900}
	if got := numbersOf(f.see(table(again, theirs), nil)); len(got) > 0 {
		t.Errorf("another program with the runner's number counts as %v", got)
	}
	// A process of the runner's session that nothing else connects.
	if got := numbersOf(newFamily(root.identity()).see(table(relative{pid: 506, parent: 1, group: 506, session: runner, start: 20}), nil)); !slices.Equal(got, []int{506}) {
		t.Errorf("by its session: %v", got)
	}
}
