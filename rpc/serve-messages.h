/*
 * Messages of the helper of `cloister serve` (supervisor/cli/serve/serve-helper.h) to the broker, over a
 * SOCK_SEQPACKET pair: one struct for each message. The broker sends SERVE_READ only; the end of the pair ends
 * the helper. Both ends are from the same build.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum serve_message_kind {
        SERVE_CLIENT = 1, /* uid: of the peer; one descriptor: its connection */
        SERVE_TOKENS,     /* one descriptor: a sealed memfd with the file of tokens */
        SERVE_PROBLEM,    /* error: the file of tokens cannot be used as it is now */
        SERVE_FAILED,     /* error: why the helper ends */
        SERVE_READ,       /* of the broker: SERVE_TOKENS or SERVE_PROBLEM follows, with `asked` */
};

struct serve_message {
        uint32_t kind;
        uint32_t uid;
        uint32_t asked; /* 1: it answers SERVE_READ */
        struct error error;
};
