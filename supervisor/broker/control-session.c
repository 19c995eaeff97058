#include "supervisor/broker/control-session.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/session.h"

#include <errno.h>

int control_session(const struct control *control, yyjson_val *params, const char **key,
                    struct session **ret, struct error *err)
{
        size_t n = 0;
        const char *name = json_string(params, "name", &n);

        if (!name || !session_key_valid(name, n))
                return error_set(err, EINVAL, "name: a session's name is needed");
        struct session *session = sessions_find(control_context(control)->sessions, name);
        if (!session || session_state(session) == SESSION_NONE)
                return error_set(err, ENOENT, "no live session is called \"%s\"", name);
        if (session_is_single(session))
                return error_set(err, ENOENT,
                                 "session \"%s\" runs a published tool, and ends with it", name);
        if (key)
                *key = name;
        *ret = session;
        return 0;
}
