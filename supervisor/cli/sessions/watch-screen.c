/* The terminal of `cloister sessions --watch`. */
#include "supervisor/cli/sessions/watch-screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/fd.h"

/* The alternate screen, no cursor, no line breaks at the edge; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

void watch_screen_measure(struct watch_screen *screen)
{
        struct winsize size = {};

        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        screen->columns = size.ws_col > 0 ? size.ws_col : 80;
        screen->rows = size.ws_row > 0 ? size.ws_row : 24;
}

void watch_screen_enter(struct watch_screen *screen)
{
        struct termios modes;

        watch_screen_measure(screen);
        screen->has_modes = tcgetattr(STDIN_FILENO, &screen->modes) == 0;
        if (screen->has_modes) {
                modes = screen->modes;
                modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
                tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
        }
        fd_write_all(STDOUT_FILENO, ENTER, sizeof(ENTER) - 1);
        screen->is_entered = true;
}

void watch_screen_leave(struct watch_screen *screen)
{
        if (!screen->is_entered)
                return;
        screen->is_entered = false;
        fd_write_all(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
        if (screen->has_modes)
                tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->modes);
}

int watch_screen_line(const struct watch_screen *screen, const char *text, struct buffer *to)
{
        size_t n = strlen(text), at = 0, used = 0;
        mbstate_t state = {};

        while (at < n) {
                wchar_t c;
                size_t length = mbrtowc(&c, text + at, n - at, &state);
                if (length == 0 || length > n - at)
                        break;
                int width = wcwidth(c);
                used += width > 0 ? (size_t)width : 0;
                if (used > screen->columns)
                        break;
                at += length;
        }
        int r = buffer_append(to, text, at);
        return r < 0 ? r : buffer_append_text(to, "\033[K\n");
}
