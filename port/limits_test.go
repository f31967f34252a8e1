package port

import (
	"errors"
	"testing"

	"vionet/mbuf"
)

func TestLimitsFit(t *testing.T) {
	l := Limits{RxQueues: 2, TxQueues: 3, RxOffloads: RxScatter, TxOffloads: TxMultiSegs, MinMTU: 68, MaxMTU: 9000}
	pool := new(mbuf.Pool)
	all := Config{RxQueues: 5, TxQueues: 5, RxOffloads: RxScatter | RxVLANStrip, TxOffloads: TxMultiSegs | TxTCPCksum, Pool: pool}
	where := all
	where.WhereAvailable = true
	for name, tt := range map[string]struct {
		in   Config
		rx   int
		tx   int
		want error
	}{
		"nothing asked for": {Config{Pool: pool}, 1, 1, nil},
		"the most":          {Config{RxQueues: 2, TxQueues: 3, RxOffloads: RxScatter, TxOffloads: TxMultiSegs, MTU: 9000, Pool: pool}, 2, 3, nil},
		"where available":   {where, 2, 3, nil},
		"receive queues":    {Config{RxQueues: 3, Pool: pool}, 0, 0, ErrInvalid},
		"transmit queues":   {Config{TxQueues: 4, Pool: pool}, 0, 0, ErrInvalid},
		"receive offload":   {Config{RxOffloads: RxVLANStrip, Pool: pool}, 0, 0, ErrNotSupported},
		"transmit offload":  {Config{TxOffloads: TxTCPCksum, Pool: pool}, 0, 0, ErrNotSupported},
		"MTU below":         {Config{MTU: 67, Pool: pool}, 0, 0, ErrInvalid},
		"MTU above":         {Config{MTU: 9001, Pool: pool}, 0, 0, ErrInvalid},
		"no pool":           {Config{}, 0, 0, ErrInvalid},
	} {
		got, err := l.Fit(tt.in)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if err != nil {
			continue
		}
		if got.RxQueues != tt.rx || got.TxQueues != tt.tx {
			t.Errorf("%s: %d and %d queues, want %d and %d", name, got.RxQueues, got.TxQueues, tt.rx, tt.tx)
		}
		if got.RxOffloads&^RxScatter != 0 || got.TxOffloads&^TxMultiSegs != 0 {
			t.Errorf("%s: offloads %v and %v", name, got.RxOffloads, got.TxOffloads)
		}
	}
}
