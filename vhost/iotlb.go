package vhost

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Behind an IOMMU (ACCESS_PLATFORM) the driver's addresses mean what the front
// end says they mean: it sends translations to addresses of its own process, and
// takes them back. What is missing is asked for over the socket of BACKEND_REQ.

// access is what may be done with memory.
type access uint8

// The numbers of the protocol.
const (
	mayRead  access = 1
	mayWrite access = 2
)

// Kinds of an iotlbMessage.
const (
	iotlbMiss       = 1
	iotlbUpdate     = 2
	iotlbInvalidate = 3
)

// Bounds of an iotlb.
const (
	maxTranslations = 2048
	maxAsked        = 64
	askAgain        = time.Second // after a question without an answer
	iotlbPage       = 4096        // bytes that one question is about
)

// iotlbMessage is the body of messages about translations, both ways: size bytes
// from the device address iova on are the front end's from user on.
type iotlbMessage struct {
	iova, size, user uint64
	access           access
	kind             uint8
}

func (m *iotlbMessage) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.iova)
	b = binary.LittleEndian.AppendUint64(b, m.size)
	b = binary.LittleEndian.AppendUint64(b, m.user)
	return append(b, byte(m.access), m.kind, 0, 0, 0, 0, 0, 0)
}

// decodeIOTLB reads a body of iotlbSize bytes.
func decodeIOTLB(b []byte) iotlbMessage {
	return iotlbMessage{
		iova: binary.LittleEndian.Uint64(b), size: binary.LittleEndian.Uint64(b[8:]),
		user: binary.LittleEndian.Uint64(b[16:]), access: access(b[24]), kind: b[25],
	}
}

// What hinders a translation.
var (
	errMissed    = errors.New("its translation is not known yet")
	errForbidden = errors.New("the IOMMU forbids the access")
)

// iotlb holds translations. Any goroutine may look one up. They come at any time,
// and go only while no burst is under way: what a burst has looked up stays valid
// until it ends.
type iotlb struct {
	mu      sync.RWMutex
	entries []translation        // by address; no two overlap
	age     uint64               // of the next one
	asked   map[uint64]time.Time // pages that the front end has been asked for

	questions chan iotlbMessage
	asking    sync.WaitGroup
}

// translation says where the device addresses from first to last lie in the
// front end's process: from user on.
type translation struct {
	first, last, user uint64
	access            access
	age               uint64
}

// newIOTLB calls ask, on a goroutine of its own, for what is missing; ask may
// wait.
func newIOTLB(ask func(iotlbMessage)) *iotlb {
	t := &iotlb{asked: map[uint64]time.Time{}, questions: make(chan iotlbMessage, maxAsked)}
	t.asking.Go(func() {
		for q := range t.questions {
			ask(q)
		}
	})
	return t
}

// close ends the goroutine. Nobody may look anything up any more. A call on nil
// does nothing.
func (t *iotlb) close() {
	if t != nil {
		close(t.questions)
		t.asking.Wait()
	}
}

// translate finds the n bytes, at least 1, from a device address on: run of them
// lie in one piece at an address of the front end's process. The error is
// errMissed, when the front end has been asked, or errForbidden.
func (t *iotlb) translate(iova, n uint64, want access) (user, run uint64, err error) {
	user, run, err = t.lookUp(iova, n, want)
	if errors.Is(err, errMissed) {
		t.ask(iova&^(iotlbPage-1), want)
	}
	return user, run, err
}

func (t *iotlb) lookUp(iova, n uint64, want access) (user, run uint64, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rest := t.entries[t.search(iova):]
	if len(rest) == 0 || rest[0].first > iova {
		return 0, 0, errMissed
	}
	user = rest[0].user + (iova - rest[0].first)
	for i, e := range rest {
		if e.access&want != want {
			if i == 0 {
				return 0, 0, errForbidden
			}
			break
		}
		if last := iova + (n - 1); last >= iova && last <= e.last {
			return user, n, nil
		}
		run = e.last - iova + 1
		if i+1 == len(rest) || rest[i+1].first != e.last+1 || rest[i+1].user != user+run {
			break
		}
	}
	return user, run, nil
}

// search is the place of the first translation that does not end before iova.
func (t *iotlb) search(iova uint64) int {
	i, _ := slices.BinarySearchFunc(t.entries, iova, func(e translation, iova uint64) int {
		return cmp.Compare(e.last, iova)
	})
	return i
}

// ask asks for a page, unless it was asked for just now.
func (t *iotlb) ask(page uint64, want access) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	recently := func(since time.Time) bool { return now.Sub(since) < askAgain }
	if since, ok := t.asked[page]; ok && recently(since) {
		return
	}
	maps.DeleteFunc(t.asked, func(_ uint64, since time.Time) bool { return !recently(since) })
	if len(t.asked) == maxAsked {
		return
	}
	select {
	case t.questions <- iotlbMessage{iova: page, access: want, kind: iotlbMiss}:
		t.asked[page] = now
	default: // the front end is slow to take them
	}
}

// fits reports whether e can be added with nothing taken away. Only the
// goroutine that changes the translations calls it, and knows.
func (t *iotlb) fits(e translation) bool {
	i := t.search(e.first)
	return len(t.entries) < maxTranslations && (i == len(t.entries) || t.entries[i].first > e.last)
}

// knows reports whether nothing is new about e.
func (t *iotlb) knows(e translation) bool {
	i := t.search(e.first)
	if i == len(t.entries) {
		return false
	}
	o := t.entries[i]
	return o.first <= e.first && e.last <= o.last && e.user-o.user == e.first-o.first && e.access == o.access
}

// add adds a translation that is known or fits, and takes it for an answer.
func (t *iotlb) add(e translation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.knows(e) {
		e.age = t.age
		t.age++
		t.entries = slices.Insert(t.entries, t.search(e.first), e)
	}
	maps.DeleteFunc(t.asked, func(page uint64, _ time.Time) bool {
		return e.first <= page+iotlbPage-1 && page <= e.last
	})
}

// remove takes every translation away that has an address from first to last.
func (t *iotlb) remove(first, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = slices.DeleteFunc(t.entries, func(e translation) bool {
		return e.first <= last && first <= e.last
	})
}

// thin takes the oldest quarter away once all room is used.
func (t *iotlb) thin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.entries) < maxTranslations {
		return
	}
	var ages []uint64
	for _, e := range t.entries {
		ages = append(ages, e.age)
	}
	slices.Sort(ages)
	t.entries = slices.DeleteFunc(t.entries, func(e translation) bool { return e.age < ages[len(ages)/4] })
}

// translation is what an update says.
func (m *iotlbMessage) translation() (translation, error) {
	e := translation{first: m.iova, last: m.iova + (m.size - 1), user: m.user, access: m.access}
	if m.size == 0 || e.last < e.first || m.user > math.MaxUint64-(m.size-1) {
		return e, fmt.Errorf("a translation of %d bytes at device address %#x: the range is empty or wraps", m.size, m.iova)
	}
	if m.access == 0 || m.access&^(mayRead|mayWrite) != 0 {
		return e, fmt.Errorf("a translation for access %d: must be 1 to 3", m.access)
	}
	return e, nil
}
