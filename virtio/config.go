package virtio

// Offsets in bytes of the fields of the network device's configuration space
// (section 5.1.4). Each field exists only under the feature named beside it.
const (
	ConfigMAC         = 0  // [6]byte, MAC
	ConfigStatus      = 6  // u16, STATUS
	ConfigMaxPairs    = 8  // u16, MQ or RSS
	ConfigMTU         = 10 // u16, MTU
	ConfigSpeed       = 12 // u32, SPEED_DUPLEX; Mb/s
	ConfigDuplex      = 16 // u8, SPEED_DUPLEX
	ConfigRSSKeyMax   = 17 // u8, RSS or HASH_REPORT
	ConfigRSSTableMax = 18 // u16, RSS
	ConfigHashTypes   = 20 // u32, RSS or HASH_REPORT
)

// Bits of the status field of the configuration space.
const (
	NetStatusLinkUp   uint16 = 1
	NetStatusAnnounce uint16 = 2
)

// MinMTU is the smallest MTU that a driver may accept from a device (section
// 5.1.4.2); a device that reports less is driven without the MTU feature.
const MinMTU = 68

// RxQueue and TxQueue give the virtqueue number of the receive and transmit
// queue of a pair (section 5.1.2).
func RxQueue(pair int) int { return 2 * pair }

// TxQueue gives the virtqueue number of a pair's transmit queue.
func TxQueue(pair int) int { return 2*pair + 1 }
