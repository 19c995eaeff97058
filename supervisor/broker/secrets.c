/* The secrets of profiles in the broker. */
#include "supervisor/broker/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/image.h"

enum { READ_MOST = 64 * 1024 };

struct held {
        struct broker_secrets *all;
        char profile[IMAGE_NAME_SIZE];
        struct secret_values *values;
        /* While they are read: */
        int fd; /* -1: they are not being read */
        struct event *readable;
        struct buffer text;
        struct config_profile
                of; /* a copy of what is needed: the name of each secret, and its tools */
};

struct broker_secrets {
        struct event_base *base;
        struct secret_mask *mask;
        struct held held[CONFIG_PROFILES_MAX];
        size_t n, oldest;
};

static void end_reading(struct held *h)
{
        loop_event_free(&h->readable);
        if (h->fd >= 0)
                close(take_fd(h->fd));
        if (h->text.length > 0)
                explicit_bzero(buffer_bytes(&h->text), h->text.length);
        buffer_done(&h->text);
}

static void held_done(struct held *h)
{
        end_reading(h);
        h->values = secret_values_free(h->values);
}

/* Without a value, cloister-access has written nothing: the monitor has logged why, and refuses the sessions. */
static void take_values(struct held *h)
{
        struct secret_values *values = NULL;
        struct error error = {};

        if (h->text.length == 0)
                return;
        int r = secret_values_parse(buffer_bytes(&h->text), h->text.length, &values, &error);
        if (r < 0) {
                log_error("secrets of profile \"%s\": %s", h->profile, error.text);
                return;
        }
        secret_values_mask(values);
        secret_values_free(h->values);
        h->values = values;
}

/* Returns 1 at the end, or 0: not yet. */
static void read_more(struct held *h)
{
        ssize_t n;

        do {
                n = buffer_read_fd(&h->text, h->fd, READ_MOST);
        } while (n > 0);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n < 0)
                log_error("secrets of profile \"%s\": %s", h->profile, strerror((int)-n));
        else
                take_values(h);
        end_reading(h);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        read_more(data);
}

static struct held *find(struct broker_secrets *secrets, const char *profile)
{
        for (size_t i = 0; i < secrets->n; i++)
                if (strcmp(secrets->held[i].profile, profile) == 0)
                        return &secrets->held[i];
        return NULL;
}

/* The place of a profile; if there are too many after reloads, that of the oldest one. */
static struct held *place(struct broker_secrets *secrets, const char *profile)
{
        struct held *h = find(secrets, profile);

        if (h)
                return h;
        if (secrets->n < CONFIG_PROFILES_MAX) {
                h = &secrets->held[secrets->n++];
        } else {
                h = &secrets->held[secrets->oldest];
                secrets->oldest = (secrets->oldest + 1) % CONFIG_PROFILES_MAX;
                held_done(h);
        }
        *h = (struct held){.all = secrets, .fd = -1};
        snprintf(h->profile, sizeof(h->profile), "%s", profile);
        return h;
}

void broker_secrets_take(struct broker_secrets *secrets, const char *profile, int fd)
{
        struct held *h = place(secrets, profile);

        end_reading(h);
        h->fd = fd;
        buffer_init(&h->text, SECRET_VALUES_BYTES_MAX);
        h->readable = event_new(secrets->base, fd, EV_READ | EV_PERSIST, on_readable, h);
        if (fd_set_nonblocking(fd, 1) < 0 || !h->readable || event_add(h->readable, NULL) < 0) {
                log_error("secrets of profile \"%s\": no memory", h->profile);
                end_reading(h);
        }
}

const struct secret_values *broker_secrets_values(struct broker_secrets *secrets,
                                                  const char *profile)
{
        struct held *h = find(secrets, profile);

        /* The process has ended before the session began: all is in the pipe. */
        if (h && h->fd >= 0)
                read_more(h);
        return h ? h->values : NULL;
}

struct secret_mask *broker_secrets_mask(const struct broker_secrets *secrets)
{
        return secrets->mask;
}

int broker_secrets_new(struct broker_secrets **ret, struct event_base *base, struct error *err)
{
        struct broker_secrets *secrets = calloc(1, sizeof(*secrets));

        if (secrets)
                *secrets = (struct broker_secrets){.base = base, .mask = secret_mask_new()};
        if (!secrets || !secrets->mask) {
                broker_secrets_free(secrets);
                return error_errno(err, ENOMEM, "secrets");
        }
        *ret = secrets;
        return 0;
}

struct broker_secrets *broker_secrets_free(struct broker_secrets *secrets)
{
        for (size_t i = 0; secrets && i < secrets->n; i++)
                held_done(&secrets->held[i]);
        if (secrets)
                secret_mask_free(secrets->mask);
        free(secrets);
        return NULL;
}
