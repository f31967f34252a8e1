// Package virtio holds the numbers of the virtio specification that every
// other package needs: feature bits, device status, the network header and
// the network device's configuration space. It has no state and no policy.
package virtio
