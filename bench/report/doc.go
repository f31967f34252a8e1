// Package report is what a benchmark leaves: the data, and its form as text, as
// JSON and as Markdown. Package picture draws it.
//
// A [Report] has tables of three kinds. A [Table] compares two contestants cell by
// cell in one unit: packets a second, nanoseconds a packet, memory, time to the
// first packet. A [LatencyTable] has the distributions of how long frames were on
// their way. Each cell stands for itself: it knows where in the matrix it lies
// ([Coordinates]), what it has to reach ([Bar]), and why it was not measured, so that
// a run that was cut short is a report like any other.
//
// # The file
//
// [Report.WriteJSON] and [Read] are inverse to each other. The file is one JSON object
// whose keys are in the tags of the types here; what is zero is left out, except for
// measured values. Rates and costs are in the unit that their table names, times of a
// latency are whole nanoseconds, ratios are plain numbers. Format counts the changes
// that an older reader would misread; adding a key is none.
//
// Values of this package have no locks: one goroutine fills a report.
package report
