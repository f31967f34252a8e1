package metrics_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/metrics"
)

// Show a device to Prometheus. The fake device stands in for a real one.
func Example() {
	dev, err := driver.Open(fakedev.New(fakedev.Config{Name: "0000:00:04.0"}), driver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	var collector metrics.Collector
	if err := collector.Add(0, dev); err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	// A program serves the handler with http.ListenAndServe; here it is asked once.
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(answer.Code)
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "vionet_port_link_up") {
			fmt.Print(line)
		}
	}
	// Output:
	// 200
	// vionet_port_link_up{device="0000:00:04.0",port="0"} 0
}
