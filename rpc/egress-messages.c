#include "rpc/egress-messages.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Clauses without the host before them; "%s" is the profile. */
static const char *const texts[] = {
        [EGRESS_FINE] = "",
        [EGRESS_NOT_NAMED] = "is not in network.allow of profile \"%s\"",
        [EGRESS_NOT_PUBLIC] =
                "has no public address: network.allow of profile \"%s\" must name the address too",
        [EGRESS_OTHER_NAME] =
                "was asked for, and the request is for another name (profile \"%s\", network.allow)",
        [EGRESS_NO_NAME] =
                "was asked for by TLS without a readable server name (profile \"%s\", network.allow)",
        [EGRESS_NOT_TLS] =
                "was asked for without TLS, which port 443 needs (profile \"%s\", network.allow)",
        [EGRESS_NOT_READ] =
                "needs TLS, because its requests are read: use https (profile \"%s\", secrets or inspect)",
        [EGRESS_MALFORMED] =
                "was asked for by a request that the proxy of profile \"%s\" does not take",
        [EGRESS_USED_UP] =
                "is cut off: network.max_bytes of profile \"%s\" is used up in this session",
        [EGRESS_PLACEHOLDER] =
                "was sent the placeholder of a secret without TLS (profile \"%s\", secrets)",
        [EGRESS_RULE] = "is not allowed by the rules of profile \"%s\"",
        [EGRESS_UNKNOWN] =
                "has no address: there is no such name, or no name server answers (profile \"%s\")",
        [EGRESS_UNREACHABLE] = "does not answer (profile \"%s\")",
        [EGRESS_NO_READER] =
                "is a host of a secret or with \"inspect\", and the process that reads requests of profile \"%s\" has ended: reset the session",
        [EGRESS_LATE] = "took too long (profile \"%s\")",
};
static_assert(ARRAY_SIZE(texts) == EGRESS_REASON_MAX, "one for each");

void egress_reason_print(char *to, size_t size, const char *host, unsigned port,
                         enum egress_reason reason, const char *profile)
{
        const char *text = reason < EGRESS_REASON_MAX ? texts[reason] : "";
        size_t n = strcspn(text, "%");
        char number[16] = "";

        if (port)
                snprintf(number, sizeof(number), ":%u", port);
        snprintf(to, size, "%s%s %.*s%s%s", host, number, (int)n, text, text[n] ? profile : "",
                 text[n] ? text + n + 2 : "");
}
