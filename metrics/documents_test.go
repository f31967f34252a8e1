package metrics

import (
	"os"
	"slices"
	"testing"
)

// The documents name every metric, and no other.
func TestDocuments(t *testing.T) {
	families, err := registered(all(t)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		want = append(want, f.GetName())
	}
	for _, name := range []string{"doc.go", "../docs/metrics.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := metricName.FindAllString(string(text), -1)
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s names\n%q, want\n%q", name, got, want)
		}
	}
}
