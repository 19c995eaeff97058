/* Changes in a session's /workspace, as its init reports them to the broker. */
#include "rpc/file-changes.h"

#include <errno.h>
#include <string.h>

/* Too large a number is one that init does not send. */
static int add(uint32_t *sum, uint32_t number)
{
        return __builtin_add_overflow(*sum, number, sum) ? -EBADMSG : 0;
}

static int take_message(struct file_changes_reader *r)
{
        struct file_changes_message message;

        if ((size_t)(r->end - r->next) < sizeof(message))
                return -EBADMSG;
        memcpy(&message, r->next, sizeof(message));
        r->next += sizeof(message);
        if (message.is_more > 1 || (message.is_more && !r->is_begun) ||
            message.limit >= FILE_CHANGES_LIMIT_MAX)
                return -EBADMSG;
        r->is_begun = true;
        r->sum.n = message.n;
        if (r->sum.limit == FILE_CHANGES_WHOLE)
                r->sum.limit = message.limit;
        for (int i = 0; i < FILE_CHANGE_MAX; i++) {
                if (add(&r->sum.number[i], message.number[i]) < 0)
                        return -EBADMSG;
        }
        return add(&r->sum.unreadable, message.unreadable);
}

void file_changes_read(struct file_changes_reader *r, const char *bytes, size_t n)
{
        *r = (struct file_changes_reader){.next = bytes, .end = bytes + n};
}

int file_changes_next(struct file_changes_reader *r, struct file_changes_entry *entry,
                      const char **path)
{
        while (r->sum.n == 0) {
                if (r->next == r->end)
                        return 0;
                int e = take_message(r);
                if (e < 0)
                        return e;
        }
        if ((size_t)(r->end - r->next) < sizeof(*entry))
                return -EBADMSG;
        memcpy(entry, r->next, sizeof(*entry));
        r->next += sizeof(*entry);
        if (entry->change >= FILE_CHANGE_MAX || entry->length == 0 ||
            entry->length > FILE_CHANGES_PATH_MAX || entry->length > r->end - r->next)
                return -EBADMSG;
        *path = r->next;
        r->next += entry->length;
        r->sum.n--;
        return 1;
}
