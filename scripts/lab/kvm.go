package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	"vionet/scripts/lab/job"
)

// kvmPatience is what a guest gets that only boots and ends.
const kvmPatience = 20 * time.Second

// KVM says why guests cannot have KVM, nil when they can: the device is there and a
// guest boots. Some machines have the device, but no kernel of ours gets far on it.
func KVM(ctx context.Context) error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	f.Close()
	g, err := Start(ctx, Config{Program: []string{"/bin/none"}, Driver: "none", Hugepages: -1, KVM: true, Timeout: kvmPatience})
	if err != nil {
		return err
	}
	defer g.Close()
	// That there is no such program is an end as good as any.
	switch status, err := g.Wait(ctx); {
	case err != nil:
		return fmt.Errorf("a guest with KVM does not boot: %w", err)
	case status != job.InitFailed:
		return fmt.Errorf("a guest with KVM ended with status %d", status)
	}
	return nil
}
