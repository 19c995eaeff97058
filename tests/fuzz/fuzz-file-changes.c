/* Reports of init about changed files: the paths are chosen by the code. */
#include "rpc/file-changes.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *bytes = (const char *)data, *path;
        struct file_changes_reader reader;
        struct file_changes_entry entry;
        size_t entries = 0;
        int r;

        file_changes_read(&reader, bytes, n);
        while ((r = file_changes_next(&reader, &entry, &path)) > 0) {
                assert(entry.change < FILE_CHANGE_MAX);
                assert(entry.length > 0 && entry.length <= FILE_CHANGES_PATH_MAX);
                assert(path >= bytes && path + entry.length <= bytes + n);
                entries++;
        }
        assert(entries * (sizeof(entry) + 1) <= n);
        if (r < 0)
                return false;
        assert(reader.next == reader.end && reader.sum.limit < FILE_CHANGES_LIMIT_MAX);
        return reader.is_begun;
}

FUZZ_TARGET
