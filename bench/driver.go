package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"vionet/bench/driveronly"
	"vionet/bench/report"
)

// Driver measures what front ends cost by themselves; see package driveronly. Without
// Cells it measures all of them.
func (s Settings) Driver(ctx context.Context) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	tables := s.driverTables()
	if len(tables) == 0 {
		return r, errNoCell
	}
	cores, err := thisMachine.cores()
	if err != nil {
		return r, err
	}
	// The back end runs where hosts do elsewhere.
	w := driveronly.Where{Vionet: s.Vionet, Back: cores[0], Front: cores[1], GHz: thisMachine.clockRate(), Plan: s.plan()}
	for _, t := range tables {
		if t.DPDK() {
			restore, err := dpdkRoom(1)
			defer restore()
			if err != nil {
				s.warn("%v", err)
			}
		}
		r.Tables = append(r.Tables, t.Measure(ctx, w, func(cell string) { s.tell(Progress{Cell: cell}) }, s.failed))
	}
	r.Interrupted = ctx.Err() != nil
	return r, unless(r.Measured())
}

// Start measures how long front ends take to their first packet, and what memory they
// have then.
func (s Settings) Start(ctx context.Context) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	cores, err := thisMachine.cores()
	if err != nil {
		return r, err
	}
	restore, err := dpdkRoom(1)
	defer restore()
	if err != nil {
		return r, err
	}
	start, memory, err := driveronly.StartTables(ctx, driveronly.Where{Vionet: s.Vionet, Back: cores[0], Front: cores[1], Plan: s.plan()})
	if err != nil {
		s.failed("start", err)
	}
	r.Tables = []report.Table{start, memory}
	r.Interrupted = ctx.Err() != nil
	return r, unless(r.Measured())
}

// driverTables are the tables with the cells that the settings select.
func (s Settings) driverTables() (tables []driveronly.Table) {
	for _, t := range driveronly.Tables() {
		if s.Cells != nil {
			t = t.Only(wholly(s.Cells).MatchString)
		}
		if len(t.Names()) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// ListDriver is the names of the cells that Driver would measure.
func (s Settings) ListDriver() (names []string) {
	for _, t := range s.driverTables() {
		names = append(names, t.Names()...)
	}
	return names
}

// dpdkRoom looks for DPDK, and reserves hugepages for that many of its processes.
func dpdkRoom(processes int) (restore func(), err error) {
	if err := findDPDK(); err != nil {
		return func() {}, err
	}
	_, restore, err = thisMachine.reserve(processes)
	return restore, err
}

// clockRate is the rate of the time-stamp counter in GHz, which the kernel gives as
// that of the processor; 0 if it does not.
func (m machine) clockRate() float64 {
	b, _ := os.ReadFile(filepath.Join(m.root, "proc/cpuinfo"))
	mhz, _ := strconv.ParseFloat(report.Field(string(b), "cpu MHz"), 64)
	return mhz / 1000
}
