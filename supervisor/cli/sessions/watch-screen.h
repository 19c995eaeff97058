/* The alternate screen of a terminal, and lines that fit it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/buffer.h"

struct watch_screen {
        bool is_entered, has_modes;
        struct termios modes; /* before */
        size_t columns, rows;
};

/* Switches to the alternate screen, and keys are read without a newline and not shown. */
void watch_screen_enter(struct watch_screen *screen);
/* As it was before. May be called twice. */
void watch_screen_leave(struct watch_screen *screen);
void watch_screen_measure(struct watch_screen *screen);

/* Appends a line of valid UTF-8 without control characters, cut to the width. */
int watch_screen_line(const struct watch_screen *screen, const char *text, struct buffer *to);
