/*
 * Messages of the helper of `cloister serve` (supervisor/cli/serve/serve-helper.h) to the broker, over a
 * SOCK_SEQPACKET pair: one struct for each message. The broker sends nothing; the end of the pair ends
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
};

struct serve_message {
        uint32_t kind;
        uint32_t uid;
        struct error error;
};
