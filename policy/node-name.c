/* Names of nodes. */
#include "policy/node-name.h"

bool node_name_valid(const char *name, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9'))
                        return false;
        }
        return n > 0 && n <= NODE_NAME_MAX;
}
