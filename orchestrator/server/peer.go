package server

// peer is what the system says about the other end of a connection.
type peer struct {
	uidKnown bool
	uid      int
	pid      int  // 0: not known
	own      bool // it is known to be this user's
	foreign  bool // it is known to be somebody else's
}

func peerOf(uid, pid, own int) peer {
	return peer{uidKnown: true, uid: uid, pid: pid, own: uid == own, foreign: uid != own}
}
