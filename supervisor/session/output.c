/* Limited capture of a stream, and its truncation for a reply. */
#include "supervisor/session/output.h"

#include <errno.h>
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

int capture_render(const struct capture *c, size_t most, struct buffer *to, bool *cut)
{
        const struct pieces pieces = {
                .head = buffer_bytes(&c->head),
                .n_head = c->head.length,
                .tail = buffer_bytes(&c->tail),
                .n_tail = c->tail.length,
                .characters = c->characters,
                .is_lost = c->text_bytes > c->head.length + c->tail.length,
        };
        return append_pieces(&pieces, most, to, cut);
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
