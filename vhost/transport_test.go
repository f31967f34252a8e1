package vhost_test

import (
	"vionet/driver"
	"vionet/vhost"
)

var _ driver.Transport = (*vhost.Frontend)(nil)
