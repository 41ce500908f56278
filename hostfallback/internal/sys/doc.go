// Package sys holds the raw system calls and constants that hostfallback needs
// and that neither the standard library nor golang.org/x/sys offers. It decides
// nothing: each function is one call, on the calling thread, and returns its errno.
package sys
