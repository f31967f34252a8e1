package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"vionet/pci"
)

// devbindCommand shows which driver each network function has and changes it,
// in the manner of dpdk-devbind.
func devbindCommand() *cli.Command {
	return devbind(nil)
}

// devbind makes the command. store stands in for the kernel on the tree that
// --root names; nil writes the files.
func devbind(store func(path, value string) error) *cli.Command {
	return &cli.Command{
		Name:      "devbind",
		Usage:     "show which driver network functions have, bind them and give them back",
		UsageText: "vionet devbind [--status]\nvionet devbind [--force] -b DRIVER BDF...\nvionet devbind [--force] -u BDF...",
		Description: "A function that vionet drives must be bound to vfio-pci or, where that can't be had, to\n" +
			"uio_pci_generic or igb_uio, which leave all memory open to its DMA. An address (BDF) is\n" +
			"written 0000:00:01.0 or 00:01.0. All functions are checked before any is changed.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "status", Aliases: []string{"s"}, Usage: "show the functions and their drivers (what happens without flags)"},
			&cli.StringFlag{Name: "bind", Aliases: []string{"b"}, Usage: "bind the functions to `DRIVER`, such as vfio-pci"},
			&cli.BoolFlag{Name: "unbind", Aliases: []string{"u"}, Usage: "give virtio functions back to virtio-pci, others to no driver"},
			&cli.BoolFlag{Name: "force", Usage: "also take a function whose interface is up or carries the default route"},
			&cli.StringFlag{Name: "root", Usage: "directory that holds sys, proc and dev", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			return runDevbind(c, pci.Tree{Root: c.String("root"), Store: store})
		},
	}
}

func runDevbind(c *cli.Context, tree pci.Tree) error {
	addresses := c.Args().Slice()
	for _, a := range addresses {
		if strings.HasPrefix(a, "-") {
			return fmt.Errorf("devbind: %s must stand before the addresses", a)
		}
	}
	binding, unbinding := c.IsSet("bind"), c.Bool("unbind")
	switch {
	case binding && unbinding:
		return errors.New("devbind: --bind and --unbind exclude each other")
	case (binding || unbinding) && len(addresses) == 0:
		return errors.New("devbind: no addresses given: see vionet devbind --status")
	case !binding && !unbinding && len(addresses) > 0:
		return errors.New("devbind: addresses given, but neither --bind DRIVER nor --unbind")
	case binding && c.String("bind") == "":
		return errors.New("devbind: --bind needs the name of a driver, such as vfio-pci")
	case binding:
		if err := tree.Bind(c.String("bind"), c.Bool("force"), addresses...); err != nil {
			return err
		}
	case unbinding:
		if err := tree.Release(c.Bool("force"), addresses...); err != nil {
			return err
		}
	}
	if (binding || unbinding) && !c.Bool("status") {
		return nil
	}
	functions, err := tree.Functions()
	if err != nil {
		return err
	}
	showNetworkFunctions(c.App.Writer, tree, functions)
	return nil
}

// userDrivers are the kernel drivers that leave a function to a program.
var userDrivers = []string{pci.DriverVFIO, pci.DriverUIOGeneric, pci.DriverUIOIntel}

// showNetworkFunctions lists the network functions in three sections: with a
// driver that leaves them to programs, with another driver, with none.
// Sections without functions are left out.
func showNetworkFunctions(w io.Writer, tree pci.Tree, functions []pci.Function) {
	var user, kernel, other []string
	for _, f := range functions {
		if !f.IsNetwork() {
			continue
		}
		name := fmt.Sprintf("%s '%s %04x'", f.BDF, f.DeviceName, f.Device)
		unused := "unused=" + strings.Join(unusedDrivers(tree, f), ",")
		switch {
		case f.Driver == "":
			other = append(other, fmt.Sprintf("%s %s", name, unused))
		case slices.Contains(userDrivers, f.Driver):
			user = append(user, fmt.Sprintf("%s drv=%s %s", name, f.Driver, unused))
		default:
			line := fmt.Sprintf("%s if=%s drv=%s %s", name, strings.Join(f.Interfaces, ","), f.Driver, unused)
			if tree.InUse(f) != "" {
				line += " *Active*"
			}
			kernel = append(kernel, line)
		}
	}
	if len(user)+len(kernel)+len(other) == 0 {
		showSection(w, "No 'Network' devices detected", nil)
		return
	}
	for _, s := range []struct {
		title string
		lines []string
	}{
		{"Network devices using DPDK-compatible driver", user},
		{"Network devices using kernel driver", kernel},
		{"Other Network devices", other},
	} {
		if len(s.lines) > 0 {
			showSection(w, s.title, s.lines)
		}
	}
}

func showSection(w io.Writer, title string, lines []string) {
	fmt.Fprintf(w, "\n%s\n%s\n", title, strings.Repeat("=", len(title)))
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
}

// unusedDrivers lists the loaded drivers that could take f in place of the one
// it has.
func unusedDrivers(tree pci.Tree, f pci.Function) []string {
	candidates := userDrivers
	if f.IsVirtio() {
		candidates = append([]string{pci.DriverVirtio}, userDrivers...)
	}
	var unused []string
	for _, name := range candidates {
		if name != f.Driver && tree.HasDriver(name) {
			unused = append(unused, name)
		}
	}
	return unused
}
