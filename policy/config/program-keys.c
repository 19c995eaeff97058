/* "program" of a profile. */
#include "policy/config/program-keys.h"

#include <string.h>

#include "policy/image.h"
#include "policy/language.h"

enum { LANGUAGE_NAME_MAX = 32 };

/* An unknown key is only a warning, a missing one changes what is run. */
int config_check_program(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const struct config_program *p = config_member(key, r->into);

        if (p->language && p->file && p->commands)
                return 0;
        config_reset(key, r->into);
        return config_mistake(r, value, "program needs \"language\", \"file\" and \"commands\"");
}

int config_check_program_language(struct config_reading *r, const struct config_key *key,
                                  yyjson_val *value)
{
        const char *name = ((const struct config_program *)r->into)->language;
        size_t n = strlen(name);

        if (language_parse(name) >= 0)
                return config_mistake(
                        r, value, "language: \"%s\" is the profile's \"language\", not a program's",
                        name);
        if (n <= LANGUAGE_NAME_MAX &&
            strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+#_.-") == n)
                return 0;
        return config_mistake(
                r, value,
                "language must be a name of small letters, digits and + # _ . - (at most %d)",
                LANGUAGE_NAME_MAX);
}

int config_check_program_file(struct config_reading *r, const struct config_key *key,
                              yyjson_val *value)
{
        const char *name = ((const struct config_program *)r->into)->file;

        /* Names of files have the same form as those of images, and do not begin as options do. */
        if (image_name_valid(name) && name[0] != '-')
                return 0;
        return config_mistake(
                r, value, "file must be the name of a file such as \"main.go\", without a folder");
}

int config_check_program_commands(struct config_reading *r, const struct config_key *key,
                                  yyjson_val *value)
{
        char *const *list = ((const struct config_program *)r->into)->commands;

        if (!list || !list[0])
                return config_mistake(r, value, "commands must be an array of 1 to %d strings",
                                      CONFIG_COMMANDS_MAX);
        for (size_t i = 0; list[i]; i++) {
                size_t n = strlen(list[i]);
                bool quoted = false;
                for (const char *c = list[i]; *c; c++)
                        quoted ^= *c == '\'';
                if (n > CONFIG_COMMAND_BYTES_MAX || strspn(list[i], " \t") == n ||
                    list[i][strcspn(list[i], "\r\n")] || quoted)
                        return config_mistake(
                                r, yyjson_arr_get(value, i),
                                "commands: item %zu must be a program and its arguments in one line (at most %d bytes), with single quotes in pairs",
                                i + 1, CONFIG_COMMAND_BYTES_MAX);
        }
        return 0;
}
