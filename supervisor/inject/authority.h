/*
 * The certificate authority of one process, in its memory only, and the contexts of TLS for both sides.
 *
 * Its certificate names the hosts of the settings as the only permitted names, and excludes all addresses. Its key signs nothing but
 * certificates of these hosts, each good for a day. The authority's own certificate is good for a year: sessions keep it while the
 * process lives.
 */
#pragma once

#include <openssl/ssl.h>

#include "supervisor/inject/settings.h"

struct authority;

/* certificates: a file with those that are trusted for servers, in PEM; borrowed. */
int authority_new(struct authority **ret, const struct inject_settings *settings, int certificates,
                  struct error *err);
/* The certificate as PEM. Returns 0 or negative errno. */
int authority_print(const struct authority *authority, char *to, size_t size);

/* For the client of a session that requests this host; for the server of that name. NULL: no memory. */
SSL *authority_accept(struct authority *authority, size_t host, int fd);
SSL *authority_connect(struct authority *authority, const char *host, int fd);
