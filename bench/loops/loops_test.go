package loops

import (
	"path/filepath"
	"testing"
)

// Loops that run once for each packet. Calls in rare are on the way of packets
// that a loop is not made for. A loop that keeps packets stores pointers, and Go
// has no store of a pointer without a write barrier: the look at one flag that
// says whether the garbage collector is at work.
var innerLoops = []struct {
	loop
	rare  []string
	keeps bool
}{
	// The driver's side of virtqueues.
	{loop: loop{"ring", "(*chains).takeEach", "for i := range heads"}},
	{loop: loop{"ring", "(*batch).post", "for i, head := range heads"}},
	{loop: loop{"ring", "(*Split).AddEach", "for i, head := range heads"}},
	{loop: loop{"ring", "(*Split).harvestPlain", "for i := range dst"}},
	{loop: loop{"ring", "(*Packed).writeRun", "for i := range run"}},
	{loop: loop{"ring", "(*Packed).harvestPlain", "for i := range run"}},

	// Buffers.
	{loop: loop{"mbuf", "plain", "for i, b := range src"}},

	// Sending.
	{loop: loop{"driver", "(*TxQueue).sendPlain", "for i, b := range pkts"}, rare: []string{"memclrNoHeapPointers"}},
	{loop: loop{"driver", "bufTable.put", "for i, head := range heads"}, keeps: true},
	{loop: loop{"driver", "bufTable.find", "for i, c := range used"}, keeps: true},

	// Receiving.
	{loop: loop{"driver", "(*RxQueue).acceptSingle", "for i, c := range used"}, keeps: true},
	{loop: loop{"driver", "(*RxQueue).peek", "for i, b := range arrived"}},
	{loop: loop{"driver", "(*RxQueue).acceptWhole", "for i, b := range arrived"}, keeps: true},
	{loop: loop{"driver", "(*RxQueue).fill", "for i, b := range q.fresh"}},
}

// TestInnerLoops compiles the packages and looks at the machine code of each
// loop: there is no bounds check in it, no call and no write barrier.
func TestInnerLoops(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	listings := map[string]listing{}
	for _, l := range innerLoops {
		code := listings[l.dir]
		if code == nil {
			if code, err = compile("vionet/" + l.dir); err != nil {
				t.Fatal(err)
			}
			listings[l.dir] = code
		}
		t.Run(l.dir+"/"+l.function, func(t *testing.T) {
			f, err := inspect(root, code, l.loop)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.bounds) > 0 {
				t.Errorf("bounds checks at %v", f.bounds)
			}
			if calls := without(f.calls, l.rare); len(calls) > 0 {
				t.Errorf("calls at %v", calls)
			}
			if (len(f.barriers) > 0) != l.keeps {
				t.Errorf("write barriers at %v, keeps is %v", f.barriers, l.keeps)
			}
			t.Logf("%d instructions", f.length)
		})
	}
}

// TestFactsAreFound has a listing with one of each.
func TestFactsAreFound(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	code, err := compile("vionet/bench/loops/testcase")
	if err != nil {
		t.Fatal(err)
	}
	l := loop{"bench/loops/testcase", "Scatter", "for i, at := range places"}
	f, err := inspect(root, code, l)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.bounds) != 1 || len(f.calls) != 1 || len(f.barriers) != 1 {
		t.Errorf("%+v, want one bounds check, one call and one write barrier", f)
	}
	if rest := without(f.calls, []string{".note"}); len(rest) != 0 {
		t.Errorf("calls %v without note", rest)
	}
	if _, err := inspect(root, code, loop{l.dir, l.function, "for {"}); err == nil {
		t.Error("a loop that is not there was found")
	}
}
