package vhost

// maxMemSlots is the number of memory regions that a front end can add one by
// one.
const maxMemSlots = 64

// handleMemory does what m says about the front end's memory. Rings that run
// are held for the time, and go on where they were; see startReady.
func (s *session) handleMemory(m message, fds []int) (err error) {
	var mem *guestMemory
	switch m.request {
	case setMemTable:
		mem, err = mapGuest(m.table, fds)
	case addMemReg:
		mem, err = s.mem.with(m.table[0], fds[0])
	case remMemReg:
		mem, err = s.mem.without(m.table[0])
	}
	if err != nil {
		return err
	}
	for i := range s.rings {
		s.rings[i].pause()
	}
	s.mem.unmapUnless(mem)
	mem.iotlb = s.iotlb
	s.mem = mem
	return nil
}
