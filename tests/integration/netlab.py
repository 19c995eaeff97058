"""A network of two machines inside namespaces: the test's process and its children on one side, servers on the other.

enter() moves the process, which must have one thread, into new namespaces: user (if it is not root), network and
mounts. The other side has a public address, a name server, HTTP and TLS, and a table of names that a test changes.
"""

import ctypes
import json
import os
import socket
import ssl
import struct
import subprocess
import threading

FAR, NEAR = "93.184.216.34", "93.184.216.1"
PREFIX = "93.184.216"
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_CAP_AMBIENT, AMBIENT_RAISE, AMBIENT_CLEAR = 47, 2, 4
CAP_NET_ADMIN = 12
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def ip(*args):
    """Runs ip with CAP_NET_ADMIN in this user namespace, also where this process is not uid 0."""
    header = struct.pack("Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    check(libc.capget(header, data), "capget")
    effective, permitted, _, *high = struct.unpack("6I", data.raw)
    check(libc.capset(header, struct.pack("6I", effective, permitted, 1 << CAP_NET_ADMIN, high[0], high[1], 0)), "capset")
    check(libc.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0), "ambient")
    try:
        subprocess.run(["ip", *args], check=True, capture_output=True)
    finally:
        libc.prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR, 0, 0, 0)


class Lab:
    def __init__(self, folder):
        self.folder = folder
        self.table = os.path.join(folder, "names.json")
        self.log = os.path.join(folder, "far.log")
        self.clear()

    def clear(self):
        self.names({})
        write(self.log, "")

    def names(self, table):
        """Sets the table {name: [the addresses of the first answer], …}; the last answer is repeated."""
        with open(self.table + ".new", "w", encoding="ascii") as f:
            json.dump({"serial": os.urandom(8).hex(), "names": table}, f)
        os.rename(self.table + ".new", self.table)

    def seen(self, kind):
        """Returns what the other side received: "dns" names, "http" and "tls" requests."""
        with open(self.log, encoding="latin1") as f:
            return [line.split(" ", 1)[1].rstrip("\n") for line in f if line.startswith(kind + " ")]

    def enter(self):
        uid, gid = os.geteuid(), os.getegid()
        flags = CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if uid else 0)
        check(libc.unshare(flags), "unshare")
        if uid:
            write("/proc/self/setgroups", "deny")
            write("/proc/self/uid_map", f"{uid} {uid} 1")
            write("/proc/self/gid_map", f"{gid} {gid} 1")
        check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
        for name, text in (("resolv.conf", f"nameserver {FAR}\n"), ("hosts", "127.0.0.1 localhost\n10.9.9.9 inside.example\n"),
                           ("nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")):
            path = os.path.join(self.folder, name)
            write(path, text)
            check(libc.mount(os.fsencode(path), os.fsencode(os.path.realpath(f"/etc/{name}")), None, MS_BIND, None), name)
        self.start_far()

    def start_far(self):
        ready, go = os.pipe(), os.pipe()
        self.far = os.fork()
        if self.far == 0:
            try:
                check(libc.unshare(CLONE_NEWNET), "unshare")
                os.write(ready[1], b"1")
                os.read(go[0], 1)
                ip("addr", "add", f"{FAR}/24", "dev", "far")
                ip("link", "set", "far", "up")
                Far(self).run(ready[1])
            finally:
                os._exit(1)
        os.read(ready[0], 1)
        ip("link", "add", "name", "near", "type", "veth", "peer", "name", "far", "netns", str(self.far))
        ip("addr", "add", f"{NEAR}/24", "dev", "near")
        ip("link", "set", "near", "up")
        ip("link", "set", "lo", "up")
        os.write(go[1], b"1")
        os.read(ready[0], 1)
        for fd in ready + go:
            os.close(fd)


class Far:
    """The other machine."""

    def __init__(self, lab):
        self.lab = lab
        self.asked = {}
        self.log = os.open(lab.log, os.O_WRONLY | os.O_APPEND)

    def note(self, kind, text):
        os.write(self.log, f"{kind} {text}\n".encode("latin1"))

    def run(self, ready):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.lab.folder, "cert.pem"), os.path.join(self.lab.folder, "key.pem"))
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind((FAR, 53))
        for port, tls in ((80, None), (443, context), (8443, context), (5432, None)):
            listener = socket.create_server((FAR, port))
            threading.Thread(target=self.accept, args=(listener, tls), daemon=True).start()
        os.write(ready, b"1")
        while True:
            self.resolve(names, *names.recvfrom(512))

    def resolve(self, server, query, peer):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin1"))
            at += query[at] + 1
        name, (kind,) = ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])
        self.note("dns", f"{name} {kind}")
        with open(self.lab.table, encoding="ascii") as f:
            table = json.load(f)
        answers = table["names"].get(name, [])
        turn = self.asked.get((table["serial"], name, kind), 0)
        self.asked[table["serial"], name, kind] = turn + 1
        answer = answers[min(turn, len(answers) - 1)] if answers else []
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        found = [a for a in answer if (":" in a) == (kind == 28)] if kind in (1, 28) else []
        body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, size) + socket.inet_pton(family, a) for a in found)
        code = 0 if answers else 3
        server.sendto(query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0) + query[12:at + 5] + body, peer)

    def accept(self, listener, tls):
        while True:
            peer = listener.accept()[0]
            threading.Thread(target=self.serve, args=(peer, tls), daemon=True).start()

    def serve(self, peer, tls):
        peer.settimeout(10)
        port = peer.getsockname()[1]
        with peer:
            try:
                if tls:
                    peer = tls.wrap_socket(peer, server_side=True)
                data = peer.recv(65536)
                self.note("tls" if tls else "http", f"{port} {data[:60]!r}")
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            except OSError as e:
                self.note("error", f"{port} {e}")


def have_veth():
    """Returns whether the kernel lets this user create such a network."""
    pid = os.fork()
    if pid == 0:
        try:
            if libc.unshare(CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if os.geteuid() else 0)) == 0:
                ip("link", "add", "name", "near", "type", "veth", "peer", "name", "far")
                os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
