package capture

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/scripts/lab"
)

// tshark sees the right queue, direction and time of every packet, and finds nothing
// wrong with the file.
func TestTsharkReadsCaptures(t *testing.T) {
	lab.Need(t, "tshark")
	c := plug(t)
	r := c.record(t, Config{WriterConfig: WriterConfig{SnapLen: 64, Comment: "two ways", Filter: "all of them"}})
	begin := time.Now()
	long := strings.Repeat("long ", 30)
	c.tx(0).Burst(c.packets(t, "a frame", long))
	receive(c.far.RxQueue(0))
	c.far.TxQueue(1).Burst(c.packets(t, "an answer"))
	receive(c.rx(1))
	c.stop(t, r)
	end := time.Now()

	rows := lab.Tshark(t, r.Name(), "frame.interface_name", "frame.interface_queue", "frame.packet_flags_direction", "frame.len", "frame.cap_len", "eth.type", "frame.time_epoch")
	want := [][]string{
		{"port3-tx-q0", "0", "2", "21", "21", "0x88b5"},
		{"port3-tx-q0", "0", "2", "164", "64", "0x88b5"},
		{"port3-rx-q1", "1", "1", "23", "23", "0x88b5"},
	}
	for i, row := range rows {
		last := len(row) - 1
		if at := epoch(t, row[last]); at < begin.UnixNano() || at > end.UnixNano() {
			t.Errorf("packet %d at %s, not from %d to %d ns", i, row[last], begin.UnixNano(), end.UnixNano())
		}
		rows[i] = row[:last]
	}
	for i := range want { // tshark writes flags in hexadecimal
		want[i][2] = fmt.Sprintf("0x%08s", want[i][2])
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// epoch reads seconds with nine decimals as nanoseconds.
func epoch(t *testing.T, text string) int64 {
	t.Helper()
	seconds, nanos, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(seconds+nanos, 10, 64)
	if err != nil || !ok || len(nanos) != 9 {
		t.Fatalf("time %q is not one in nanoseconds", text)
	}
	return n
}
