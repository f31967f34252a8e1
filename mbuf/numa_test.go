package mbuf

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestMemoryNodes(t *testing.T) {
	const dir = "sys/devices/system/node/"
	tests := []struct {
		name  string
		files map[string]string
		want  []int
	}{
		{"no nodes", nil, nil},
		{"one", map[string]string{dir + "has_memory": "0\n"}, []int{0}},
		{"holes", map[string]string{dir + "has_memory": "0-2,5,8-9\n", dir + "online": "0-9\n"}, []int{0, 1, 2, 5, 8, 9}},
		{"older kernel", map[string]string{dir + "online": "0-1\n"}, []int{0, 1}},
		{"nonsense", map[string]string{dir + "has_memory": "x,1-y,-3,7,0-99999999\n"}, []int{7}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, memoryNodes(writeTree(t, tt.files))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestBindingNode(t *testing.T) {
	tests := []struct {
		want  int
		nodes []int
		bind  int
		err   string
	}{
		{AnyNode, []int{0, 1}, AnyNode, ""},
		{0, nil, AnyNode, ""},
		{0, []int{0}, AnyNode, ""},
		{1, []int{1}, AnyNode, ""},
		{0, []int{0, 1}, 0, ""},
		{1, []int{0, 1}, 1, ""},
		{2, []int{0, 1}, 0, "NUMA node 2: the nodes with memory are 0 1"},
		{1, []int{0}, AnyNode, ""},
		{3, nil, AnyNode, ""},
		{-2, []int{0}, 0, "NUMA node -2: the nodes with memory are 0"},
		{-2, []int{0, 1}, 0, "NUMA node -2: the nodes with memory are 0 1"},
	}
	for _, tt := range tests {
		got, err := bindingNode(tt.want, tt.nodes)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.bind || text != tt.err {
			t.Errorf("node %d of %v: %d, %q; want %d, %q", tt.want, tt.nodes, got, text, tt.bind, tt.err)
		}
	}
}

// TestOnNode looks at the mask as the kernel understood it. A single node is
// enough for that.
func TestOnNode(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0"); err != nil {
		t.Skip("this kernel knows no NUMA nodes")
	}
	err := onNode(0, func() error {
		m, err := mapSegment(1<<20, unix.Getpagesize(), 0)
		if err != nil {
			return err
		}
		m.bytes[0] = 1
		return m.close()
	})
	if errors.Is(err, unix.ENOSYS) {
		t.Skip("there is no policy of memory here, as on an emulated processor")
	}
	if err != nil {
		t.Error(err)
	}
	if err := onNode(1000, func() error { return nil }); err == nil {
		t.Error("memory can be had on node 1000")
	}
}
