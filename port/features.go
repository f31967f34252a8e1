package port

// FeatureLister is a Port whose device has features in the sense of virtio 1.2,
// section 2.2.
type FeatureLister interface {
	// Features gives the names of the features that the device offers, those
	// that the configuration asks for, and those that the last Start
	// negotiated, each list in the order of their bits.
	Features() (offered, asked, negotiated []string)
}
