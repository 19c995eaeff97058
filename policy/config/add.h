/* Reads the files of a config, and completes it. */
#pragma once

#include "policy/config/config.h"

/*
 * Adds one file. name is for messages. A syntax error or a wrong type is an error, and no part of
 * the file is used. A server entry that cannot be used is kept with its problem, so that an error
 * can name it. A second server of the same name does not replace the first: it gets a problem, and
 * so does an entry that would start Cloister itself.
 */
int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err);

/* As config_add(), for a file of another layer than the user's. */
int config_add_layer(struct config *config, enum config_layer layer, const char *name,
                     const char *data, size_t n, struct error *err);

/* The code of a published entry that has a file, read by the caller. Returns 0, -EINVAL, -EPROTO (the
 * entry has none) or -ENOMEM. */
int config_set_code(struct config *config, size_t index, const char *code, size_t n,
                    struct error *err);

/* Call once, after the last file: completes the profiles. Returns 0, -EINVAL (a missing profile is
 * referred to; the message has file and line) or -ENOMEM. May add warnings. */
int config_finish(struct config *config, struct error *err);

/* After config_finish(): the language of a profile; NULL: the usual one. With another language than the config says, it has the
 * default image. */
void config_set_language(struct config *config, const char *profile, enum language language);

/* After config_finish(): adds the mounts of an object with the key "mounts" (JSON) to a profile; NULL: the
 * usual one. They are checked as those of a file. name is for messages. */
int config_add_mounts(struct config *config, const char *profile, const char *name,
                      const char *text, struct error *err);
