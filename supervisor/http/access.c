/* Tokens, hosts and origins. */
#include "supervisor/http/access.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/unguessable.h"
#include "policy/image.h"
#include "policy/quantity.h"

static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};

void access_init(struct access *access, const char *profile)
{
        *access = (struct access){.everybody = {.profile = profile, .calls_max = ACCESS_CALLS}};
}

void access_done(struct access *access)
{
        for (size_t i = 0; i < access->n_tokens; i++) {
                mcp_principal_done(&access->tokens[i]->principal);
                explicit_bzero(access->tokens[i]->token, sizeof(access->tokens[i]->token));
                free(access->tokens[i]);
        }
        for (size_t i = 0; i < access->n_users; i++) {
                mcp_principal_done(&access->users[i]->principal);
                free(access->users[i]);
        }
        mcp_principal_done(&access->everybody);
        *access = (struct access){};
}

/* RFC 6750, section 2.1. */
static bool is_token(const char *text)
{
        size_t n = strlen(text);
        size_t plain = strspn(
                text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/");

        return n >= ACCESS_TOKEN_MIN && n <= ACCESS_TOKEN_MAX && plain > 0 &&
               strspn(text + plain, "=") == n - plain;
}

static int take_number(const char *text, size_t *ret)
{
        if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 5 || atoi(text) < 1)
                return -EINVAL;
        *ret = (size_t)atoi(text);
        return 0;
}

enum { CPU_MIN_MILLI = 10 }; /* as of "cpu_total" */

/* As in the config: of a session at least (check_sums()). */
static int take_sum(struct access_token *t, const char *word)
{
        uint64_t bytes = 0;

        if (strncmp(word, "cpu=", 4) == 0 && strspn(word + 4, "0123456789.") == strlen(word + 4))
                return quantity_milliseconds_of(word + 4, &t->cpu_milli) < 0 ||
                                       t->cpu_milli < CPU_MIN_MILLI
                               ? -EINVAL
                               : 0;
        if (strncmp(word, "memory=", 7) != 0 || quantity_bytes_of(word + 7, &bytes) < 0 ||
            bytes >> 20 == 0 || bytes >> 20 > UINT32_MAX)
                return -EINVAL;
        t->memory_mib = (uint32_t)(bytes >> 20);
        return 0;
}

static int check_sums(const struct access *access, const struct access_token *t, unsigned line,
                      struct error *err)
{
        const struct limits *one = access->limits_of
                                           ? access->limits_of(access->data, t->principal.profile)
                                           : NULL;

        if (one && t->memory_mib > 0 && t->memory_mib < one->memory >> 20)
                return error_set(err, EINVAL,
                                 "line %u: memory= is below the %llu MiB of one session", line,
                                 (unsigned long long)(one->memory >> 20));
        if (one && t->cpu_milli > 0 && t->cpu_milli < one->cpu_milli)
                return error_set(err, EINVAL, "line %u: cpu= is below the %g cores of one session",
                                 line, one->cpu_milli / 1000.0);
        return 0;
}

static int take_role(struct access_token *t, const char *name)
{
        static const char *const names[] = {
                [ACCESS_ROLE_METRICS] = "metrics", [ACCESS_ROLE_VIEW] = "view"};

        for (size_t i = ACCESS_ROLE_METRICS; i < ARRAY_SIZE(names); i++) {
                if (strcmp(name, names[i]) == 0) {
                        t->role = (enum access_role)i;
                        return 0;
                }
        }
        return -EINVAL;
}

static int take_setting(struct access_token *t, const char *word, unsigned line, struct error *err)
{
        int r = -EINVAL;

        if (strncmp(word, "role=", 5) == 0)
                return take_role(t, word + 5) < 0
                               ? error_set(err, EINVAL,
                                           "line %u: role=metrics or role=view is needed", line)
                               : 0;
        if (strncmp(word, "profile=", 8) == 0 && image_name_valid(word + 8)) {
                memcpy(t->profile, word + 8, strlen(word + 8) + 1);
                return 0;
        }
        if (strncmp(word, "calls=", 6) == 0)
                r = take_number(word + 6, &t->principal.calls_max);
        else if (strncmp(word, "sessions=", 9) == 0)
                r = take_number(word + 9, &t->principal.sessions_max);
        else if (strncmp(word, "cells_per_minute=", 17) == 0) {
                size_t n = 0;
                r = take_number(word + 17, &n);
                t->principal.cells_per_minute = (uint32_t)n;
        } else
                r = take_sum(t, word);
        return r < 0 ? error_set(
                               err, EINVAL,
                               "line %u: profile=NAME, calls=N, sessions=N, cells_per_minute=N, memory=SIZE (such as 2G), cpu=CORES or role=ROLE is needed behind the token",
                               line)
                     : 0;
}

static int check_new(const struct access *access, const char *name, const char *token,
                     unsigned line, struct error *err)
{
        if (!session_name_valid(name, strlen(name)))
                return error_set(err, EINVAL, "line %u: a name is " SESSION_NAME_RULE, line);
        if (!token || !is_token(token))
                return error_set(err, EINVAL,
                                 "line %u: a token has %d to %d letters, digits, - . _ ~ + or /",
                                 line, ACCESS_TOKEN_MIN, ACCESS_TOKEN_MAX);
        if (access->n_tokens == ACCESS_TOKENS_MAX)
                return error_set(err, E2BIG, "line %u: at most %d tokens are taken", line,
                                 ACCESS_TOKENS_MAX);
        for (size_t i = 0; i < access->n_tokens; i++) {
                if (strcmp(access->tokens[i]->principal.name, name) == 0 ||
                    strcmp(access->tokens[i]->token, token) == 0)
                        return error_set(err, EINVAL,
                                         "line %u: the name or the token is there twice", line);
        }
        return 0;
}

static int take_line(struct access *access, char *text, unsigned line, struct error *err)
{
        char *rest = NULL, *name = strtok_r(text, " \t\r", &rest);

        if (!name || *name == '#')
                return 0;
        char *token = strtok_r(NULL, " \t\r", &rest);
        int r = check_new(access, name, token, line, err);
        if (r < 0)
                return r;
        struct access_token *t = calloc(1, sizeof(*t));
        if (!t)
                return error_errno(err, ENOMEM, "tokens");
        access->tokens[access->n_tokens++] = t;
        t->principal.calls_max = ACCESS_CALLS;
        memcpy(t->principal.name, name, strlen(name) + 1);
        memcpy(t->principal.key, name, strlen(name) + 1);
        memcpy(t->token, token, strlen(token) + 1);
        size_t n = 0;
        for (char *word; r >= 0 && (word = strtok_r(NULL, " \t\r", &rest)) && *word != '#'; n++)
                r = take_setting(t, word, line, err);
        if (r >= 0 && t->role && n > 1)
                r = error_set(err, EINVAL,
                              "line %u: role= stands alone: such a token has no sessions", line);
        t->principal.profile = *t->profile ? t->profile : access->everybody.profile;
        return r < 0 ? r : check_sums(access, t, line, err);
}

static int read_lines(struct access *access, const char *text, size_t n, struct error *err)
{
        _cleanup_free_ char *copy = strndup(text, n);
        char *rest = copy;
        unsigned line = 0;
        int r = 0;

        if (!copy)
                return error_errno(err, ENOMEM, "tokens");
        for (char *at; r >= 0 && (at = strsep(&rest, "\n"));)
                r = take_line(access, at, ++line, err);
        explicit_bzero(copy, strlen(copy));
        return r;
}

int access_read_tokens(struct access *access, const char *text, size_t n, struct error *err)
{
        int r = read_lines(access, text, n, err);

        access->needs_token = true;
        return r < 0 || access->n_tokens > 0 ? r
                                             : error_set(err, EINVAL, "there is no token in it");
}

/* The principal that has this name now. */
static struct access_token *find_name(const struct access *access, const char *name)
{
        for (size_t i = 0; i < access->n_tokens; i++) {
                if (!access->tokens[i]->removed &&
                    strcmp(access->tokens[i]->principal.name, name) == 0)
                        return access->tokens[i];
        }
        return NULL;
}

static bool has_key(const struct access *access, const char *key)
{
        for (size_t i = 0; i < access->n_tokens; i++) {
                if (strcmp(access->tokens[i]->principal.key, key) == 0)
                        return true;
        }
        return false;
}

/* Data of an earlier principal of this name stays under the earlier key. */
static void make_key(const struct access *access, struct mcp_principal *principal)
{
        snprintf(principal->key, sizeof(principal->key), "%s", principal->name);
        for (unsigned i = 2; has_key(access, principal->key); i++)
                snprintf(principal->key, sizeof(principal->key), "%.*s.%u",
                         (int)sizeof(principal->key) - 8, principal->name, i);
}

/* Copies the values of the new line. Returns an enum access_change, or -1: nothing that changed() is called for. */
static int take_changes(const struct access *access, struct access_token *t,
                        const struct access_token *now)
{
        int change = strcmp(t->token, now->token) != 0       ? ACCESS_TOKEN
                     : strcmp(t->profile, now->profile) != 0 ? ACCESS_PROFILE
                                                             : -1;

        memcpy(t->token, now->token, sizeof(t->token));
        memcpy(t->profile, now->profile, sizeof(t->profile));
        t->principal.profile = *t->profile ? t->profile : access->everybody.profile;
        t->principal.calls_max = now->principal.calls_max;
        t->principal.sessions_max = now->principal.sessions_max;
        t->principal.cells_per_minute = now->principal.cells_per_minute;
        t->memory_mib = now->memory_mib;
        t->cpu_milli = now->cpu_milli;
        return change;
}

/* Moves the tokens of new names to the others. */
static void take_new(struct access *access, struct access *now)
{
        size_t kept = 0;

        for (size_t i = 0; i < now->n_tokens; i++) {
                struct access_token *t = now->tokens[i];
                if (find_name(access, t->principal.name)) {
                        now->tokens[kept++] = t;
                        continue;
                }
                t->principal.profile = *t->profile ? t->profile : access->everybody.profile;
                make_key(access, &t->principal);
                access->tokens[access->n_tokens++] = t;
        }
        now->n_tokens = kept;
}

int access_check_tokens(const struct access *access, const char *text, size_t n, struct error *err)
{
        struct access now;

        access_init(&now, access->everybody.profile);
        now.limits_of = access->limits_of;
        now.data = access->data;
        int r = read_lines(&now, text, n, err);
        if (r >= 0 && access->n_tokens + now.n_tokens > ACCESS_NAMES_EVER)
                r = error_set(err, E2BIG, "too many names were there since the start: restart");
        access_done(&now);
        return r;
}

int access_replace_tokens(struct access *access, const char *text, size_t n,
                          void (*changed)(void *data, struct mcp_principal *principal,
                                          enum access_change change),
                          void *data, struct error *err)
{
        struct access now;

        access_init(&now, access->everybody.profile);
        now.limits_of = access->limits_of;
        now.data = access->data;
        int r = read_lines(&now, text, n, err);
        if (r >= 0 && access->n_tokens + now.n_tokens > ACCESS_NAMES_EVER)
                r = error_set(err, E2BIG, "too many names were there since the start: restart");
        for (size_t i = 0; i < access->n_tokens && r >= 0; i++) {
                struct access_token *t = access->tokens[i];
                if (t->removed)
                        continue;
                const struct access_token *line = find_name(&now, t->principal.name);
                /* A client whose token gets a role, or loses it, ends: the name is taken anew. */
                line = line && line->role == t->role ? line : NULL;
                int change = line ? take_changes(access, t, line) : ACCESS_REMOVED;
                t->removed = !line;
                access->role_changes += change >= 0 && t->role;
                if (change >= 0 && !t->role)
                        changed(data, &t->principal, change);
        }
        if (r >= 0)
                take_new(access, &now);
        access_done(&now);
        return r;
}

size_t access_principals(const struct access *access)
{
        size_t n = access->needs_token ? 0 : 1 + access->n_users;

        for (size_t i = 0; i < access->n_tokens; i++)
                n += !access->tokens[i]->removed && !access->tokens[i]->role;
        return n;
}

void access_sums(const void *data, const char *key, struct monitor_principal *ret)
{
        const struct access *access = data;

        for (size_t i = 0; i < access->n_tokens; i++) {
                const struct access_token *t = access->tokens[i];
                if (strcmp(t->principal.key, key) == 0)
                        *ret = (struct monitor_principal){(uint32_t)i + 1, 0, t->memory_mib,
                                                          t->cpu_milli};
        }
        for (size_t i = 0; i < access->n_users; i++) {
                if (strcmp(access->users[i]->principal.key, key) == 0)
                        ret->id = (uint32_t)(ACCESS_NAMES_EVER + i + 1);
        }
}

struct mcp_principal *access_user(struct access *access, uint32_t uid)
{
        for (size_t i = 0; i < access->n_users; i++) {
                if (access->users[i]->uid == uid)
                        return &access->users[i]->principal;
        }
        struct access_user *user = access->n_users < ACCESS_USERS_MAX ? calloc(1, sizeof(*user))
                                                                      : NULL;
        if (!user)
                return NULL;
        user->uid = uid;
        user->principal.profile = access->everybody.profile;
        user->principal.calls_max = ACCESS_CALLS;
        snprintf(user->principal.name, sizeof(user->principal.name), "uid-%u", uid);
        memcpy(user->principal.key, user->principal.name, sizeof(user->principal.key));
        access->users[access->n_users++] = user;
        return &user->principal;
}

/* The length of the name in "name:port"; 0: it is malformed. */
static size_t name_length(const char *host)
{
        size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
        const char *port = host + n;

        if (n > strlen(host) ||
            (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))))
                return 0;
        return n;
}

static bool is_one_of(const char *name, size_t n, const char *const *list, size_t n_list)
{
        for (size_t i = 0; i < n_list; i++) {
                if (strlen(list[i]) == n && strncasecmp(list[i], name, n) == 0)
                        return true;
        }
        return false;
}

bool access_host_allowed(const struct access *access, const char *host)
{
        size_t n = name_length(host);

        return n > 0 && (is_one_of(host, n, loopback, ARRAY_SIZE(loopback)) ||
                         is_one_of(host, n, access->hosts, access->n_hosts));
}

bool access_origin_allowed(const struct access *access, const char *origin)
{
        const char *host = strstr(origin, "://");

        if (is_one_of(origin, strlen(origin), access->origins, access->n_origins))
                return true;
        if (!host || (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0))
                return false;
        size_t n = name_length(host + 3);
        return n > 0 && is_one_of(host + 3, n, loopback, ARRAY_SIZE(loopback));
}

/* NULL: the header has no token that is accepted. Takes the same time for every wrong token. */
static struct access_token *find_token(const struct access *access, const char *authorization)
{
        char given[ACCESS_TOKEN_MAX + 1] = "";
        struct access_token *found = NULL;

        if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
                return NULL;
        authorization += 7 + strspn(authorization + 7, " ");
        if (strlen(authorization) > ACCESS_TOKEN_MAX)
                return NULL;
        memcpy(given, authorization, strlen(authorization) + 1);
        for (size_t i = 0; i < access->n_tokens; i++) {
                struct access_token *t = access->tokens[i];
                if (unguessable_equal(given, t->token, sizeof(given)) && !t->removed)
                        found = t;
        }
        explicit_bzero(given, sizeof(given));
        return found;
}

struct mcp_principal *access_principal(struct access *access, const char *authorization,
                                       struct mcp_principal *user)
{
        if (!access->needs_token)
                return user ? user : &access->everybody;
        struct access_token *t = find_token(access, authorization);
        return t && !t->role ? &t->principal : NULL;
}

const char *access_token_of(const struct access *access, const char *key)
{
        for (size_t i = 0; i < access->n_tokens; i++) {
                const struct access_token *t = access->tokens[i];
                if (!t->removed && !t->role && strcmp(t->principal.key, key) == 0)
                        return t->token;
        }
        return NULL;
}

enum access_role access_role(const struct access *access, const char *authorization)
{
        const struct access_token *t = find_token(access, authorization);

        return t ? t->role : ACCESS_ROLE_NONE;
}

bool access_is_known(const struct access *access, const char *authorization)
{
        return find_token(access, authorization);
}
