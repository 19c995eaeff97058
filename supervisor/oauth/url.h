/*
 * Which URLs and addresses cloister-oauth may contact. URLs come from documents of
 * untrusted servers: without these checks they could name services of this machine or of its network.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"

enum { OAUTH_URL_MAX = 2048 };

/* The addresses outside the public Internet that may be contacted. */
struct oauth_reach {
        bool loopback; /* 127.0.0.0/8 and ::1, also by http */
        bool private;  /* RFC 1918, RFC 4193, RFC 6598, and loopback by https */
};

/* The reach of a server whose config names this URL. */
struct oauth_reach oauth_reach_of(const char *url, bool private);

/*
 * Checks a URL: https, or http to a literal loopback host where the reach allows that; no user, no
 * fragment, printable ASCII, at most OAUTH_URL_MAX bytes. Returns 0 or -EINVAL. `what` begins the
 * message.
 */
int oauth_url_check(const char *url, const struct oauth_reach *reach, const char *what,
                    struct error *err);

/* Whether a connection to this address is allowed. */
bool oauth_address_allowed(const struct sockaddr *address, const struct oauth_reach *reach);

/* The first of the names, up to a NULL, that is a parameter of the URL's query, however it is written;
 * else NULL. */
const char *oauth_url_parameter(const char *url, const char *const *names);

/* Appends a URL for a person to copy: characters that a shell would not take literally inside quotes are
 * written as %XX. An error stays in the buffer, as below. */
void oauth_url_append_shown(const char *url, struct buffer *to);

/* "https://host:port" of a URL that was checked. Returns 0 or -EINVAL. */
int oauth_url_origin(const char *url, char *ret, size_t size);

/*
 * The places of a document, in the order in which they are tried. path: the URL's path is inserted
 * behind the suffix, appended: before it, or left out. Returns 0, or -EINVAL (too long).
 */
enum oauth_place { OAUTH_INSERTED, OAUTH_APPENDED, OAUTH_AT_ROOT };
int oauth_url_well_known(const char *url, const char *suffix, enum oauth_place place, char *ret,
                         size_t size);

/* Whether a URL has a path other than "/". */
bool oauth_url_has_path(const char *url);

/* Whether two URLs name the same resource: scheme, host, port and path, without a "/" at the end.
 * A query is compared as it is. */
bool oauth_url_same(const char *a, const char *b);

/* Whether `url` is `parent` or below its path, on the same origin and without a query of parent. */
bool oauth_url_below(const char *parent, const char *url);

/* Appends text, percent-encoded (application/x-www-form-urlencoded). */
void form_encode(struct buffer *to, const char *text);
/* Appends "name=value" with an "&" before it unless it is the first after `from` bytes. A value of ""
 * is left out. */
void form_add(struct buffer *to, size_t from, const char *name, const char *value);
/* Appends pairs of name and value in this way; the last name is NULL. */
void form_add_all(struct buffer *to, size_t from, const char *const (*pairs)[2]);

/* A name as a word of a shell's command line. */
const char *oauth_shell_word(const char *name, char *ret, size_t size);
