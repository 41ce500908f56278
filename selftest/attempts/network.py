"""Attempts at the network. Every one that can goes for a listener of brig's and waits for its answer."""

MESSAGE = 64


def message(name):
    return ("brig-selftest %s %s\n" % (T["token"], name)).encode()


def machine(kind):
    """A listener on an address of this machine's, and else one on its loopback, which the step then says."""
    there = T.get("machine_" + kind)
    if there:
        return there[0], "connect"
    if not T.get(kind + "4"):
        raise Missed("absent", "brig has no listener here")
    return T[kind + "4"], "connect-loopback"


def given(name):
    if not T.get(name):
        raise Missed("absent", "brig has no listener here")
    return T[name]


def answered(s, how):
    """Waits for the listener's answer: what was only sent may have been dropped on the way."""
    step(how.replace("connect", "answer"))
    s.settimeout(0.5)
    try:
        got = s.recv(MESSAGE)
    except socket.timeout:
        raise Missed("unanswered", "it was sent, and no answer came")
    if not got.startswith(b"ok"):
        raise Missed("other-answer", repr(got))
    return "answered"


def talk(s, where, name, how="connect"):
    """Connects and says the token. What the kernel refuses at once has another step than what came back, which a
    firewall may have sent as well."""
    step(how)
    s.setblocking(False)
    try:
        s.connect(tuple(where) if isinstance(where, list) else where)
    except BlockingIOError as e:
        if e.errno not in (errno.EINPROGRESS, getattr(errno, "WSAEWOULDBLOCK", errno.EINPROGRESS)):
            raise
        step(how.replace("connect", "reply"))
        # One system tells of a refusal by the third list alone.
        if not any(select.select([], [s], [s], 0.5)[1:]):
            raise Missed("unanswered", "nothing answered the connection")
        late = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if late:
            raise OSError(late, os.strerror(late))
    s.settimeout(0.5)
    step(how.replace("connect", "send"))
    s.sendall(message(name))
    return answered(s, how)


def inet(family, kind, where, name, how="connect", protocol=0):
    step("socket")
    return talk(socket.socket(family, kind, protocol), where, name, how)


def sets_out(family, where):
    """Whether the kernel takes a connection to somewhere else on its way. It is given up at once: nothing is said."""
    step("socket")
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setblocking(False)
    step("connect")
    try:
        s.connect(where)
    except BlockingIOError:
        return "the kernel sent the first packet"
    finally:
        s.close()
    return "connected"


@attempt("net-tcp")
def net_tcp():
    where, how = machine("tcp")
    return inet(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_STREAM, where, "net-tcp", how)


@attempt("net-udp")
def net_udp():
    where, how = machine("udp")
    return inet(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_DGRAM, where, "net-udp", how)


@attempt("net-dns")
def net_dns():
    # A question as a resolver gets it, for a name that carries the token. Only brig's listener is asked.
    where, how = machine("udp")
    step("socket")
    s = socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_DGRAM)
    step(how)
    s.connect(tuple(where))
    label = message("net-dns")[:63]
    step(how.replace("connect", "send"))
    s.send(struct.pack(">HHHHHH", 0x6272, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\x07invalid\0" + struct.pack(">HH", 16, 1))
    return answered(s, how)


@attempt("net-mptcp")
def net_mptcp():
    where, how = machine("tcp")
    return inet(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_STREAM, where, "net-mptcp", how, 262)


@attempt("net-fastopen")
def net_fastopen():
    where, how = machine("tcp")
    step("socket")
    s = socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_STREAM)
    step(how)  # connects and sends in one call, and waits for that
    s.sendto(message("net-fastopen"), 0x20000000, tuple(where))
    return answered(s, how)


@attempt("net-high-bits")
def net_high_bits():
    # The kernel reads 32 bits of the domain; a filter that compares 64 would be passed.
    where, how = machine("tcp")
    domain = 10 if ":" in where[0] else 2
    step("socket")
    fd = syscall(41, 198, 0xDEAD00000000 | domain, 1, 0)
    return talk(socket.socket(fileno=fd), where, "net-high-bits", how)


@attempt("net-metadata")
def net_metadata():
    return sets_out(socket.AF_INET, ("169.254.169.254", 80))


@attempt("net-test-net")
def net_test_net():
    return sets_out(socket.AF_INET, ("192.0.2.1", 443))


@attempt("net-ipv6")
def net_ipv6():
    return sets_out(socket.AF_INET6, ("2001:db8::1", 443))


@attempt("net-loopback-tcp")
def net_loopback_tcp():
    return inet(socket.AF_INET, socket.SOCK_STREAM, given("tcp4"), "net-loopback-tcp", "connect-loopback")


@attempt("net-loopback-udp")
def net_loopback_udp():
    return inet(socket.AF_INET, socket.SOCK_DGRAM, given("udp4"), "net-loopback-udp", "connect-loopback")


@attempt("net-loopback-tcp6")
def net_loopback_tcp6():
    return inet(socket.AF_INET6, socket.SOCK_STREAM, given("tcp6"), "net-loopback-tcp6", "connect-loopback")


@attempt("net-loopback-udp6")
def net_loopback_udp6():
    return inet(socket.AF_INET6, socket.SOCK_DGRAM, given("udp6"), "net-loopback-udp6", "connect-loopback")


@attempt("net-loopback-own")
def net_loopback_own():
    step("socket")
    server, client = socket.socket(socket.AF_INET, socket.SOCK_STREAM), socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    step("bind")
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    step("own")
    client.settimeout(0.3)
    client.connect(server.getsockname())
    server.settimeout(0.3)
    other = server.accept()[0]
    step("own-answer")
    other.sendall(b"x")
    if client.recv(1) != b"x":
        raise Missed("silent", "its own server does not answer it")
    return inet(socket.AF_INET, socket.SOCK_STREAM, given("tcp4"), "net-loopback-own", "connect-loopback")


@attempt("net-brig-running")
def net_brig_running():
    # A page that needs no credential. What listens is brig's: whoever else took its place gets a harmless question.
    host, port = T["running"]["port"] or given("tcp4")
    step("socket")
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(0.5)
    step("connect-loopback")
    s.connect((host, port))
    step("answer-loopback")
    s.sendall(b"GET /healthz HTTP/1.0\r\nHost: %s:%d\r\n\r\n" % (host.encode(), port))
    got = s.recv(MESSAGE)
    if not got:
        raise Missed("unanswered", "it was connected, and closed without an answer")
    return got.split(b"\r")[0].decode("ascii", "replace")


def as_holder(function):
    """Opens it, and where only a privilege is missing, again as the root of own namespaces, which a person may be."""
    try:
        return function()
    except PermissionError as e:
        if e.errno != errno.EPERM:
            raise
    own_namespaces()
    return function()


@attempt("net-raw")
def net_raw():
    def opens():
        step("socket")
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return as_holder(opens)


@attempt("net-packet")
def net_packet():
    def opens():
        step("socket")
        os.close(syscall(41, 198, 17, 3, 0))
    return as_holder(opens)


@attempt("net-netlink")
def net_netlink():
    # Not of the kind that asks for routes and addresses, which a resolver does.
    step("socket")
    os.close(syscall(41, 198, 16, 3, 4))  # NETLINK_SOCK_DIAG


@attempt("net-vsock")
def net_vsock():
    # To the machine that this one may be a guest of. Opened only.
    step("socket")
    os.close(syscall(41, 198, 40, 1, 0))


@attempt("net-alg")
def net_alg():
    step("socket")
    os.close(syscall(41, 198, 38, 5, 0))


@attempt("net-families")
def net_families():
    def opens():
        last = None
        # Of keys, X.25, AppleTalk, ISDN, RDS, PPP, LLC, CAN, TIPC, Bluetooth, RxRPC, telephones, IEEE 802.15.4, NFC, KCM, SMC, XDP.
        for family, kind in ((15, 3), (9, 5), (5, 2), (34, 3), (21, 5), (24, 1), (26, 1), (29, 3), (30, 5), (31, 3), (33, 2), (35, 2), (36, 2), (39, 3), (41, 5), (43, 1), (44, 3)):
            step("socket")
            try:
                os.close(syscall(41, 198, family, kind, 2 if family == 15 else 0))
                return "family %d" % family
            except OSError as e:
                # The kernel says of most that it has none of them; what else it says weighs more.
                if last is None or last.errno == errno.EAFNOSUPPORT or e.errno == errno.EPERM:
                    last = e
        raise last
    return as_holder(opens)
