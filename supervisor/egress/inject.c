/* Hosts of cloister-inject, and placeholders. */
#include "supervisor/egress/inject.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rpc/inject-messages.h"
#include "supervisor/secrets/forms.h"

enum {
        SERVER_BUFFER =
                256 * 1024 /* of a socket that is handed over: the process that gets it sets none */
};

struct egress_inject {
        int socket;
        struct network_rule hosts[INJECT_RULES_MAX];
        size_t n_hosts;
        struct secret_forms forms[INJECT_SECRETS_MAX];
        size_t n_placeholders;
};
static_assert(sizeof(((struct egress_tail *)0)->bytes) >= 3 * INJECT_PLACEHOLDER_SIZE,
              "a placeholder with percent-encoding");

static int take_list(struct egress_inject *inject, struct inject_list *list, struct error *err)
{
        char *rest = NULL;

        list->hosts[sizeof(list->hosts) - 1] = '\0';
        list->placeholders[sizeof(list->placeholders) - 1] = '\0';
        for (char *line = strtok_r(list->hosts, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest))
                if (inject->n_hosts == INJECT_RULES_MAX ||
                    network_rule_parse(line, &inject->hosts[inject->n_hosts++]))
                        return error_set(err, EPROTO, "hosts of secrets: \"%.100s\"", line);
        for (char *line = strtok_r(list->placeholders, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
                if (inject->n_placeholders == INJECT_SECRETS_MAX ||
                    strlen(line) >= INJECT_PLACEHOLDER_SIZE)
                        return error_set(err, EPROTO, "placeholders are not as agreed");
                if (secret_forms_make(&inject->forms[inject->n_placeholders], line, strlen(line)) <
                    0)
                        return error_errno(err, ENOMEM, "placeholders");
                inject->n_placeholders++;
        }
        return 0;
}

int egress_inject_new(struct egress_inject **ret, int list, int socket, struct error *err)
{
        struct egress_inject *inject = calloc(1, sizeof(*inject));
        _cleanup_free_ struct inject_list *copy = malloc(sizeof(*copy));

        if (!inject || !copy) {
                free(inject);
                close(socket);
                return error_errno(err, ENOMEM, "hosts of secrets");
        }
        inject->socket = socket;
        int r = pread(list, copy, sizeof(*copy), 0) == sizeof(*copy)
                        ? take_list(inject, copy, err)
                        : error_set(err, EPROTO, "the list of hosts is not as agreed");
        if (r < 0)
                egress_inject_free(inject);
        else
                *ret = inject;
        return r;
}

struct egress_inject *egress_inject_free(struct egress_inject *inject)
{
        if (!inject)
                return NULL;
        for (size_t i = 0; i < inject->n_placeholders; i++)
                secret_forms_done(&inject->forms[i]);
        close(inject->socket);
        free(inject);
        return NULL;
}

bool egress_inject_has(const struct egress_inject *inject, const struct network_host *host,
                       uint16_t port)
{
        return inject && network_rules_name(inject->hosts, inject->n_hosts, host, port);
}

static bool has_form(const struct egress_inject *inject, const char *data, size_t n)
{
        for (size_t i = 0; i < inject->n_placeholders; i++)
                for (size_t k = 0; k < inject->forms[i].n; k++)
                        if (memmem(data, n, inject->forms[i].items[k].text,
                                   inject->forms[i].items[k].n))
                                return true;
        return false;
}

bool egress_inject_finds(const struct egress_inject *inject, struct egress_tail *tail,
                         const char *data, size_t n)
{
        char seam[2 * sizeof(tail->bytes)];
        size_t first = n < sizeof(tail->bytes) ? n : sizeof(tail->bytes);

        if (!inject || n == 0)
                return false;
        memcpy(seam, tail->bytes, tail->n);
        memcpy(seam + tail->n, data, first);
        if (has_form(inject, seam, tail->n + first) || has_form(inject, data, n))
                return true;
        /* The last bytes of all. */
        size_t all = tail->n + first;
        const char *end = n > first ? data + n : seam + all;
        size_t kept = n > first || all > sizeof(tail->bytes) ? sizeof(tail->bytes) : all;
        memmove(tail->bytes, end - kept, kept);
        tail->n = kept;
        return false;
}

int egress_inject_hand(const struct egress_inject *inject, const struct network_host *host,
                       uint16_t port, int server)
{
        struct inject_handed handed = {.port = port};
        int pair[2], size = SERVER_BUFFER;

        snprintf(handed.host, sizeof(handed.host), "%s", host->text);
        setsockopt(server, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
        setsockopt(server, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
                int r = -errno;
                close(server);
                return r;
        }
        int r = fd_send(inject->socket, &handed, sizeof(handed), (const int[]){pair[1], server},
                        INJECT_HANDED_FDS, MSG_DONTWAIT | MSG_NOSIGNAL);
        close(server);
        close(pair[1]);
        if (r >= 0)
                return pair[0];
        close(pair[0]);
        return r;
}
