/* Limited capture of a stream, and its truncation for a reply. */
#include "supervisor/session/cell/output.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void capture_init(struct capture *c)
{
        *c = (struct capture){
                .head = BUFFER_INIT(CAPTURE_KEEP),
                .tail = BUFFER_INIT(2 * CAPTURE_KEEP),
                .head_most = CAPTURE_KEEP,
                .tail_keep = CAPTURE_KEEP,
        };
}

size_t capture_bytes(const struct capture *c)
{
        return c->head.allocated + c->tail.allocated;
}

size_t capture_growth(const struct capture *c, size_t n)
{
        bool to_head = c->tail.length == 0 && c->head.length + n <= c->head_most;
        const struct buffer *b = to_head ? &c->head : &c->tail;

        if ((b->data && buffer_room(b) >= n) || (!to_head && b->allocated >= 2 * c->tail_keep))
                return 0;
        return b->allocated + n;
}

void capture_squeeze(struct capture *c)
{
        size_t least = c->tail.allocated / 2;

        c->head_most = c->head.length;
        c->tail_keep = least > CAPTURE_LEAST ? least : CAPTURE_LEAST;
}

void capture_done(struct capture *c)
{
        buffer_done(&c->head);
        buffer_done(&c->tail);
        capture_init(c);
}

void capture_clear(struct capture *c)
{
        struct capture_mark end = capture_end(c);

        capture_done(c);
        c->cleared = end;
}

/* The tail holds the newest tail_keep to 2 * tail_keep bytes, so that they are moved only once per
 * tail_keep bytes. It may begin within a character. */
static int append_tail(struct capture *c, const char *text, size_t n)
{
        struct buffer *tail = &c->tail;
        size_t keep = c->tail_keep;

        if (n > keep) {
                text += n - keep;
                n = keep;
        }
        if (tail->length + n > 2 * keep && tail->length > keep)
                buffer_consume(tail, tail->length - keep);
        return buffer_append(tail, text, n);
}

static int take_text(void *data, const char *text, size_t n)
{
        struct capture *c = data;

        c->characters += utf8_count(text, n);
        c->has_return = c->has_return || memchr(text, '\r', n);
        c->text_bytes += n;

        /* Whole characters only: the head is complete once one did not fit. */
        size_t room = c->tail.length > 0 ? 0 : c->head_most - c->head.length;
        size_t first = n <= room ? n : room;
        while (first < n && first > 0 && ((unsigned char)text[first] & 0xc0) == 0x80)
                first--;
        int r = buffer_append(&c->head, text, first);
        if (r >= 0 && first < n)
                r = append_tail(c, text + first, n - first);
        return r;
}

int capture_append(struct capture *c, const char *bytes, size_t n)
{
        c->bytes += n;
        return utf8_feed(&c->stream, bytes, n, take_text, c);
}

int capture_finish(struct capture *c)
{
        return utf8_finish(&c->stream, take_text, c);
}

/* 1234567 as "1,234,567". */
static const char *grouped(uint64_t number, char to[32])
{
        char digits[24];
        int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
        char *out = to;

        for (int i = 0; i < n; i++) {
                if (i > 0 && (n - i) % 3 == 0)
                        *out++ = ',';
                *out++ = digits[i];
        }
        *out = '\0';
        return to;
}

/* Moves the end of the head back to the end of a line if one is within an eighth of it. */
static size_t snap_head(const char *text, size_t end)
{
        for (size_t at = end; at > end - end / 8; at--) {
                if (text[at - 1] == '\n')
                        return at;
        }
        return end;
}

/* Moves the start of the tail forward to the start of a line if one is within an eighth of it. */
static size_t snap_tail(const char *text, size_t begin, size_t n)
{
        for (size_t at = begin; at < begin + (n - begin) / 8; at++) {
                if (text[at] == '\n')
                        return at + 1;
        }
        return begin;
}

static int append_notice(struct buffer *to, bool after_newline, uint64_t cut, uint64_t total)
{
        char a[32], b[32];

        return buffer_printf(
                to,
                "%s[... %s of %s characters cut here; print less, or call with a larger max_output ...]\n",
                after_newline ? "" : "\n", grouped(cut, a), grouped(total, b));
}

/* A text in two pieces, with or without a gap of lost characters between them. */
struct pieces {
        const char *head, *tail;
        size_t n_head, n_tail;
        uint64_t characters; /* lost ones included */
        bool is_lost;        /* some are, between the pieces */
};

static int append_cut(const struct pieces *p, size_t most, struct buffer *to)
{
        size_t head_end = snap_head(p->head, utf8_skip(p->head, p->n_head, most / 2));

        /* Unless characters are lost between the pieces, the last ones may begin in the head. */
        size_t wanted = most - most / 2;
        size_t tail_begin = utf8_skip_back(p->tail, p->n_tail, &wanted);
        size_t middle = p->is_lost ? p->n_head : utf8_skip_back(p->head, p->n_head, &wanted);
        if (middle == p->n_head)
                tail_begin = snap_tail(p->tail, tail_begin, p->n_tail);
        else if (p->n_tail == 0)
                middle = snap_tail(p->head, middle, p->n_head);

        uint64_t shown = utf8_count(p->head, head_end) +
                         utf8_count(p->head + middle, p->n_head - middle) +
                         utf8_count(p->tail + tail_begin, p->n_tail - tail_begin);
        int r = buffer_append(to, p->head, head_end);
        if (r >= 0)
                r = append_notice(to, head_end == 0 || p->head[head_end - 1] == '\n',
                                  p->characters - shown, p->characters);
        if (r >= 0)
                r = buffer_append(to, p->head + middle, p->n_head - middle);
        if (r >= 0)
                r = buffer_append(to, p->tail + tail_begin, p->n_tail - tail_begin);
        return r;
}

static int append_pieces(const struct pieces *p, size_t most, struct buffer *to, bool *cut)
{
        *cut = p->characters > most || p->is_lost;
        if (*cut)
                return append_cut(p, most, to);
        int r = buffer_append(to, p->head, p->n_head);
        return r < 0 ? r : buffer_append(to, p->tail, p->n_tail);
}

struct capture_mark capture_end(const struct capture *c)
{
        return (struct capture_mark){c->cleared.text_bytes + c->text_bytes,
                                     c->cleared.characters + c->characters};
}

/* Appends the characters of a line from the given one on. Returns how many there are in all. */
static size_t append_from(const char *text, size_t n, size_t from, struct buffer *to, int *r)
{
        size_t characters = utf8_count(text, n);

        if (characters > from && *r >= 0) {
                size_t skip = utf8_skip(text, n, from);
                *r = buffer_append(to, text + skip, n - skip);
        }
        return characters > from ? characters : from;
}

static void trim_blanks(struct buffer *to, size_t begin)
{
        while (to->length > begin && buffer_bytes(to)[to->length - 1] == ' ')
                to->length--;
}

/* Appends a line without its end, as a terminal shows it: the last text, then the rest of longer earlier ones. */
static int collapse_line(const char *text, size_t n, struct buffer *to)
{
        size_t begin = to->length, shown = 0;
        int r = 0;

        if (n == 0 || !memchr(text, '\r', n))
                return buffer_append(to, text, n);
        for (size_t end = n; r >= 0;) {
                const char *back = end > 0 ? memrchr(text, '\r', end) : NULL;
                size_t from = back ? (size_t)(back - text) + 1 : 0;
                shown = append_from(text + from, end - from, shown, to, &r);
                if (!back)
                        break;
                end = (size_t)(back - text);
        }
        trim_blanks(to, begin);
        return r;
}

int output_collapse(const char *text, size_t n, struct buffer *to)
{
        int r = 0;

        for (size_t at = 0; at < n && r >= 0;) {
                const char *newline = memchr(text + at, '\n', n - at);
                size_t end = newline ? (size_t)(newline - text) : n;
                size_t line = end > at && newline && text[end - 1] == '\r' ? end - 1 : end;
                r = collapse_line(text + at, line - at, to);
                if (r >= 0)
                        r = buffer_append(to, text + line, end - line + (newline != NULL));
                at = end + 1;
        }
        return r;
}

static struct pieces pieces_from(const struct capture *c, struct capture_mark mark)
{
        bool is_after = mark.text_bytes > c->cleared.text_bytes;
        uint64_t from = is_after ? mark.text_bytes - c->cleared.text_bytes : 0;
        uint64_t before = is_after ? mark.characters - c->cleared.characters : 0;
        uint64_t tail_at = c->text_bytes - c->tail.length;
        size_t head_used = from < c->head.length ? (size_t)from : c->head.length;
        size_t tail_used = from > tail_at ? (size_t)(from - tail_at) : 0;

        assert(from <= c->text_bytes);
        return (struct pieces){
                .head = buffer_bytes(&c->head) + head_used,
                .n_head = c->head.length - head_used,
                .tail = buffer_bytes(&c->tail) + tail_used,
                .n_tail = c->tail.length - tail_used,
                .characters = c->characters - before,
                .is_lost = tail_at > c->head.length && from < tail_at,
        };
}

static int render_from(const struct capture *c, struct capture_mark mark, size_t most,
                       struct buffer *to, bool *cut)
{
        const struct pieces pieces = pieces_from(c, mark);

        return append_pieces(&pieces, most, to, cut);
}

int capture_render_shown(const struct capture *c, struct capture_mark mark, size_t most,
                         struct buffer *to, bool *cut)
{
        _cleanup_buffer_ struct buffer head = BUFFER_INIT(4 * CAPTURE_KEEP),
                                       tail = BUFFER_INIT(4 * CAPTURE_KEEP);

        if (!c->has_return)
                return render_from(c, mark, most, to, cut);
        struct pieces p = pieces_from(c, mark);
        struct buffer *second = p.is_lost ? &tail : &head;
        /* A tail that follows the head continues its last line. */
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(4 * CAPTURE_KEEP);
        int r = buffer_append(&whole, p.head, p.n_head);
        if (r >= 0 && p.is_lost)
                r = output_collapse(buffer_bytes(&whole), whole.length, &head);
        if (r >= 0 && p.is_lost)
                buffer_consume(&whole, whole.length);
        if (r >= 0)
                r = buffer_append(&whole, p.tail, p.n_tail);
        if (r >= 0)
                r = output_collapse(buffer_bytes(&whole), whole.length, second);
        if (r < 0)
                return r;
        p.head = buffer_bytes(&head);
        p.n_head = head.length;
        p.tail = buffer_bytes(&tail);
        p.n_tail = tail.length;
        if (!p.is_lost)
                p.characters = utf8_count(p.head, p.n_head);
        return append_pieces(&p, most, to, cut);
}

int capture_render(const struct capture *c, size_t most, struct buffer *to, bool *cut)
{
        return render_from(c, (struct capture_mark){}, most, to, cut);
}

int output_cut(const char *text, size_t n, size_t most, struct buffer *to, bool *cut)
{
        const struct pieces pieces = {
                .head = text,
                .n_head = n,
                .characters = utf8_count(text, n),
        };
        return append_pieces(&pieces, most, to, cut);
}

int capture_begin(const struct capture *c, size_t most, struct buffer *to, bool *cut)
{
        const char *head = c->head.length > 0 ? buffer_bytes(&c->head) : "";
        const char *tail = c->tail.length > 0 ? buffer_bytes(&c->tail) : "";
        size_t from_head = utf8_cut(head, c->head.length, most), from_tail = 0;

        /* The tail follows the head unless something between them was dropped. */
        if (from_head == c->head.length && c->head.length + c->tail.length == c->text_bytes)
                from_tail = utf8_cut(tail, c->tail.length, most - from_head);
        *cut = from_head + from_tail < c->text_bytes;
        int r = buffer_append(to, head, from_head);
        return r < 0 ? r : buffer_append(to, tail, from_tail);
}
