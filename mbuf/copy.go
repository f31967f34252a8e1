package mbuf

// Copy gives a copy of the packet b, with what is known about it, in buffers of
// the cache's pool, or nil when these are short. b stays the caller's.
func (c *Cache) Copy(b *Buf) *Buf {
	room := c.pool.BufSize() - Headroom
	var head, last *Buf
	src, at := b, 0
	for rest := b.PacketLen(); rest > 0 || head == nil; {
		var one [1]*Buf
		if c.Get(one[:]) == 0 {
			c.putChain(head)
			return nil
		}
		seg := one[0]
		dst := seg.Renew(min(rest, room))
		rest -= len(dst)
		for len(dst) > 0 {
			n := copy(dst, src.Bytes()[at:])
			dst = dst[n:]
			if at += n; at == src.Len() {
				src, at = src.next, 0
			}
		}
		if head == nil {
			head = seg
		} else {
			head.Link(last, seg)
		}
		last = seg
	}
	head.Flags, head.VLAN, head.SegSize = b.Flags, b.VLAN, b.SegSize
	head.L2Len, head.L3Len, head.L4Len = b.L2Len, b.L3Len, b.L4Len
	head.Port, head.Hash = b.Port, b.Hash
	head.CSumStart, head.CSumOffset = b.CSumStart, b.CSumOffset
	return head
}
