package mbuf

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// memoryNodes lists the NUMA nodes that have memory, from the files below
// root; none where the kernel knows no nodes.
func memoryNodes(root string) []int {
	for _, name := range []string{"has_memory", "online"} {
		b, err := os.ReadFile(filepath.Join(root, "sys/devices/system/node", name))
		if err == nil {
			return parseList(strings.TrimSpace(string(b)))
		}
	}
	return nil
}

// parseList reads the kernel's form of a set of numbers, such as "0-3,8". It
// leaves out what it can't read.
func parseList(list string) []int {
	const most = 1024 // nodes that a kernel can have
	var numbers []int
	for item := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last, err := strconv.Atoi(to)
		if err != nil || first < 0 || last >= most {
			continue
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// bindingNode is the node to bind memory to: the wanted one, or AnyNode where
// there is no choice.
func bindingNode(want int, nodes []int) (int, error) {
	switch {
	case want == AnyNode, want >= 0 && len(nodes) <= 1:
		return AnyNode, nil
	case slices.Contains(nodes, want):
		return want, nil
	}
	return 0, fmt.Errorf("NUMA node %d: the nodes with memory are %s", want, strings.Trim(fmt.Sprint(nodes), "[]"))
}

// onNode runs f where new pages come from the node alone. The policy belongs
// to a thread, so f gets one of its own, which ends with it.
func onNode(node int, f func() error) error {
	if node == AnyNode {
		return f()
	}
	done := make(chan error)
	go func() {
		// A goroutine that ends while it is locked takes its thread with it.
		runtime.LockOSThread()
		err := setPolicy(node)
		if err != nil {
			err = fmt.Errorf("allocate on NUMA node %d: %w: a container may forbid it", node, err)
		} else {
			err = f()
		}
		done <- err
	}()
	return <-done
}
