/* Placeholders in requests. */
#include "supervisor/inject/placeholders.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/percent.h"

enum { DECODED_MAX = 64 * 1024 };

/* FNV-1a: the texts are random, so that no hash can be chosen. */
static size_t bucket_of(const char *text, size_t n)
{
        uint32_t h = 2166136261U;

        for (size_t i = 0; i < n; i++)
                h = (h ^ (unsigned char)text[i]) * 16777619U;
        return h % PLACEHOLDER_BUCKETS;
}

int placeholders_add(struct placeholders *all, struct placeholder *item, const void *session,
                     size_t secret, const char *text)
{
        size_t n = strlen(text), common = 0;
        struct placeholder **bucket = &all->buckets[bucket_of(text, n)];

        if (n == 0 || n >= INJECT_PLACEHOLDER_SIZE ||
            (all->secrets[secret].n > 0 && all->secrets[secret].n != n))
                return -EINVAL;
        if (all->secrets[secret].n == 0) {
                all->secrets[secret].n = all->secrets[secret].common = n;
                snprintf(all->secrets[secret].prefix, sizeof(all->secrets[secret].prefix), "%s",
                         text);
        }
        while (common < all->secrets[secret].common &&
               text[common] == all->secrets[secret].prefix[common])
                common++;
        all->secrets[secret].common = common;
        *item = (struct placeholder){*bucket, session, secret, text};
        *bucket = item;
        return 0;
}

void placeholders_remove(struct placeholders *all, struct placeholder *item)
{
        if (!item->text)
                return;
        struct placeholder **at = &all->buckets[bucket_of(item->text, strlen(item->text))];
        while (*at && *at != item)
                at = &(*at)->next;
        if (*at)
                *at = item->next;
        item->text = NULL;
}

/* Sessions that branches share placeholders with have the same texts: one's own comes first. */
static const struct placeholder *lookup(const struct placeholder_use *use, size_t secret,
                                        const char *text, size_t n)
{
        const struct placeholder *found = NULL;

        for (const struct placeholder *p = use->all->buckets[bucket_of(text, n)]; p; p = p->next) {
                if (p->secret != secret || memcmp(p->text, text, n) != 0)
                        continue;
                if (!found || p->session == use->session)
                        found = p;
        }
        return found;
}

/* The next placeholder of a secret at or behind `from`; its place, or n: there is none. */
static size_t next_of(const struct placeholder_use *use, size_t secret, const char *text,
                      size_t from, size_t n, const struct placeholder **ret)
{
        size_t length = use->all->secrets[secret].n, common = use->all->secrets[secret].common;
        const char *prefix = use->all->secrets[secret].prefix;

        while (length > 0 && from + length <= n) {
                const char *at = memmem(text + from, n - from, prefix, common);
                if (!at || (size_t)(at - text) + length > n)
                        break;
                from = (size_t)(at - text);
                *ret = lookup(use, secret, at, length);
                if (*ret)
                        return from;
                from++;
        }
        *ret = NULL;
        return n;
}

static const char *place_name(enum inject_place place)
{
        return place == INJECT_QUERY     ? "query"
               : place == INJECT_BODY    ? "body"
               : place == INJECT_HEADERS ? "header"
                                         : "path or in the name of a header";
}

static int check(const struct placeholder_use *use, const struct placeholder *p, struct error *err)
{
        const struct inject_secret *secret = &use->all->settings->secrets[p->secret];

        if (p->session != use->session)
                return error_set(err, EACCES, "got the placeholder of another session");
        if (!(secret->hosts & UINT32_C(1) << use->host))
                return error_set(err, EACCES,
                                 "got the placeholder of %s, and is not in \"to\" of that secret",
                                 secret->name);
        if (!(secret->places & use->place))
                return error_set(
                        err, EACCES,
                        "got the placeholder of %s in the %s, which \"in\" of that secret does not name",
                        secret->name, place_name(use->place));
        return 0;
}

static int append_value(const struct placeholder_use *use, size_t index, struct buffer *to)
{
        const struct inject_secret *secret = &use->all->settings->secrets[index];

        if (use->encoding == ENCODE_PERCENT) {
                percent_append(to, secret->value, PERCENT_UNRESERVED, true);
                return to->error;
        }
        if (use->encoding == ENCODE_NOT)
                return buffer_append(to, secret->value, secret->n_value);
        struct buffer quoted = BUFFER_INIT(8 * INJECT_VALUE_MAX);
        int r = json_append_string(&quoted, secret->value, secret->n_value);
        if (r >= 0)
                r = buffer_append(to, buffer_bytes(&quoted) + 1, quoted.length - 2);
        if (quoted.length > 0)
                explicit_bzero(buffer_bytes(&quoted), quoted.length);
        buffer_done(&quoted);
        return r;
}

int placeholders_replace(const struct placeholder_use *use, const char *text, size_t n,
                         struct buffer *to, struct error *err)
{
        const struct placeholder *found[INJECT_SECRETS_MAX] = {};
        size_t places[INJECT_SECRETS_MAX], n_secrets = use->all->settings->n_secrets, at = 0;
        int count = 0, r = 0;

        for (size_t i = 0; i < n_secrets; i++)
                places[i] = next_of(use, i, text, 0, n, &found[i]);
        for (;;) {
                size_t best = n_secrets;
                for (size_t i = 0; i < n_secrets; i++) {
                        if (found[i] && places[i] < at)
                                places[i] = next_of(use, i, text, at, n, &found[i]);
                        if (found[i] && (best == n_secrets || places[i] < places[best]))
                                best = i;
                }
                if (best == n_secrets)
                        break;
                r = check(use, found[best], err);
                if (r >= 0)
                        r = buffer_append(to, text + at, places[best] - at);
                if (r >= 0)
                        r = append_value(use, best, to);
                if (r < 0)
                        return r;
                at = places[best] + use->all->secrets[best].n;
                count++;
        }
        r = buffer_append(to, text + at, n - at);
        return r < 0 ? r : count;
}

static const char basic[] = "basic ";

/* Returns how many values were put in; 0: the credentials are as they were, and nothing was appended. */
static int replace_basic(const struct placeholder_use *use, const char *value, struct buffer *to,
                         struct error *err)
{
        struct buffer decoded = BUFFER_INIT(DECODED_MAX), made = BUFFER_INIT(DECODED_MAX);
        const char *text = value + strlen(basic);

        text += strspn(text, " ");
        int r = base64_decode(&decoded, text, strlen(text));
        int count = r < 0 ? 0
                          : placeholders_replace(use, buffer_bytes(&decoded), decoded.length, &made,
                                                 err);
        r = count;
        if (count > 0)
                r = buffer_append(to, value, strlen(basic));
        if (count > 0 && r >= 0)
                r = base64_append(to, buffer_bytes(&made), made.length);
        if (made.length > 0)
                explicit_bzero(buffer_bytes(&made), made.length);
        buffer_done(&decoded);
        buffer_done(&made);
        return r < 0 ? r : count;
}

int placeholders_replace_header(const struct placeholder_use *use, const char *name,
                                const char *value, struct buffer *to, struct error *err)
{
        if (strncasecmp(value, basic, strlen(basic)) == 0) {
                int r = replace_basic(use, value, to, err);
                if (r != 0)
                        return r;
        }
        return placeholders_replace(use, value, strlen(value), to, err);
}
