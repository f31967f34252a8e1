package main

import "context"

func (s settings) latencies(ctx context.Context) error { return nil }
