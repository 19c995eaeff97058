/* Bytes of a picture, checked in a child, as cloister-pictures does it. Accepted when a picture is sent. */
#include <assert.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/pictures/check.h"
#include "tests/fuzz/fuzz.h"

enum { SIDE = 2000, MOST = 100000, SECONDS = 20 };

static void check(const uint8_t *data, size_t n, int to)
{
        struct picture_answer answer;
        uint8_t *made = NULL;
        size_t n_made = 0;

        alarm(SECONDS);
        picture_check(data, n, SIDE, MOST, &answer, &made, &n_made);
        assert((answer.verdict == PICTURE_MADE) == (made != NULL) && n_made <= MOST);
        if (made) {
                struct picture_answer again;
                uint8_t *none = NULL;
                picture_check(made, n_made, SIDE, MOST, &again, &none, &n_made);
                assert(again.verdict == PICTURE_FINE && again.type == answer.made &&
                       again.width == answer.made_width && again.height == answer.made_height);
        }
        _exit(write(to, &answer, sizeof(answer)) != sizeof(answer));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct picture_answer answer = {};
        int ends[2], status;

        if (pipe(ends) < 0)
                abort();
        pid_t pid = fork();
        assert(pid >= 0);
        if (pid == 0)
                check(data, n, ends[1]);
        close(ends[1]);
        assert(read(ends[0], &answer, sizeof(answer)) == sizeof(answer));
        close(ends[0]);
        assert(waitpid(pid, &status, 0) == pid && status == 0);
        assert(answer.verdict != PICTURE_UNCHECKED && answer.verdict < PICTURE_VERDICT_MAX);
        return answer.verdict != PICTURE_REFUSED;
}

FUZZ_TARGET
