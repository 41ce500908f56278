package server

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// loopbackPeer asks the kernel whose socket is at the other end of a connection
// through loopback, so that another user's program gets no further than connecting.
// Where the kernel does not say, the token alone decides. Root is not refused:
// forwarders between systems on one machine run as root, and it can do anything anyway.
func loopbackPeer(c *net.TCPConn) peer {
	here, hereOK := c.LocalAddr().(*net.TCPAddr)
	there, thereOK := c.RemoteAddr().(*net.TCPAddr)
	if !hereOK || !thereOK {
		return peer{}
	}
	uid, ok := socketOwner(there.AddrPort(), here.AddrPort())
	if !ok {
		return peer{}
	}
	p := peerOf(uid, 0, os.Geteuid())
	p.own = false // it says who, and that is no credential
	p.foreign = p.foreign && uid != 0
	return p
}

// The messages of sock_diag(7).
const (
	diagRequestBytes = unix.NLMSG_HDRLEN + 56
	diagAnswerBytes  = unix.NLMSG_HDRLEN + 72
	diagBound        = 200 * time.Millisecond
	sockDiagByFamily = 20
	uidAt, inodeAt   = unix.NLMSG_HDRLEN + 64, unix.NLMSG_HDRLEN + 68
)

// socketOwner is the user of the TCP socket that is bound to here and connected to there.
func socketOwner(here, there netip.AddrPort) (uid int, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	patience := unix.NsecToTimeval(diagBound.Nanoseconds())
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience) != nil {
		return 0, false
	}
	if unix.Sendto(fd, diagRequest(here, there), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return 0, false
	}
	answer := make([]byte, 4<<10)
	n, from, err := unix.Recvfrom(fd, answer, 0)
	if kernel, is := from.(*unix.SockaddrNetlink); err != nil || n < diagAnswerBytes || !is || kernel.Pid != 0 {
		return 0, false
	}
	order := binary.NativeEndian
	if order.Uint16(answer[4:]) != sockDiagByFamily || order.Uint32(answer[inodeAt:]) == 0 {
		return 0, false // an error, or a socket that is closed already and nobody's
	}
	return int(order.Uint32(answer[uidAt:])), true
}

func diagRequest(here, there netip.AddrPort) []byte {
	order := binary.NativeEndian
	m := make([]byte, diagRequestBytes)
	order.PutUint32(m[0:], diagRequestBytes)
	order.PutUint16(m[4:], sockDiagByFamily)
	order.PutUint16(m[6:], unix.NLM_F_REQUEST)
	body := m[unix.NLMSG_HDRLEN:]
	body[0], body[1] = unix.AF_INET6, unix.IPPROTO_TCP
	from, to := here.Addr().AsSlice(), there.Addr().AsSlice()
	if here.Addr().Unmap().Is4() {
		from, to = here.Addr().Unmap().AsSlice(), there.Addr().Unmap().AsSlice()
		body[0] = unix.AF_INET
	}
	order.PutUint32(body[4:], 0xffffffff) // in whatever state
	binary.BigEndian.PutUint16(body[8:], here.Port())
	binary.BigEndian.PutUint16(body[10:], there.Port())
	copy(body[12:28], from)
	copy(body[28:44], to)
	order.PutUint32(body[48:], 0xffffffff) // no cookie
	order.PutUint32(body[52:], 0xffffffff)
	return m
}
