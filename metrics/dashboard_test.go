package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// dashboard is what the test reads of Grafana's model.
type dashboard struct {
	Title  string
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Query string }
	}
}

var metricName = regexp.MustCompile(`\b(?:vionet|go|process)_[a-z_]+`)

// Every metric that the dashboard names is there, and every metric is on it.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	families, err := registered(all(t)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = false
	}
	use := func(where, query string) {
		names := metricName.FindAllString(query, -1)
		if len(names) == 0 {
			t.Errorf("%s: no metric in %q", where, query)
		}
		for _, name := range names {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			known[name] = true
		}
	}
	for _, v := range d.Templating.List {
		if v.Query != "prometheus" { // the choice of a data source
			use(v.Name, v.Query)
		}
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			use(p.Title, target.Expr)
		}
	}
	for name, used := range known {
		if !used {
			t.Errorf("%s is on no panel", name)
		}
	}
}
