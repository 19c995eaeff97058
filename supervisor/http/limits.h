/* How much clients may take, and how long. */
#pragma once

enum {
        HTTP_LISTENERS_MAX = 4,
        HTTP_ADMIN_CONNECTIONS_MAX =
                32, /* of --admin, besides the others; an idle one, or one that has not asked, gives its place */
        HTTP_CONNECTIONS_MAX =
                2048, /* more wait in the backlog; busy ones above the principal's share: 503 */
        HTTP_BODY_MAX = 24 * 1024 * 1024, /* code of 16 MiB, escaped as JSON usually is */
        /* Bytes of bodies, of responses that wait and of kept events, of all clients together. Above it, or above its
         * principal's share of it, no client may have more than HTTP_HELD_SMALL: a larger body is refused (503), a larger
         * response ends its connection, and a larger event is not kept. */
        HTTP_HELD_MAX = 96 * 1024 * 1024,
        HTTP_HELD_SMALL = 64 * 1024,
        /* A turn of the loop takes requests until their responses have HTTP_TURN_COST bytes; each request counts as
         * HTTP_REQUEST_COST. The others are taken in later turns: in each round one request of each principal. */
        HTTP_TURN_COST = 512 * 1024,
        HTTP_REQUEST_COST = 8 * 1024,
        HTTP_IDLE_MS = 60 * 1000,   /* between requests, and before the first */
        HTTP_HEAD_MS = 10 * 1000,   /* of the whole head */
        HTTP_BODY_MS = 60 * 1000,   /* of the whole body */
        HTTP_TICK_MS = 15 * 1000,   /* a comment on a quiet stream; a client that reads less */
        HTTP_TICK_BYTES = 4 * 1024, /* than this between two ticks is dropped */
        HTTP_LINGER_MS = 2 * 1000,
        HTTP_VIEW_MS = 1000,                   /* between two events of the live view (view.h) */
        HTTP_VIEWS_MAX = 8,                    /* its streams at once; the oldest one ends */
        HTTP_VIEW_BYTES_MAX = 2 * 1024 * 1024, /* of an event */
};
