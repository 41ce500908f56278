//go:build !linux

package hostfallback

func poorKernel() {}
