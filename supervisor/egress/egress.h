/*
 * The process that has the network, for sessions whose profile allows one (docs/network.md).
 *
 * Theory of operation. Hostile bytes of sandboxes and of the internet meet here and nowhere else. The process has no
 * secrets: it was forked before the broker had read the config. It has sockets of the internet families, and reads the
 * resolver's files; it can start and write nothing. For each session it gets a listener that the monitor has made in the
 * session's network namespace, a page with the policy, in which it counts, and a pipe whose end of file ends the session
 * (rpc/egress-messages.h). It says nothing to anybody but the peers of its connections.
 *
 * A connection reads the head of one request (request.h), which names a host and a port. Only if a rule names them
 * is the name looked up, once (resolver.h), and a connection made to one of the addresses that were found and may be
 * reached. After CONNECT bytes are relayed both ways, from the client only once it has sent a TLS ClientHello
 * for that host (request.h); else the request and its body go to the server (rpc/http/request.h) and the answer back.
 */
#pragma once

/* Returns when the broker has closed the socket. */
void egress_serve(int socket);
