package mbuf

import (
	"testing"

	"vionet/scripts/lab"
)

// TestMemoryInVM runs the guest tests of this package on a machine with two
// NUMA nodes, of 5 and 1 GiB, and no other user of its hugepages. The page of
// 1 GiB on the first has to be set aside at boot, before the memory is in
// pieces; nokaslr keeps the kernel itself out of the way.
func TestMemoryInVM(t *testing.T) {
	lab.RunTests(t, "vionet/mbuf", "^TestGuest", lab.Config{
		Driver: "none",
		Memory: 6 << 10,
		CPUs:   2,
		Arguments: []string{
			"-object", "memory-backend-ram,id=m0,size=5G", "-numa", "node,nodeid=0,cpus=0,memdev=m0",
			"-object", "memory-backend-ram,id=m1,size=1G", "-numa", "node,nodeid=1,cpus=1,memdev=m1",
			// Of two kernel command lines the later one counts.
			"-append", "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on nokaslr hugepagesz=1G hugepages=0:1 hugepagesz=2M",
		},
	})
}
