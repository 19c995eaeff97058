/* Finds the name that is nearest to an unknown word, for messages. */
#pragma once

/* NULL when nothing is near: more than a third of the word's letters would have to change. Case
 * does not count. names ends with NULL. */
const char *did_you_mean(const char *word, const char *const *names);
