// Package load holds a brig that stays to what it promises under load, when it is
// killed, and towards clients that behave badly. It consists of tests, which start the
// program as a user does and ask it by its sockets and its port.
package load
