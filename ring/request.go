package ring

// AddRequest gives the device one chain whose last piece it writes; see Driver.
func (r *Split) AddRequest(pieces []Segment) (head uint16) {
	head = r.addChain(pieces)
	last := head
	for range len(pieces) - 1 {
		last = r.link[last]
	}
	r.areas.desc[last].Flags |= DescWrite
	return head
}

// AddRequest gives the device one chain whose last piece it writes; see Driver.
// The device does not look at the last descriptor before it is shown the first.
func (r *Packed) AddRequest(pieces []Segment) (head uint16) {
	head = r.addChain(pieces)
	last := r.next - 1
	if last < 0 {
		last = r.size - 1
	}
	r.areas.desc[last].Word |= uint32(DescWrite) << 16
	return head
}
