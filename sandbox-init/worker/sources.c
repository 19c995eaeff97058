/* Finds the guest's Python files in their tables. */
#include "sandbox-init/worker/sources.h"

#include <string.h>

const struct guest_source *guest_source_find(const char *name)
{
        for (size_t i = 0; i < guest_sources_count; i++)
                if (strcmp(guest_sources[i].name, name) == 0)
                        return &guest_sources[i];
        return NULL;
}

const struct guest_code *guest_code_find(const char *name, const char magic[GUEST_MAGIC_SIZE])
{
        for (size_t i = 0; i < guest_codes_count; i++)
                if (strcmp(guest_codes[i].name, name) == 0 &&
                    memcmp(guest_codes[i].magic, magic, GUEST_MAGIC_SIZE) == 0)
                        return &guest_codes[i];
        return NULL;
}
