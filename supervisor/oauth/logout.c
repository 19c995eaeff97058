/* `cloister logout`: revokes the tokens where the server offers that, and removes the file. */
#include "supervisor/oauth/logout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "supervisor/oauth/store.h"
#include "supervisor/oauth/token.h"

static int remove_login(const struct oauth_target *target, struct oauth_store *store,
                        struct oauth_record *record, struct error *err)
{
        struct error why = {};

        int r = oauth_store_lock(store, err);
        if (r < 0)
                return r;
        r = oauth_store_read(store, target->name, target->url, record, &why);
        if (r == -ENOENT) {
                r = oauth_store_remove(store, err);
                return r < 0 ? r : 1;
        }
        /* A file that cannot be read is removed all the same. */
        if (r >= 0)
                r = oauth_token_revoke(record, &why);
        int removed = oauth_store_remove(store, err);
        if (removed < 0)
                return removed;
        return r < 0 ? error_set(err, -r, "the tokens were removed here, but not revoked: %s",
                                 why.text)
                     : 0;
}

int oauth_logout(const struct oauth_target *target, struct error *err)
{
        _cleanup_store_ struct oauth_store store;
        _cleanup_free_ struct oauth_record *record = calloc(1, sizeof(*record));
        struct error why = {};

        if (!record)
                return error_errno(err, ENOMEM, "logout");
        int r = oauth_store_open(&store, target->name, target->url, false, &why);
        if (r >= 0)
                r = remove_login(target, &store, record, err);
        else if (r != -ENOENT)
                *err = why;
        bool revoked = r == 0 && *record->revocation_endpoint;
        explicit_bzero(record, sizeof(*record));
        if (r < 0 && r != -ENOENT)
                return r;
        printf("%s ", r == 0 ? "Logged out of" : "There was no login to");
        printable_print(stdout, target->name);
        puts(r != 0 ? "." : revoked ? "; its tokens are revoked." : "; its tokens are removed.");
        return 0;
}
