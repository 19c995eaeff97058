/* A worker's DATA: a piece of a file or a list of files. The first byte says which was requested.
 */
#include "supervisor/session/calls/files.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/file-path.h"

enum { MOST = 64 };

static void check_answer(const struct file_answer *answer)
{
        assert(answer->data.length <= MOST);
        assert(strlen(answer->version) <= FILES_VERSION_MAX);
        assert(answer->files_total >= answer->n_files);
        for (size_t i = 0; i < answer->n_files; i++)
                assert(file_path_valid(answer->files[i].path, strlen(answer->files[i].path)));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct file_question question = {.type = FRAME_FETCH, .length = MOST};
        struct error err = {}, refusal = {};
        struct file_answer answer;

        if (n == 0)
                return false;
        question.is_list = data[0] == 'L';
        const struct frame_header header = {.length = (uint32_t)(n - 1), .type = FRAME_DATA};
        struct frame_body body = {.bytes = (const char *)data + 1, .n = n - 1};
        yyjson_val *root = NULL;
        int r = frame_body_parse(&body, &header, &root, &err);
        if (r >= 0)
                r = file_answer_take(&question, root, &answer, &refusal, &err);
        frame_body_done(&body);
        assert(r >= 0 || error_is_set(&err));
        assert(r != 0 || error_is_set(&refusal));
        if (r > 0) {
                check_answer(&answer);
                file_answer_done(&answer);
        }
        return r >= 0;
}

FUZZ_TARGET
