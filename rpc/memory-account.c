/* Accounts of memory. */
#include "rpc/memory-account.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "rpc/background.h"

enum { FACTOR = 2 };

struct memory_account {
        enum memory_account_pool pool;
        atomic_size_t used;
        atomic_uint refs;
};

static const size_t most[ACCOUNT_POOLS] = {ACCOUNTS_SESSIONS_MAX, ACCOUNTS_CLIENTS_MAX};
static atomic_size_t used_by_all[ACCOUNT_POOLS];

struct memory_account *memory_account_new(enum memory_account_pool pool)
{
        struct memory_account *account = calloc(1, sizeof(*account));

        if (!account)
                return NULL;
        account->pool = pool;
        atomic_store(&account->refs, 1);
        return account;
}

struct memory_account *memory_account_unref(struct memory_account *account)
{
        if (account && atomic_fetch_sub(&account->refs, 1) == 1)
                free(account);
        return NULL;
}

void charge_open(struct charge *charge, struct memory_account *account)
{
        assert(!charge->account && charge->bytes == 0);
        if (account)
                atomic_fetch_add(&account->refs, 1);
        charge->account = account;
}

void charge_done(struct charge *charge)
{
        charge_set(charge, 0);
        charge->account = memory_account_unref(charge->account);
}

bool charge_fits(const struct charge *charge, size_t n)
{
        if (!charge->account || n == 0)
                return true;
        enum memory_account_pool pool = charge->account->pool;
        size_t own = atomic_load(&charge->account->used) + n;
        size_t all = atomic_load(&used_by_all[pool]) + n;
        size_t free = all < most[pool] ? most[pool] - all : 0;

        return own <= ACCOUNT_FREE || (own <= ACCOUNT_MOST && own <= FACTOR * free);
}

void charge_set(struct charge *charge, size_t bytes)
{
        size_t before = charge->bytes;

        if (!charge->account || bytes == before)
                return;
        charge->bytes = bytes;
        /* The difference wraps around where it is negative. */
        atomic_fetch_add(&charge->account->used, bytes - before);
        atomic_fetch_add(&used_by_all[charge->account->pool], bytes - before);
}

struct shared_text *shared_text_new(char *bytes, size_t n)
{
        struct shared_text *text = calloc(1, sizeof(*text));

        if (!text) {
                background_free(bytes, n);
                return NULL;
        }
        text->refs = 1;
        text->bytes = bytes;
        text->n = n;
        return text;
}

struct shared_text *shared_text_unref(struct shared_text *text)
{
        if (!text || --text->refs > 0)
                return NULL;
        charge_done(&text->charge);
        background_free(text->bytes, text->n);
        free(text);
        return NULL;
}
