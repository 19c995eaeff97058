/*
 * The checks of balancers and of those who watch the server: open to every client, and without numbers, because an exact count would be a
 * channel between principals.
 *
 *     /livez        200 "live": the loops of broker and monitor turn; 503 "stuck"
 *     /readyz       200 "ready"; 404 "draining"; 503 "starting": no sandbox was made so far; 503 "no-sandbox": none can be made
 *     /readyz?new   also 503 "full": a new session would be refused. A full server is ready otherwise, since its sessions are reached by it
 *
 *     /readyz?lease also renews the lease of a node (supervisor/service/lease.h); 403 if the client is not one of its balancers
 *
 * The body is {"status": …, "node"?: …}.
 */
#pragma once

struct http_connection;

void http_on_livez(struct http_connection *connection);
void http_on_readyz(struct http_connection *connection);
