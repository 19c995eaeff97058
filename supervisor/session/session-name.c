/* Names of sessions. */
#include "supervisor/session/session-name.h"

bool session_name_valid(const char *name, size_t n)
{
        if (n == 0 || n > SESSION_NAME_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                char c = name[i];
                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-'))
                        return false;
        }
        return true;
}
