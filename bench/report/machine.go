package report

// Machine is where a benchmark ran.
type Machine struct {
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	Hypervisor string `json:"hypervisor,omitempty"` // "" on hardware
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	DPDK       string `json:"dpdk,omitempty"` // version of the package
	QEMU       string `json:"qemu,omitempty"`
	KVM        string `json:"kvm,omitempty"` // why guests had no KVM, "" when it was used or no guest ran
	Hugepages  int    `json:"hugepages,omitempty"`
	// Mitigations are the kernel's words about each weakness of the processor,
	// those aside that it is not affected by, as "spectre_v2: Mitigation: …".
	Mitigations []string `json:"mitigations,omitempty"`
}
