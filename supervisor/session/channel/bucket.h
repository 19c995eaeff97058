/* A token bucket. It limits the frames of a session, so that no session keeps the event loop busy. A
 * frame takes a token before its cost is known, which is charged afterwards: the bucket may then owe
 * tokens. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bucket {
        uint64_t rate;  /* tokens a second */
        uint64_t burst; /* most tokens that are saved */
        int64_t tokens;
        uint64_t filled_us; /* when tokens were last added */
};

static inline void bucket_init(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_us)
{
        *b = (struct bucket){
                .rate = rate, .burst = burst, .tokens = (int64_t)burst, .filled_us = now_us};
}

/* Takes a token. Returns false if there is none. */
static inline bool bucket_take(struct bucket *b, uint64_t now_us)
{
        uint64_t more = (now_us - b->filled_us) * b->rate / 1000000;

        if (more > 0) {
                uint64_t room = (uint64_t)((int64_t)b->burst - b->tokens);
                b->tokens = room < more ? (int64_t)b->burst : b->tokens + (int64_t)more;
                b->filled_us = now_us;
        }
        if (b->tokens <= 0)
                return false;
        b->tokens--;
        return true;
}

/* Takes more tokens, of which the bucket need not have as many. */
static inline void bucket_charge(struct bucket *b, uint64_t tokens)
{
        b->tokens -= (int64_t)tokens;
}
