package metrics

import "github.com/prometheus/client_golang/prometheus"

// Labels that metrics have in common.
var (
	portLabels     = []string{"port", "device"}
	queueLabels    = []string{"port", "device", "direction", "queue"}
	poolLabels     = []string{"pool"}
	txBufferLabels = []string{"port", "queue"}
)

// describe makes a descriptor with further labels behind the common ones.
func describe(name, help string, common []string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("vionet_"+name, help, append(common[:len(common):len(common)], more...), nil)
}

var (
	portInfo   = describe("port_info", "What the port is; always 1.", portLabels, "driver", "mac")
	portPath   = describe("port_path_info", "Burst functions that the last start of the port chose; always 1.", portLabels, "direction", "path")
	portLink   = describe("port_link_up", "Whether the port's link is up.", portLabels)
	portMissed = describe("port_missed_packets_total", "Frames that the device had no buffer for, where it tells.", portLabels)

	queuePackets = describe("queue_packets_total", "Packets received or sent.", queueLabels)
	queueBytes   = describe("queue_bytes_total", "Bytes of the Ethernet frames received or sent, without the frame check sequence.", queueLabels)
	queueDropped = describe("queue_dropped_packets_total", "Packets dropped because their header was broken (malformed), because there was no buffer (no_buffer), or because they asked for what the port has not (unsupported).", queueLabels, "reason")
	queueMissing = describe("queue_missing_buffers_total", "Buffers for reception that the pool could not give.", queueLabels)
	queueBroken  = describe("queue_broken", "Whether the queue has stopped because the device broke a rule.", queueLabels)

	poolBuffers = describe("pool_buffers", "Buffers that belong to the pool.", poolLabels)
	poolUsed    = describe("pool_used_buffers", "Buffers that are not in the pool: with devices and workers, and in their caches.", poolLabels)

	txBufferFlushes = describe("tx_buffer_flushes_total", "Bursts that the transmit buffer sent, because it was full, because packets had waited long enough (late), or by wish (asked).", txBufferLabels, "reason")
	txBufferPackets = describe("tx_buffer_packets_total", "Packets of the transmit buffer that the queue took.", txBufferLabels)
	txBufferDropped = describe("tx_buffer_dropped_packets_total", "Packets of the transmit buffer that the queue did not take.", txBufferLabels)
	txBufferRetries = describe("tx_buffer_retries_total", "How often the transmit buffer offered packets again.", txBufferLabels)
)

// descriptors are all of them.
var descriptors = []*prometheus.Desc{
	portInfo, portPath, portLink, portMissed,
	queuePackets, queueBytes, queueDropped, queueMissing, queueBroken,
	poolBuffers, poolUsed,
	txBufferFlushes, txBufferPackets, txBufferDropped, txBufferRetries,
}
