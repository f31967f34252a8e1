package loops

import "slices"

// flow is how control moves between the instructions of a function, which are
// named by their index.
type flow struct {
	code []instruction
	next [][]int
	prev [][]int
}

func newFlow(code []instruction) *flow {
	f := &flow{code: code, next: make([][]int, len(code)), prev: make([][]int, len(code))}
	at := map[int]int{}
	for i, c := range slices.Backward(code) {
		at[c.pc] = i // the first of those at one address
	}
	for i, c := range code {
		if c.falls() && i+1 < len(code) {
			f.link(i, i+1)
		}
		if to, ok := at[c.target()]; ok && c.target() >= 0 {
			f.link(i, to)
		}
	}
	return f
}

func (f *flow) link(from, to int) {
	f.next[from] = append(f.next[from], to)
	f.prev[to] = append(f.prev[to], from)
}

// loops gives the natural loops, by the instruction that each begins with: that
// which every way into the loop goes through.
func (f *flow) loops() map[int][]bool {
	found := map[int][]bool{}
	for tail, heads := range f.next {
		for _, head := range heads {
			if !f.dominates(head, tail) {
				continue
			}
			if found[head] == nil {
				found[head] = make([]bool, len(f.code))
				found[head][head] = true
			}
			f.gather(found[head], tail)
		}
	}
	return found
}

// dominates reports whether every way from the function's entry to the second
// goes through the first: without it, there is none.
func (f *flow) dominates(first, second int) bool {
	seen := make([]bool, len(f.code))
	seen[first] = true
	for todo := []int{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[i] {
			continue
		}
		if i == second {
			return false
		}
		seen[i] = true
		todo = append(todo, f.next[i]...)
	}
	return true
}

// gather adds to a loop all that leads to one of its ends.
func (f *flow) gather(loop []bool, tail int) {
	for todo := []int{tail}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !loop[i] {
			loop[i] = true
			todo = append(todo, f.prev[i]...)
		}
	}
}

// panics reports whether an instruction leads straight to a failed check.
func (f *flow) panics(i int) bool {
	for range f.code {
		c := f.code[i]
		if call := c.calls(); call != "" {
			return isCheck(call)
		}
		if len(f.next[i]) != 1 {
			return false
		}
		i = f.next[i][0]
	}
	return false
}

func isCheck(call string) bool {
	return call == "runtime.panicBounds" || call == "runtime.panicdivide" || call == "runtime.panicshift"
}
