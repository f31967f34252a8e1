package lab

import "testing"

// A program lives on, whatever becomes of the threads that were in a namespace:
// it dies with the thread that started it.
func TestNamespaceKeepsProgramsAlive(t *testing.T) {
	Need(t, "net", "root")
	ns, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var cats []*Process
	for range 20 {
		cats = append(cats, Spawn(t, "cat"))
		for range 10 {
			if err := ns.Do(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, cat := range cats {
		if err := cat.Send("miaow"); err != nil {
			t.Fatal(err)
		}
		if _, err := cat.Expect(t.Context(), "miaow\n"); err != nil {
			t.Fatalf("program %d: %v", i, err)
		}
	}
}
