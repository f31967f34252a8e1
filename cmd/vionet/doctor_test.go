package main

import (
	"encoding/json"
	"strings"
	"testing"

	"vionet/doctor"
	"vionet/pci/pcitest"
	"vionet/scripts/lab"
)

// idleFunction is a machine with an IOMMU and a function that the kernel's own
// driver has for nothing.
func idleFunction(t *testing.T) *pcitest.Kernel {
	k := pcitest.New(t)
	k.WriteFile("dev/vfio/3", "")
	k.WriteFile("proc/self/limits", "Max locked memory unlimited unlimited bytes\n")
	k.Add(pcitest.Function{BDF: "0000:00:05.0", Vendor: 0x1af4, Device: 0x1041, Driver: "virtio-pci", Group: 3, Interface: "eth1"})
	return k
}

// Doing what the doctor says mends what it found.
func TestDoctorAdviceWorks(t *testing.T) {
	k := idleFunction(t)
	out, err := runCommand(doctorCommand(), "--root", k.Root)
	const summary = "0 of 1 virtio-net function ready, 1 thing to mend; ports over vhost-user work"
	if err == nil || err.Error() != "doctor: "+summary || !strings.HasSuffix(out, "\n\n"+summary+"\n") {
		t.Errorf("error %v; it printed\n%s", err, out)
	}
	_, failure, _ := strings.Cut(out, "FAIL")
	_, advice, found := strings.Cut(failure, "mend: vionet devbind ")
	if !found {
		t.Fatalf("no advice in\n%s", out)
	}
	advice, _, _ = strings.Cut(advice, "\n")
	if _, err := runDevbindCommand(k, strings.Fields(advice)...); err != nil {
		t.Fatalf("devbind %s: %v", advice, err)
	}
	out, err = runCommand(doctorCommand(), "--root", k.Root)
	if err != nil || strings.Contains(out, "FAIL") || !strings.HasSuffix(out, "\n\n1 of 1 virtio-net function ready; ports over vhost-user work\n") {
		t.Errorf("afterwards: error %v; it printed\n%s", err, out)
	}
}

func TestDoctorJSON(t *testing.T) {
	k := idleFunction(t)
	out, err := runCommand(doctorCommand(), "--json", "--root", k.Root)
	if err == nil {
		t.Error("an idle function is no failure")
	}
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.OK || r.Counts.Fail != 1 || len(r.Functions) != 1 || r.Functions[0].Findings[0].Mend != "vionet devbind -b vfio-pci 0000:00:05.0" {
		t.Errorf("report %s", out)
	}
	if len(k.Writes) > 0 {
		t.Errorf("it wrote %v", k.Writes)
	}
}

func TestDoctorTakesNoArguments(t *testing.T) {
	if out, err := runCommand(doctorCommand(), "00:05.0"); err == nil || out != "" {
		t.Errorf("error %v; it printed\n%s", err, out)
	}
}

// TestDoctorHere looks at the machine that runs the test. What it finds is the
// machine's affair.
func TestDoctorHere(t *testing.T) {
	out, err := runCommand(doctorCommand())
	t.Log(out)
	if !strings.HasPrefix(out, "Machine\n") || !strings.Contains(out, "ports over vhost-user") {
		t.Errorf("error %v; it printed\n%s", err, out)
	}
	if failed := strings.Contains(out, "\n  FAIL  "); failed != (err != nil) {
		t.Errorf("FAIL is there: %v; error: %v", failed, err)
	}
}

func TestDoctorInTheGuest(t *testing.T) {
	lab.Need(t, "qemu")
	const function = "Function 0000:00:01.0 'Virtio 1.0 network device', "
	for _, tt := range []struct {
		driver  string
		modules []string
		status  int
		said    []string
	}{
		{"vfio-pci", nil, 0, []string{
			"  OK    iommu       on, ",
			"  OK    module      vfio_iommu_type1: loaded\n",
			"  OK    vfio        /dev/vfio/vfio: can be opened\n",
			": 64 of 64 free\n",
			"  WARN  cpu         1 processor: ",
			function + "driver vfio-pci, IOMMU group ",
			"  OK    driver      bound to vfio-pci\n",
			"\n1 of 1 virtio-net function ready; ports over vhost-user work\n",
		}},
		{"none", append(lab.VFIOModules, lab.VirtioModules...), 1, []string{
			function + "driver virtio-pci, IOMMU group ",
			"  FAIL  driver      virtio-pci has it: it must be bound to vfio-pci\n",
			"mend: vionet devbind -b vfio-pci 0000:00:01.0\n",
			"vionet: doctor: 0 of 1 virtio-net function ready, 1 thing to mend; ports over vhost-user work\n",
		}},
	} {
		t.Run(tt.driver, func(t *testing.T) {
			g := lab.Boot(t, lab.Config{
				Program: []string{"/bin/vionet", "doctor"},
				Files:   map[string]string{"/bin/vionet": vionet(t)},
				NICs:    []lab.NIC{{Net: lab.Hub(0)}},
				Driver:  tt.driver,
				Modules: tt.modules,
			})
			status, err := g.Wait(t.Context())
			if status != tt.status || err != nil {
				t.Errorf("exit status %d, %v; want %d", status, err, tt.status)
			}
			said := strings.ReplaceAll(g.Transcript(), "\r", "")
			for _, want := range tt.said {
				if !strings.Contains(said, want) {
					t.Errorf("it did not say %q", want)
				}
			}
		})
	}
}
