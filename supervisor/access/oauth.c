/* The token of a server that asks for a login. */
#include <errno.h>

#include "supervisor/access/access.h"

int access_oauth_token(struct access *a, const struct access_refusal *refusal, struct error *err)
{
        if (!refusal)
                return 0;
        return error_set(err, EACCES, "needs a login: cloister login %s", a->name);
}
