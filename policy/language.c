/* The names of the languages. */
#include "policy/language.h"

#include <stddef.h>
#include <string.h>

const char *const language_names[] = {"python", "javascript", NULL};

int language_parse(const char *name)
{
        for (int i = 0; i < LANGUAGE_MAX; i++)
                if (strcmp(language_names[i], name) == 0)
                        return i;
        return -1;
}
