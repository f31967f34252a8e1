package mbuf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// These tests run inside a virtual machine with two NUMA nodes; TestMemoryInVM
// boots it. They count the hugepages of the whole machine.
func inGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("not in a guest: VIONET_GUEST=1 is not set")
	}
}

// pagesOf gives the hugepages of one size on a node.
func pagesOf(t *testing.T, pageSize, node int) HugePages {
	t.Helper()
	all := ListHugePages("/")
	i := slices.IndexFunc(all, func(h HugePages) bool { return h.PageSize == pageSize && h.Node == node })
	if i < 0 {
		t.Fatalf("no hugepages of %s on node %d: %v", SizeName(pageSize), node, all)
	}
	return all[i]
}

func reserve(t *testing.T, pageSize, node, count int) {
	t.Helper()
	if err := os.WriteFile(hugePageFile(pageSize, node), fmt.Append(nil, count), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := pagesOf(t, pageSize, node).Free; got != count {
		t.Fatalf("%d pages of %s are free on node %d, want %d", got, SizeName(pageSize), node, count)
	}
}

// pagesByNode counts the pages of a mapping that are there, by node, as
// /proc/self/numa_maps has them: "N1=8".
func pagesByNode(t *testing.T, b []byte) map[string]bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if fields[0] != fmt.Sprintf("%x", addrOf(b)) {
			continue
		}
		for _, f := range fields {
			if strings.HasPrefix(f, "N") && strings.Contains(f, "=") {
				found[f] = true
			}
		}
	}
	return found
}

func TestGuestMemoryLiesOnItsNode(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 16)
	reserve(t, hugePageSize, 1, 16)
	for node := range 2 {
		for _, noHuge := range []bool{false, true} {
			m, err := NewMemory(MemoryConfig{Size: 8 * hugePageSize, Node: OnNode(node), NoHuge: noHuge})
			if err != nil {
				t.Fatal(err)
			}
			bytes := m.Regions()[0].Bytes
			want := fmt.Sprintf("N%d=8", node)
			if noHuge {
				want = fmt.Sprintf("N%d=%d", node, len(bytes)/unix.Getpagesize())
				for off := 0; off < len(bytes); off += unix.Getpagesize() {
					bytes[off] = 1
				}
			}
			if got := pagesByNode(t, bytes); len(got) != 1 || !got[want] {
				t.Errorf("node %d, plain pages %v: %v, want %s", node, noHuge, got, want)
			}
			if _, err := m.Grow(2 * hugePageSize); err != nil {
				t.Error(err)
			}
			free := 16
			if !noHuge {
				free = 6
			}
			if got := pagesOf(t, hugePageSize, node).Free; got != free {
				t.Errorf("node %d, plain pages %v: %d hugepages are free, want %d", node, noHuge, got, free)
			}
			if got := pagesOf(t, hugePageSize, 1-node).Free; got != 16 {
				t.Errorf("of the other node %d hugepages are free, want 16", got)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if a, b := pagesOf(t, hugePageSize, 0), pagesOf(t, hugePageSize, 1); a.Free != 16 || b.Free != 16 {
		t.Errorf("not all came back: %v, %v", a, b)
	}
}

// More pages than a node has are not taken from the other, and none is lost.
func TestGuestB22TooFewPagesOnANode(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 16)
	reserve(t, hugePageSize, 1, 16)
	if _, err := NewMemory(MemoryConfig{Size: 1, Node: OnNode(2)}); err == nil || !strings.Contains(err.Error(), "NUMA node 2: the nodes with memory are 0 1") {
		t.Errorf("a node that is not there: %v", err)
	}
	m, err := NewMemory(MemoryConfig{Size: 17 * hugePageSize, PageSize: hugePageSize, Node: OnNode(1)})
	if err == nil {
		m.Close()
	}
	const remedy = "echo 17 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
	if err == nil || !strings.Contains(err.Error(), "17 hugepages of 2 MiB wanted on NUMA node 1, 16 free") || !strings.Contains(err.Error(), remedy) {
		t.Errorf("error %v", err)
	}
	if m, err = NewMemory(MemoryConfig{Size: 17 * hugePageSize, Node: OnNode(1)}); err != nil {
		t.Fatal(err)
	}
	if m.PageSize() != unix.Getpagesize() {
		t.Errorf("pages of %s", SizeName(m.PageSize()))
	}
	m.Close()
	if m, err = NewMemory(MemoryConfig{Size: 32 * hugePageSize, PageSize: hugePageSize}); err != nil {
		t.Fatalf("all pages of both nodes: %v", err)
	}
	defer m.Close()
	if a, b := pagesOf(t, hugePageSize, 0), pagesOf(t, hugePageSize, 1); a.Free != 0 || b.Free != 0 {
		t.Errorf("%v, %v are left", a, b)
	}
	if _, err := m.Grow(hugePageSize); err == nil || !strings.Contains(err.Error(), "echo 33 > /sys/kernel/mm") {
		t.Errorf("growth without free pages: %v", err)
	}
}

func TestGuestGigabytePages(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 8)
	reserve(t, hugePageSize, 1, 0)
	if h := pagesOf(t, gigaPageSize, 0); h.Free != 1 {
		t.Fatalf("pages of 1 GiB: %+v, want 1 free", h)
	}
	for _, tt := range []struct {
		name     string
		size     int
		mode     IOVAMode
		pageSize int // 0: it can't be
	}{
		{"1 GiB", gigaPageSize, IOVAPhysical, gigaPageSize},
		{"small", 8 * hugePageSize, IOVAPhysical, hugePageSize},
		{"more than the small pages", 9 * hugePageSize, IOVAVirtual, gigaPageSize},
		{"more than all of them", gigaPageSize + 1, IOVAVirtual, unix.Getpagesize()},
		{"more than all of them, physical", gigaPageSize + 1, IOVAPhysical, 0},
	} {
		m, err := NewMemory(MemoryConfig{Size: tt.size, IOVA: tt.mode})
		if tt.pageSize == 0 {
			if err == nil || !strings.Contains(err.Error(), "513 hugepages of 2 MiB wanted, 8 free") {
				t.Errorf("%s: error %v", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if m.PageSize() != tt.pageSize {
			t.Errorf("%s: pages of %s, want %s", tt.name, SizeName(m.PageSize()), SizeName(tt.pageSize))
		}
		if r := m.Regions()[0]; tt.mode == IOVAPhysical && (r.IOVA == 0 || r.IOVA%uint64(tt.pageSize) != 0) {
			t.Errorf("%s: physical address %#x", tt.name, r.IOVA)
		}
		m.Close()
	}
}

// A pool over scattered hugepages: rings take a part of the first page, and
// no buffer crosses the end of a run.
func TestGuestPhysicalPoolGrows(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 16)
	m, err := NewMemory(MemoryConfig{Size: 4 * hugePageSize, IOVA: IOVAPhysical, Node: OnNode(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Alloc(5000, 4096); err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(m, PoolConfig{Count: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Grow(6000); err != nil {
		t.Fatal(err)
	}
	for b := p.Get(); b != nil; b = p.Get() {
		first, last := b.BaseIOVA(), b.BaseIOVA()+uint64(b.Capacity())-1
		inside := func(r Region) bool { return first >= r.IOVA && last < r.end() }
		if !slices.ContainsFunc(m.Regions(), inside) {
			t.Fatalf("buffer %#x to %#x is in no region", first, last)
		}
	}
}

func TestGuestPhysicalAddressesNeedACapability(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 4)
	done := make(chan error)
	go func() {
		// The thread that lost its rights ends with the goroutine.
		runtime.LockOSThread()
		done <- func() error {
			if err := dropCapability(unix.CAP_SYS_ADMIN); err != nil {
				return err
			}
			m, err := NewMemory(MemoryConfig{Size: 1, IOVA: IOVAPhysical})
			if err == nil {
				return errors.Join(errors.New("it has physical addresses"), m.Close())
			}
			if !strings.Contains(err.Error(), "it lacks CAP_SYS_ADMIN: run as root") {
				return err
			}
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := pagesOf(t, hugePageSize, 0).Free; got != 4 {
		t.Errorf("%d pages are free, want 4", got)
	}
}

// dropCapability takes a capability from the calling thread.
func dropCapability(bit int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[bit/32].Effective &^= 1 << (bit % 32)
	return unix.Capset(&header, &sets[0])
}

func TestGuestB22KillGivesThePagesBack(t *testing.T) {
	inGuest(t)
	reserve(t, hugePageSize, 0, 16)
	reserve(t, hugePageSize, 1, 0)
	first, _ := startHolder(t, 10)
	second, said := startHolder(t, 7)
	if !strings.Contains(said, "6 free") {
		t.Errorf("a second instance that finds too few pages said %q", said)
	}
	if err := second.Wait(); err == nil {
		t.Error("it ended well")
	}
	third, said := startHolder(t, 6)
	if said != "holding" || pagesOf(t, hugePageSize, 0).Free != 0 {
		t.Errorf("another that finds just enough said %q", said)
	}
	for _, c := range []*exec.Cmd{first, third} {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it was not killed: %v", err)
		}
	}
	if got := pagesOf(t, hugePageSize, 0).Free; got != 16 {
		t.Errorf("%d pages are free after the kill, 16 were before", got)
	}
	m, err := NewMemory(MemoryConfig{Size: 16 * hugePageSize, PageSize: hugePageSize})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !bytes.Equal(m.Regions()[0].Bytes[:4096], make([]byte, 4096)) {
		t.Error("the pages show what others left in them")
	}
}

// startHolder starts a process that holds hugepages, and gives what it said
// first: "holding", or why it can't.
func startHolder(t *testing.T, pages int) (c *exec.Cmd, said string) {
	t.Helper()
	c = exec.Command(os.Args[0], "-test.run=^TestHoldPages$")
	c.Env = append(os.Environ(), fmt.Sprintf("VIONET_HOLD_PAGES=%d", pages))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, strings.TrimSpace(said)
}

// TestHoldPages is the process of startHolder.
func TestHoldPages(t *testing.T) {
	var pages int
	if _, err := fmt.Sscan(os.Getenv("VIONET_HOLD_PAGES"), &pages); err != nil {
		t.Skip("for startHolder")
	}
	m, err := NewMemory(MemoryConfig{Size: pages * hugePageSize, PageSize: hugePageSize})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b := m.Regions()[0].Bytes
	for i := range b {
		b[i] = 0xee
	}
	fmt.Println("holding")
	time.Sleep(time.Minute)
}
