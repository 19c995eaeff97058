/*
 * The running servers of this user, by their control sockets (policy/control-path.h), and connections to them.
 * What a server says may be anything: it parses what sandboxes send.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/control-path.h"

enum { SERVERS_MAX = 256, SERVER_ANSWER_MAX = 64 * 1024 * 1024 };

struct server {
        pid_t pid;
        char path[CONTROL_PATH_SIZE];
        yyjson_doc *answer; /* response to sessions/list, or NULL */
};

struct servers {
        struct server list[SERVERS_MAX];
        size_t n;
        char refused
                [CONTROL_DIRECTORY_SIZE]; /* a directory for sockets that is not ours alone; "": none */
};

/* only: a process id as text, or NULL. */
void servers_find(const char *only, struct servers *ret);
/* Asks each for its sessions; leaves out those that do not answer, and removes the sockets of killed ones. */
void servers_ask(struct servers *servers);
void servers_done(struct servers *servers);

/* The array of sessions in an answer, or NULL. */
yyjson_val *server_sessions(const struct server *server);

/* The one server that has the session. */
int servers_find_session(const struct servers *servers, const char *name, const struct server **ret,
                         struct error *err);

/* Accepts only characters that need no escaping in JSON. */
bool session_name_is_plain(const char *name);

int64_t json_number(yyjson_val *object, const char *key);
/* "" if there is none. */
const char *json_text(yyjson_val *object, const char *key);

/* A connection: requests one after another. */
struct server_link {
        int fd; /* -1: none */
        struct buffer in;
        int64_t id;
        char path[CONTROL_PATH_SIZE];
};

/* path: of a socket. -ECONNREFUSED: the server has ended. */
int server_link_open(struct server_link *ret, const char *path, struct error *err);
/* Opens a link to a server that must answer within 0.3 s. */
int server_link_open_quickly(struct server_link *ret, const char *path, struct error *err);
/* To the server that has the session; --server PID chooses among several. */
int server_link_open_session(struct server_link *ret, const char *name, const char *only,
                             struct error *err);
void server_link_close(struct server_link *link);

/* params: an object as text; NULL: an empty one. */
int server_link_send(struct server_link *link, const char *method, const struct buffer *params,
                     struct error *err);
/* params: an object as text, or NULL. */
int server_link_notify(struct server_link *link, const char *method, const struct buffer *params);

/* Takes a message that has arrived, without waiting. Returns 1, 0: there is none yet, or negative errno. */
int server_link_take(struct server_link *link, yyjson_doc **ret, struct error *err);
/* Reads what has arrived. -EPIPE: the server has ended the connection. */
int server_link_read(struct server_link *link, struct error *err);

/* The result in a message, or NULL and an error: -ENOENT no such session, -EBUSY, -EINVAL, else -EIO. */
yyjson_val *server_result(yyjson_doc *message, struct error *err);

/* Sends a request and waits for its answer. *ret is owned, *result is in it. */
int server_link_ask(struct server_link *link, const char *method, const struct buffer *params,
                    yyjson_doc **ret, yyjson_val **result, struct error *err);
