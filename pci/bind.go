package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Reasons why a function can't be bound, for errors.Is.
var (
	// ErrInUse: an interface of the function is up or carries the default
	// route, which force overrides, or a process drives the function, which it
	// does not.
	ErrInUse = errors.New("in use")
	// ErrNoDriver: the kernel driver is not loaded.
	ErrNoDriver = errors.New("kernel driver not loaded")
	// ErrNoIOMMU: the function is in no IOMMU group and VFIO's no-IOMMU mode
	// is off.
	ErrNoIOMMU = errors.New("no IOMMU group")
	// ErrGroupShared: other functions of the IOMMU group have kernel drivers.
	ErrGroupShared = errors.New("the IOMMU group has other members")
)

// BindError says which step of a change of drivers failed and what to do.
type BindError struct {
	BDF    string // the function's address
	Step   string // "check", "driver_override", "unbind", "probe", "bind"
	Err    error
	Advice string
}

// Error gives all of it on one line.
func (e *BindError) Error() string {
	s := fmt.Sprintf("pci: %s: %s: %v", e.BDF, e.Step, e.Err)
	if e.Advice != "" {
		s += ": " + e.Advice
	}
	return s
}

// Unwrap gives the reason.
func (e *BindError) Unwrap() error { return e.Err }

// Bind gives the functions at the addresses to a kernel driver, such as
// DriverVFIO. It checks all of them before it changes any; force leaves out
// the check that the kernel's network stack does not need them. A function
// whose change fails is put back as it was; those before it stay changed. The
// error is a *BindError, or says that an address is wrong.
func (t Tree) Bind(driver string, force bool, addresses ...string) error {
	return t.change(force, addresses, func(f Function) move {
		m := move{function: f, driver: driver, override: driver}
		if driver == DriverVirtio && f.IsVirtio() {
			m.override = "" // its own driver needs none
		}
		return m
	})
}

// Release gives functions back: virtio ones to DriverVirtio, others to no
// driver. Otherwise it is like Bind.
func (t Tree) Release(force bool, addresses ...string) error {
	return t.change(force, addresses, func(f Function) move {
		if f.IsVirtio() {
			return move{function: f, driver: DriverVirtio}
		}
		return move{function: f}
	})
}

// move is a change of driver: which one a function shall have ("": none), and
// what driver_override shall say.
type move struct {
	function Function
	driver   string
	override string
}

func (t Tree) change(force bool, addresses []string, plan func(Function) move) error {
	var moves []move
	var together []string
	for _, a := range addresses {
		f, err := t.Function(a)
		if err != nil {
			return err
		}
		moves = append(moves, plan(f))
		together = append(together, f.BDF)
	}
	for _, m := range moves {
		if err := t.check(m, together, force); err != nil {
			return err
		}
	}
	for _, m := range moves {
		if err := t.apply(m); err != nil {
			return err
		}
	}
	return nil
}

// check finds out what would make a move fail, or cut the machine off.
// together are the functions that move at the same time.
func (t Tree) check(m move, together []string, force bool) error {
	f := m.function
	refuse := func(err error, advice string) error {
		return &BindError{BDF: f.BDF, Step: "check", Err: err, Advice: advice}
	}
	if m.driver != "" && !t.HasDriver(m.driver) {
		return refuse(fmt.Errorf("%w: %s", ErrNoDriver, m.driver), "modprobe "+m.driver)
	}
	if f.Driver == m.driver {
		return nil
	}
	if why := t.InUse(f); why != "" && !force {
		return refuse(fmt.Errorf("%w: %s", ErrInUse, why), "take the interface down, or use --force")
	}
	if why := t.heldBy(f); why != "" {
		return refuse(fmt.Errorf("%w: %s", ErrInUse, why), "end that process first")
	}
	if m.driver != DriverVFIO {
		return nil
	}
	if f.Group < 0 {
		if advice, err := t.noIOMMU(); err != nil {
			return refuse(err, advice)
		}
	}
	if others := t.groupHolders(f, together); len(others) > 0 {
		return refuse(fmt.Errorf("%w with kernel drivers: %s", ErrGroupShared, strings.Join(others, ", ")), "bind them too, or move the function to a slot of its own")
	}
	return nil
}

// noIOMMU says why a function without an IOMMU group can't be used, or nil
// when VFIO's no-IOMMU mode is on.
func (t Tree) noIOMMU() (advice string, err error) {
	const parameter = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
	switch mode, err := t.read(parameter); {
	case err != nil:
		return "give the machine an IOMMU and boot with intel_iommu=on (or amd_iommu=on)",
			fmt.Errorf("%w, and this kernel has no VFIO_NOIOMMU", ErrNoIOMMU)
	case mode != "Y" && mode != "1":
		return "boot with intel_iommu=on, or write Y to /" + parameter,
			fmt.Errorf("%w, and no-IOMMU mode is off", ErrNoIOMMU)
	}
	return "", nil
}

// heldBy says which process uses f through the driver that it has, "" for none.
func (t Tree) heldBy(f Function) string {
	switch f.Driver {
	case DriverVFIO:
		if t.groupBusy(f) {
			return "a process has opened its IOMMU group"
		}
	case DriverUIOGeneric, DriverUIOIntel:
		fd, err := t.lockConfig(f.BDF)
		if errors.Is(err, ErrInUse) {
			return "a process has opened it"
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	return ""
}

// groupBusy reports whether a process uses f's group. The kernel would let a
// change of drivers wait for that process to end.
func (t Tree) groupBusy(f Function) bool {
	node, _, err := t.groupNode(f)
	if err != nil {
		return false
	}
	fd, err := unix.Open(t.path(devVFIO, node), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, unix.EBUSY)
	}
	unix.Close(fd)
	return false
}

// groupHolders lists the other functions of f's group that keep VFIO from
// using it: those with a driver that may do DMA.
func (t Tree) groupHolders(f Function, together []string) []string {
	harmless := []string{"", DriverVFIO, "pci-stub", "pcieport"}
	var holders []string
	for _, other := range t.groupMembers(f.Group, f.BDF) {
		driver := t.driverOf(other)
		if !slices.Contains(harmless, driver) && !slices.Contains(together, other) {
			holders = append(holders, fmt.Sprintf("%s (%s)", other, driver))
		}
	}
	return holders
}

// apply makes a move, or undoes what it did of it.
func (t Tree) apply(m move) error {
	bdf := m.function.BDF
	before := move{function: m.function, driver: m.function.Driver}
	// An override that was never set reads as "(null)".
	if s, err := t.read(sysDevices, bdf, "driver_override"); err == nil && s != "(null)" {
		before.override = s
	}
	err := t.make(m)
	if err == nil {
		return nil
	}
	if undo := t.make(before); undo != nil {
		return join(err, fmt.Errorf("and the function could not be put back: %w", undo))
	}
	return err
}

// make goes through the steps of a move.
func (t Tree) make(m move) error {
	bdf := m.function.BDF
	override := m.override
	if override == "" {
		override = "\n" // this is how an override is taken away
	}
	if err := t.store(override, sysDevices, bdf, "driver_override"); err != nil {
		return stepError(bdf, "driver_override", err)
	}
	now := t.driverOf(bdf)
	if now == m.driver {
		return nil
	}
	if now != "" {
		if err := t.store(bdf, sysDevices, bdf, "driver/unbind"); err != nil {
			return stepError(bdf, "unbind", err)
		}
	}
	if m.driver == "" {
		return nil
	}
	if err := t.store(bdf, "sys/bus/pci/drivers_probe"); err != nil {
		return stepError(bdf, "probe", err)
	}
	if t.driverOf(bdf) == m.driver {
		return nil
	}
	// Nobody took it, and the probe does not say why; asking the driver does.
	if err := t.store(bdf, sysDrivers, m.driver, "bind"); err != nil {
		return stepError(bdf, "bind", err)
	}
	if t.driverOf(bdf) != m.driver {
		return stepError(bdf, "bind", fmt.Errorf("%s did not take the function", m.driver))
	}
	return nil
}

func stepError(bdf, step string, err error) error {
	e := &BindError{BDF: bdf, Step: step, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Advice = "run as root"
	case errors.Is(err, unix.ENODEV):
		e.Advice = "the driver does not know this device"
	default:
		e.Advice = "dmesg says why"
	}
	return e
}
