package testpmd

import (
	"fmt"
	"reflect"
	"strings"

	"vionet/mbuf"
)

func dumpCommands() []*command {
	dump := func(f func(*Console)) func(*Console, args) { return func(c *Console, a args) { f(c) } }
	return []*command{
		{section: displaySection, pattern: "dump_physmem", help: "List the pieces of memory that devices reach.", run: dump((*Console).dumpMemory)},
		{section: displaySection, pattern: "dump_socket_mem", help: "Show the size of that memory.", run: dump((*Console).dumpTotal)},
		{section: displaySection, pattern: "dump_mempool", help: "Show the pool of buffers.", run: dump((*Console).dumpPool)},
		{section: displaySection, pattern: "dump_mempool (name)", help: "Show the pool of that name.", run: (*Console).dumpNamedPool},
		{section: displaySection, pattern: "dump_ring", help: "Refused: \"show rxq info\" and \"show txq info\" show the rings of devices.", run: dump((*Console).dumpRing)},
		{pattern: "dump_ring (name)", run: dump((*Console).dumpRing)},
		{section: displaySection, pattern: "dump_struct_sizes", help: "Show the size of what describes a buffer.", run: dump((*Console).dumpSizes)},
		{section: displaySection, pattern: "dump_devargs", help: "List the devices and their arguments.", run: dump((*Console).dumpDevargs)},
		{section: displaySection, pattern: "dump_lcores", help: "List the cores.", run: dump((*Console).dumpCores)},
	}
}

// dumpMemory lists regions. Where they lie in this process is nobody's business
// outside of it.
func (c *Console) dumpMemory() {
	var b strings.Builder
	for i, r := range c.Pool.Memory().Regions() {
		fmt.Fprintf(&b, "Segment 0-%d: IOVA:%#x, len:%d, socket_id:0, hugepage_sz:%d, fd:%d\n", i, r.IOVA, len(r.Bytes), r.PageSize, r.FD)
	}
	c.printf("%s", b.String())
}

func (c *Console) dumpTotal() {
	const mega = 1 << 20
	total, taken := 0, mbuf.Stride(c.Pool.BufSize())*c.Pool.Size()
	for _, r := range c.Pool.Memory().Regions() {
		total += len(r.Bytes)
	}
	for _, who := range []string{"Socket 0:", "Total   :"} {
		c.printf("%s size(M) total: %.6f buffers: %.6f(%.3f%%)\n", who, float64(total)/mega, float64(taken)/mega, 100*float64(taken)/float64(max(total, 1)))
	}
}

func (c *Console) dumpPool() {
	c.printf(`mempool <%s>
  socket_id=0
  size=%d
  populated_size=%d
  elt_size=%d
  total_obj_size=%d
  internal cache infos:
    cache_size=%d
  common_pool_count=%d
`, c.Pool.Name(), c.Pool.Size(), c.Pool.Size(), c.Pool.BufSize(), mbuf.Stride(c.Pool.BufSize()), mbuf.DefaultCacheSize, c.Pool.Free())
}

func (c *Console) dumpNamedPool(a args) {
	if a[1] != c.Pool.Name() {
		c.errorf("Cannot find mempool\n")
		return
	}
	c.dumpPool()
}

func (c *Console) dumpRing() { c.errorf("Cannot find ring\n") }

func (c *Console) dumpSizes() {
	c.printf("sizeof(mbuf.Buf) = %d\n", reflect.TypeFor[mbuf.Buf]().Size())
}

func (c *Console) dumpDevargs() {
	c.printf("User device list:\n")
	for _, p := range c.openPorts() {
		info := p.Info()
		c.printf("  [%s]: %s %s\n", busOf(info.Name), info.Name, info.Devargs)
	}
}

func (c *Console) dumpCores() {
	c.printf("lcore %d, socket 0, role RTE, the console\n", c.MainCore)
	for _, core := range c.Cores {
		c.printf("lcore %d, socket 0, role RTE, cpuset %v\n", core.ID, core.CPUs)
	}
}
