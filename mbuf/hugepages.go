package mbuf

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Sizes of hugepages that amd64 and arm64 have with plain pages of 4 KiB.
const (
	hugePageSize = 2 << 20
	gigaPageSize = 1 << 30
)

// HugePages are the kernel's hugepages of one size on one NUMA node.
type HugePages struct {
	PageSize    int // bytes
	Node        int // AnyNode where the kernel knows no nodes
	Total, Free int // pages
}

// ListHugePages reads what hugepages there are, by node and size. The system's
// files are below root, "/" for this machine's own. A kernel without hugepages
// has none.
func ListHugePages(root string) []HugePages {
	var all []HugePages
	for _, dir := range hugePageDirs(root) {
		h := HugePages{Node: AnyNode}
		kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB"))
		if err != nil {
			continue
		}
		h.PageSize = kilobytes << 10
		if node, ok := strings.CutPrefix(filepath.Base(filepath.Dir(filepath.Dir(dir))), "node"); ok {
			if h.Node, err = strconv.Atoi(node); err != nil {
				continue
			}
		}
		h.Total, h.Free = readCount(dir, "nr_hugepages"), readCount(dir, "free_hugepages")
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b HugePages) int {
		if a.Node != b.Node {
			return a.Node - b.Node
		}
		return a.PageSize - b.PageSize
	})
	return all
}

// hugePageDirs lists the directories of the nodes' hugepages or, where there
// are no nodes, of the machine's.
func hugePageDirs(root string) []string {
	for _, pattern := range []string{"sys/devices/system/node/node*/hugepages/hugepages-*kB", "sys/kernel/mm/hugepages/hugepages-*kB"} {
		// The patterns are well formed.
		if dirs, _ := filepath.Glob(filepath.Join(root, pattern)); len(dirs) > 0 {
			return dirs
		}
	}
	return nil
}

// readCount reads a number; one that cannot be read counts as 0.
func readCount(dir, name string) int {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}

// hugePageFile is where the number of hugepages is set.
func hugePageFile(pageSize, node int) string {
	dir := "/sys/kernel/mm"
	if node != AnyNode {
		dir = fmt.Sprintf("/sys/devices/system/node/node%d", node)
	}
	return fmt.Sprintf("%s/hugepages/hugepages-%dkB/nr_hugepages", dir, pageSize>>10)
}

// Reserve is the shell command that brings the free pages of h to want, by
// raising their total.
func (h HugePages) Reserve(want int) string {
	return fmt.Sprintf("echo %d > %s", h.Total+max(want-h.Free, 0), hugePageFile(h.PageSize, h.Node))
}

// pageSizeError explains a memory file that could not be made.
func pageSizeError(pageSize int, err error) error {
	var sizes []string
	for _, h := range ListHugePages("/") {
		if size := SizeName(h.PageSize); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return fmt.Errorf("pages of %s: %w: hugepages of this machine: %s", SizeName(pageSize), err, cmp.Or(strings.Join(sizes, ", "), "none"))
}

// shortageError explains hugepages that could not be had, and how to set
// enough aside.
func shortageError(size, pageSize, node int, err error) error {
	want := size / pageSize
	there := HugePages{PageSize: pageSize, Node: node}
	for _, h := range ListHugePages("/") {
		if h.PageSize == pageSize && (node == AnyNode || node == h.Node) {
			there.Total += h.Total
			there.Free += h.Free
		}
	}
	where := ""
	if node != AnyNode {
		where = fmt.Sprintf(" on NUMA node %d", node)
	}
	return fmt.Errorf("%d hugepages of %s wanted%s, %d free (%w): %s", want, SizeName(pageSize), where, there.Free, err, there.Reserve(want))
}

// SizeName writes a size in bytes with the largest unit that divides it, such
// as "2 MiB".
func SizeName(bytes int) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	u := 0
	for u+1 < len(units) && bytes != 0 && bytes%1024 == 0 {
		bytes /= 1024
		u++
	}
	return fmt.Sprintf("%d %s", bytes, units[u])
}
