/*
 * libcurl in the event loop.
 *
 * Theory of operation. libcurl says which sockets it waits for and when its timer is due, and is called
 * when they are. Its callbacks only note what came (exchange.c); the owners are told afterwards, so
 * that they may free what they like: libcurl does not allow that inside its callbacks.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "supervisor/hub/http/exchange-internal.h"

enum {
        IDLE_CONNECTIONS_MAX = 64, /* that are kept for the next request */
        TOLD_MAX = 64,             /* news in a turn of the loop */
};

/* Which exchanges have ended. */
static void harvest(struct exchange_loop *loop)
{
        struct CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(loop->multi, &left))) {
                struct exchange *x = NULL;
                if (message->msg != CURLMSG_DONE)
                        continue;
                CURLcode result = message->data.result;
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&x);
                exchange_finish(x, result);
        }
        exchange_touch(loop);
}

static void on_socket(evutil_socket_t fd, short what, void *data)
{
        struct exchange_loop *loop = data;
        int running, flags = (what & EV_READ ? CURL_CSELECT_IN : 0) |
                             (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

        curl_multi_socket_action(loop->multi, fd, flags, &running);
        harvest(loop);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct exchange_loop *loop = data;
        int running;

        (void)fd;
        (void)what;
        curl_multi_socket_action(loop->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        harvest(loop);
}

/* libcurl: wait for this socket. assigned: its event, or NULL. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *assigned)
{
        struct exchange_loop *loop = data;
        struct event *event = assigned;
        short flags = EV_PERSIST;

        (void)easy;
        if (event)
                event_free(event);
        curl_multi_assign(loop->multi, fd, NULL);
        if (what == CURL_POLL_REMOVE)
                return 0;
        if (what & CURL_POLL_IN)
                flags |= EV_READ;
        if (what & CURL_POLL_OUT)
                flags |= EV_WRITE;
        event = event_new(loop->base, fd, flags, on_socket, loop);
        if (!event || event_add(event, NULL) < 0)
                return -1;
        curl_multi_assign(loop->multi, fd, event);
        return 0;
}

static int set_timer(CURLM *multi, long ms, void *data)
{
        struct exchange_loop *loop = data;

        (void)multi;
        if (ms < 0) {
                evtimer_del(&loop->timer);
                return 0;
        }
        const struct timeval in = clock_timeval_ms((unsigned)ms);
        evtimer_add(&loop->timer, &in);
        return 0;
}

void exchange_touch(struct exchange_loop *loop)
{
        event_active(&loop->ready, EV_TIMEOUT, 0);
}

/* Tells one owner one thing. Returns whether there was one. */
static bool tell_one(struct exchange_loop *loop)
{
        struct exchange *x;

        TAILQ_FOREACH (x, &loop->all, link) {
                loop->told = x;
                bool told = exchange_tell(x);
                if (!told)
                        continue;
                /* The others come before it now. */
                if (loop->told) {
                        TAILQ_REMOVE(&loop->all, x, link);
                        TAILQ_INSERT_TAIL(&loop->all, x, link);
                }
                loop->told = NULL;
                return true;
        }
        loop->told = NULL;
        return false;
}

static void on_ready(evutil_socket_t fd, short what, void *data)
{
        static const struct timeval now = {};
        struct exchange_loop *loop = data;
        int n = 0;

        (void)fd;
        (void)what;
        while (n < TOLD_MAX && tell_one(loop))
                n++;
        /* By the timer, so that descriptors come first. */
        if (n == TOLD_MAX)
                event_add(&loop->ready, &now);
}

int exchange_add(struct exchange *x)
{
        if (curl_multi_add_handle(x->loop->multi, x->easy) != CURLM_OK)
                return -ENOMEM;
        return 0;
}

void exchange_remove(struct exchange *x)
{
        curl_multi_remove_handle(x->loop->multi, x->easy);
}

int exchange_loop_new(struct exchange_loop **ret, struct event_base *base)
{
        static bool is_initialised;

        if (!is_initialised && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -ENOMEM;
        is_initialised = true;
        struct exchange_loop *loop = calloc(1, sizeof(*loop));
        CURLM *multi = loop ? curl_multi_init() : NULL;
        if (!multi) {
                free(loop);
                return -ENOMEM;
        }
        loop->base = base;
        loop->multi = multi;
        TAILQ_INIT(&loop->all);
        evtimer_assign(&loop->timer, base, on_timer, loop);
        evtimer_assign(&loop->ready, base, on_ready, loop);
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
        curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, loop);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
        curl_multi_setopt(multi, CURLMOPT_TIMERDATA, loop);
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS_MAX);
        *ret = loop;
        return 0;
}

/* The ends of sessions are still sent, where servers answer at once. */
static void linger(struct exchange_loop *loop)
{
        uint64_t until = clock_us() + EXCHANGE_LINGER_MS * 1000ULL;
        uint64_t now;
        int running;

        while (loop->n_left > 0 && (now = clock_us()) < until) {
                curl_multi_perform(loop->multi, &running);
                harvest(loop);
                while (tell_one(loop))
                        ;
                if (loop->n_left > 0)
                        curl_multi_poll(loop->multi, NULL, 0, (int)((until - now) / 1000) + 1,
                                        NULL);
        }
}

struct exchange_loop *exchange_loop_free(struct exchange_loop *loop)
{
        struct exchange *x;

        if (!loop)
                return NULL;
        linger(loop);
        while ((x = TAILQ_FIRST(&loop->all)))
                exchange_free(x);
        curl_multi_cleanup(loop->multi);
        event_del(&loop->timer);
        event_del(&loop->ready);
        free(loop);
        return NULL;
}
