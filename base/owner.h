/* Who files belong to. */
#pragma once

#include <sys/types.h>

enum { OWNER_TEXT_SIZE = 64, OWNER_NAME_SIZE = 81 };

/* "root", "uid 5 (games)", "uid 5". */
void owner_describe(uid_t uid, char ret[OWNER_TEXT_SIZE]);

struct owner_difference {
        char name[OWNER_NAME_SIZE];          /* printable; "": the directory itself */
        char found[OWNER_TEXT_SIZE];         /* as owner_describe() has it */
        char expected[OWNER_TEXT_SIZE];      /* name of the requested owner */
        char expected_name[OWNER_TEXT_SIZE]; /* as a command takes it: "root", "games", "5" */
};

/*
 * Looks whether a directory belongs to uid, and each name that is directly in it (links are not
 * followed). directory: any descriptor of it, O_PATH too. Returns 0 if all do, 1 and the first one
 * that does not, or negative errno.
 */
int owner_compare(int directory, uid_t uid, struct owner_difference *ret);
