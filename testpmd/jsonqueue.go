package testpmd

import (
	"encoding/hex"
	"math/bits"
	"strings"

	"vionet/port"
)

// thresholdsJSON are the thresholds of queues.
type thresholdsJSON struct {
	Prefetch  int `json:"prefetch"`
	Host      int `json:"host"`
	WriteBack int `json:"writeback"`
	Free      int `json:"free"`
	RS        int `json:"rs"`
}

func (t Thresholds) json() thresholdsJSON {
	return thresholdsJSON{t.Prefetch, t.Host, t.WriteBack, t.Free, t.RS}
}

// queueJSON is what "show (rxq|txq) info" shows.
type queueJSON struct {
	PortID        int            `json:"port_id"`
	QueueID       int            `json:"queue_id"`
	State         string         `json:"state"`
	DeferredStart bool           `json:"deferred_start"`
	Descriptors   int            `json:"descriptors"`
	BurstMode     string         `json:"burst_mode"` // "" before the first start
	Thresholds    thresholdsJSON `json:"thresholds"`
	*rxQueueJSON
}

// rxQueueJSON is what receive queues have beside.
type rxQueueJSON struct {
	Mempool    string `json:"mempool"`
	Drop       bool   `json:"drop_packets"`
	Scattered  bool   `json:"scattered_packets"`
	BufferSize int    `json:"buffer_size"`
}

func (c *Console) rxQueueJSON(a args) any {
	p, q := c.shownQueue(a)
	if p == nil {
		return nil
	}
	state := p.rxQueues[q]
	return queueJSON{
		PortID: p.id, QueueID: q, State: p.queueState("rxq", q), DeferredStart: state.deferred,
		Descriptors: p.descriptors(p.Info().RxDesc, state, c.Options.RxDesc), BurstMode: p.burstMode(p.Paths().Rx),
		Thresholds: c.Options.RxThresholds.json(),
		rxQueueJSON: &rxQueueJSON{
			Mempool: c.Pool.Name(), Drop: c.Options.DropEnable,
			Scattered: p.rxQueueOffloads[q]&port.RxScatter != 0, BufferSize: TxRoom(c.Pool),
		},
	}
}

func (c *Console) txQueueJSON(a args) any {
	p, q := c.shownQueue(a)
	if p == nil {
		return nil
	}
	state := p.txQueues[q]
	v := queueJSON{
		PortID: p.id, QueueID: q, State: p.queueState("txq", q), DeferredStart: state.deferred,
		Descriptors: p.descriptors(p.Info().TxDesc, state, c.Options.TxDesc), BurstMode: p.burstMode(p.Paths().Tx),
		Thresholds: c.Options.TxThresholds.json(),
	}
	if v.Thresholds.Free == 0 {
		v.Thresholds.Free = v.Descriptors / 4
	}
	return v
}

// burstMode is the name of a burst function of a started port.
func (p *portState) burstMode(path port.Path) string {
	if !p.started || path.Name == "" {
		return ""
	}
	return burstMode(path.Name)
}

// hashJSON is what "show port N rss-hash" shows.
type hashJSON struct {
	PortID int      `json:"port_id"`
	Types  []string `json:"types"`
	Key    string   `json:"key,omitempty"` // in hexadecimal
}

func (c *Console) hashJSON(a args) any {
	p := c.portOf(a, 2)
	if p == nil {
		return nil
	}
	s, limits := p.rss()
	if s == nil || limits.MaxKey == 0 {
		c.errorf(noHashKey)
		return nil
	}
	r, err := s.RSS()
	if err != nil {
		c.rssAnswer(err)
		return nil
	}
	v := hashJSON{PortID: p.id, Types: words(r.Types.String())}
	if a[len(a)-2] == "key" {
		v.Key = strings.ToUpper(hex.EncodeToString(r.Key))
	}
	return v
}

// tableJSON is what "show port N rss reta" shows.
type tableJSON struct {
	PortID  int         `json:"port_id"`
	Entries []entryJSON `json:"entries"`
}

type entryJSON struct {
	HashIndex int    `json:"hash_index"`
	Queue     uint16 `json:"queue"`
}

func (c *Console) tableJSON(a args) any {
	p, table, masks := c.shownTable(a)
	if p == nil {
		return nil
	}
	v := tableJSON{p.id, []entryJSON{}}
	for i, mask := range masks {
		for ; mask != 0; mask &= mask - 1 {
			if at := 64*i + bits.TrailingZeros64(mask); at < len(table) {
				v.Entries = append(v.Entries, entryJSON{at, table[at]})
			}
		}
	}
	return v
}
