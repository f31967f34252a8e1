package mbuf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestListHugePages(t *testing.T) {
	const global, node = "sys/kernel/mm/hugepages/hugepages-", "sys/devices/system/node/node"
	tests := []struct {
		name  string
		files map[string]string
		want  []HugePages
	}{
		{name: "none"},
		{
			name: "no nodes",
			files: map[string]string{
				global + "2048kB/nr_hugepages":      "64\n",
				global + "2048kB/free_hugepages":    "60\n",
				global + "1048576kB/nr_hugepages":   "2\n",
				global + "1048576kB/free_hugepages": "x\n",
				global + "oddkB/free_hugepages":     "1\n",
			},
			want: []HugePages{{2 << 20, AnyNode, 64, 60}, {1 << 30, AnyNode, 2, 0}},
		},
		{
			name: "two nodes win over the sum",
			files: map[string]string{
				global + "2048kB/nr_hugepages":                       "5\n",
				node + "1/hugepages/hugepages-2048kB/nr_hugepages":   "3\n",
				node + "1/hugepages/hugepages-2048kB/free_hugepages": "1\n",
				node + "0/hugepages/hugepages-2048kB/nr_hugepages":   "2\n",
				node + "0/hugepages/hugepages-2048kB/free_hugepages": "2\n",
			},
			want: []HugePages{{2 << 20, 0, 2, 2}, {2 << 20, 1, 3, 1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ListHugePages(writeTree(t, tt.files))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReserveRaisesTheTotal(t *testing.T) {
	for want, h := range map[string]HugePages{
		"echo 12 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":                   {2 << 20, AnyNode, 10, 6},
		"echo 8 > /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": {1 << 30, 1, 0, 0},
		"echo 9 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":                    {2 << 20, AnyNode, 9, 9},
	} {
		if got := h.Reserve(8); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}

func TestSizeName(t *testing.T) {
	for size, want := range map[int]string{
		0: "0 bytes", 1000: "1000 bytes", 4096: "4 KiB", 2 << 20: "2 MiB", 1536 << 10: "1536 KiB", 1 << 30: "1 GiB", 2 << 40: "2048 GiB",
	} {
		if got := SizeName(size); got != want {
			t.Errorf("%d: %q, want %q", size, got, want)
		}
	}
}

func TestPageSizesToTry(t *testing.T) {
	plain := unix.Getpagesize()
	tests := []struct {
		name string
		cfg  MemoryConfig
		size int
		want []int
	}{
		{"small", MemoryConfig{}, 1 << 20, []int{2 << 20, 1 << 30, plain}},
		{"a byte less than 1 GiB", MemoryConfig{}, 1<<30 - 1, []int{2 << 20, 1 << 30, plain}},
		{"1 GiB", MemoryConfig{}, 1 << 30, []int{1 << 30, 2 << 20, plain}},
		{"physical", MemoryConfig{IOVA: IOVAPhysical}, 1 << 20, []int{2 << 20, 1 << 30}},
		{"large and physical", MemoryConfig{IOVA: IOVAPhysical}, 2 << 30, []int{1 << 30, 2 << 20}},
		{"plain", MemoryConfig{NoHuge: true}, 2 << 30, []int{plain}},
		{"given", MemoryConfig{PageSize: 1 << 30}, 1, []int{1 << 30}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.cfg.pageSizes(tt.size)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}
