"""A part of the probe (probe.py), which comes before it in the same script: what reaches out without the proxy of a profile that allows a network, and beside it.

EXPECTED["network"]: the rules of network.allow. Only the proxy reads the requests here. The one connection that it may make is to the
first host of network.allow that is not a pattern, and nothing is sent there.
"""

import socket

PROXY = ("127.0.0.1", 3128)
ELSEWHERE = "not-allowed.invalid"
# This machine, its networks and the clouds' metadata; and as other parsers write them.
INTERNAL = ("127.0.0.1", "[::1]", "0.0.0.0", "10.0.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]")
SPELLINGS = ("2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]")


def network():
    allow = EXPECTED["network"]
    for kind, address in ((socket.SOCK_STREAM, ("192.0.2.1", 443)), (socket.SOCK_STREAM, ("2001:db8::1", 443)), (socket.SOCK_DGRAM, ("192.0.2.1", 53)),
                          (socket.SOCK_STREAM, ("127.0.0.2", 3128)), (socket.SOCK_STREAM, ("::1", 3128)), *(() if allow else ((socket.SOCK_STREAM, PROXY),))):
        error = attempt(reach, kind, address)
        row(112, "network", f"a {'TCP' if kind == socket.SOCK_STREAM else 'UDP'} socket to {address[0]} port {address[1]}", "refused", name_of(error), error not in (0, None))
    error = attempt(socket.getaddrinfo, ELSEWHERE, 443)
    row(114, "network", "a name server", "none", "one answers" if error == 0 else "none", error != 0)
    if not allow:
        return
    for address in (PROXY[0], "0.0.0.0"):
        error = attempt(take_port, address)
        row(112, "network", f"bind to the proxy's port on {address}", "refused", name_of(error), error != 0)
    asked(114, f"CONNECT {ELSEWHERE}", connect(ELSEWHERE, 443))
    for number, hosts in ((112, INTERNAL), (113, SPELLINGS)):
        for host in hosts:
            if not named(allow, host, 443):
                asked(number, f"CONNECT {host}", connect(host, 443))
    host, port = next((one for rule in allow if (one := plain(rule))), (None, 0))
    if host is None:
        row(115, "network", "another name than that of CONNECT", "refused", "network.allow has no host without *", None)
        return
    other = next(n for n in range(1, 99) if not any(rule.endswith(f":{n}") for rule in allow) and n != 80)
    asked(112, f"CONNECT {host}:{other}", connect(host, other))
    asked(115, f"GET {host}, Host {ELSEWHERE}", f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {ELSEWHERE}\r\n\r\n")
    asked(115, f"CONNECT {host}, Host {ELSEWHERE}", connect(host, port, ELSEWHERE))
    found = answered(connect(host, port))[0]
    is_there = found == "200"
    row(112, "network", f"CONNECT {host}:{port}, the control", "200", found, is_there or None)
    for name in (ELSEWHERE, None):
        found = hello(connect(host, port), name) if is_there else "the control failed"
        row(115, "network", f"CONNECT {host}, TLS for {name or 'no name'}", "unrecognized_name", found, found == "unrecognized_name" if found[0] != "t" else None)


def reach(kind, address):
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, kind) as s:
        s.settimeout(3)
        s.connect(address)
        if kind == socket.SOCK_DGRAM:
            s.send(b"")


def take_port(address):
    with socket.socket() as s:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind((address, PROXY[1]))


def plain(rule):
    """The host and port of a rule for one name on a port that needs TLS, or of an address; else None."""
    host, _, port = rule.rpartition(":") if rule[-1] != "]" and rule.rpartition(":")[2].isdigit() else (rule, "", "443")
    return None if "*" in host or "/" in host or port == "80" else (host, int(port))


def named(allow, host, port):
    """Whether a rule names this address. A host that is not an address matches no such rule."""
    import ipaddress
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        nets = [ipaddress.ip_network(rule.rpartition(":")[0].replace("[", "").replace("]", ""), False) for rule in allow
                if rule.endswith(f":{port}") and (rule[0] == "[" or rule.rpartition(":")[0].replace(".", "").replace("/", "").isdigit())]
    except ValueError:
        return False
    return any(address in net for net in nets)


def connect(host, port, header=None):
    return f"CONNECT {host}:{port} HTTP/1.1\r\n" + (f"Host: {header}:{port}\r\n" if header else "") + "\r\n"


def answered(request, then=b""):
    """The status that the proxy answers, and what follows once these bytes were sent."""
    got = b""
    try:
        with socket.create_connection(PROXY, 10) as s:
            s.sendall(request.encode())
            while b"\r\n\r\n" not in got and (piece := s.recv(1)):
                got += piece
            if then and got[9:12] == b"200":
                s.sendall(then)
                return "200", s.recv(7)
    except OSError as e:
        return name_of(e.errno) if e.errno else "no answer", b""
    return got[9:12].decode("latin1") or "no answer", b""


def asked(number, item, request):
    found = answered(request)[0]
    row(number, "network", item, "400 or 403", found, found in ("400", "403") if found.isdigit() else None)


def hello(request, name):
    """What the answer to a ClientHello is. It is the proxy's if it is the alert 112."""
    try:
        import ssl
    except ImportError:
        return "this image has no ssl"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    to_send = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), to_send, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    status, got = answered(request, to_send.read())
    return "the connection failed" if status != "200" else "unrecognized_name" if got[5:7] == b"\x02\x70" else "passed on"


MORE = (network,)
