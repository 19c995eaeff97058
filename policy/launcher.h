/*
 * The command of cloister-launcher: the loader of another image, with its libraries, and that image's Python. The builder of an
 * image writes it into the copy of the program that the image gets; the program finds it in its own data.
 */
#pragma once

#define LAUNCHER_MARK "cloister-launcher slots 1"

enum { LAUNCHER_PATH_MAX = 1024, LAUNCHER_LIBRARIES_MAX = 4096 };

/* Absolute paths inside the image. */
struct launcher_slots {
        char mark[32]; /* LAUNCHER_MARK */
        char loader[LAUNCHER_PATH_MAX];
        char libraries[LAUNCHER_LIBRARIES_MAX]; /* separated by colons */
        char self
                [LAUNCHER_PATH_MAX]; /* the launcher, beside the program: Python finds its modules from there */
        char program[LAUNCHER_PATH_MAX];
};
