/*
 * Access to one server that is reached by HTTP.
 *
 * The broker has neither the user's variables nor files, and no way to run programs. For each server
 * with a url the monitor therefore starts cloister-access, as it starts a stdio server: as the same
 * user, with pipes to the broker, ended with the connection. The monitor passes the expanded entry in
 * the variable CLOISTER_ACCESS:
 *
 *     {"name", "url", "headers"?: ["NAME: value"…], "token_file"?: PATH, "token_command"?: [PROGRAM…]}
 *
 * Standard output has one line at the start, and one for each line on standard input:
 *
 *     {"url": URL, "headers": ["NAME: value"…], "token"?: TOKEN}   or   {"error": TEXT}
 *
 * A line on standard input says that the server refused a request, and asks for another token:
 *
 *     {"status": 401 | 403, "challenge": what WWW-Authenticate said, or "", "tokens": N}
 *
 * tokens: how many lines with a token had come when the request was sent. If there are more, the answer is
 * the last one. The challenge comes from the server: it is untrusted. Everything ends with standard input.
 *
 * The token of a login is renewed ahead of its end: a line with "renewed": true, which answers nothing, has
 * the new one. An attempt that fails is repeated, less and less often; then the token is renewed when it is
 * refused.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "supervisor/access/command.h"

enum { ACCESS_LINE_MAX = 64 * 1024 /* of standard input */ };

struct access {
        yyjson_doc *doc; /* the entry */
        const char *name, *url;
        char token[ACCESS_TOKEN_MAX + 1]; /* the last one; "": none */
        int64_t renew_s;  /* until it is to be renewed; -1: that is not known, or not possible */
        int64_t n_tokens; /* that were answered */
};

/* The response of the server to the last request. */
struct access_refusal {
        int status;
        const char *challenge;
};

/* Reads CLOISTER_ACCESS and removes it from the environment. */
int access_init(struct access *a, struct error *err);
void access_done(struct access *a);

/* Appends the answer, as one line. is_renewed: it answers no request. */
int access_append_answer(struct access *a, bool is_renewed, struct buffer *to);

/* Finds a token, another one if the last was refused (refusal: NULL at the start). Returns 1, 0 when no
 * token is needed, or negative errno with what to do as text. */
int access_find_token(struct access *a, const struct access_refusal *refusal, struct error *err);
