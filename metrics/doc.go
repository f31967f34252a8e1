// Package metrics shows ports to Prometheus.
//
// A Collector is a prometheus.Collector over any port.Port. It reads the counters
// that the queues keep anyway, at the moment of a scrape: nothing is added to the
// way of a packet, and workers go on meanwhile. Its metrics are:
//
//	vionet_port_info                      1; labels driver and mac
//	vionet_port_path_info                 1; labels direction and path: the burst functions of the last start
//	vionet_port_link_up                   1 or 0
//	vionet_port_missed_packets_total      frames that the device had no buffer for
//	vionet_queue_packets_total            packets received or sent
//	vionet_queue_bytes_total              bytes of their Ethernet frames
//	vionet_queue_dropped_packets_total    by reason: rx malformed or no_buffer, tx unsupported
//	vionet_queue_missing_buffers_total    buffers for reception that the pool could not give
//	vionet_queue_broken                   1 when the device broke a rule, which stops the queue; or 0
//	vionet_pool_buffers                   buffers of a pool
//	vionet_pool_used_buffers              those that are not in it: with devices, workers, and in caches
//	vionet_tx_buffer_flushes_total        bursts of a transmit buffer by reason: full, late, asked
//	vionet_tx_buffer_packets_total        packets that the queue behind it took
//	vionet_tx_buffer_dropped_packets_total  packets that it did not take
//	vionet_tx_buffer_retries_total        how often packets were offered again
//
// Metrics of ports have the labels port, a number, and device, a name; those of
// queues direction, rx or tx, and queue too; those of transmit buffers port and
// queue; those of pools pool. A counter starts from 0 again when somebody resets
// the port's, which Prometheus takes for a restart.
package metrics
