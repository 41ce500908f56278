//go:build !unix

package api

// nonBlock is nothing where no pipe can have the name of a file.
const nonBlock = 0
