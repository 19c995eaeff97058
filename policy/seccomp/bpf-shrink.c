/*
 * Shorter filters.
 *
 * Theory of operation. A filter of libseccomp's looks at the architecture, loads the call's number,
 * and goes from comparison to comparison of it to an instruction that is none: the exit. Which exit
 * a number has is a function of the number alone, so the comparisons are replaced: by a balanced
 * tree over the ranges of numbers that have the same exit. Its leaves are behind it: a copy of the
 * exit where that returns, a jump to it elsewhere. All other instructions follow in their order.
 *
 *      before the number is loaded | tree | leaves | what looks at arguments
 */
#include "policy/seccomp/bpf-shrink.h"

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
        EDGES_MOST = 2 * BPF_MAXINSNS + 1,
        JUMP_MOST = UINT8_MAX, /* of a comparison */
        LEAF = 1 << 15,        /* beside the index of a leaf, in the place of a node's */
};

/* Numbers from start to the next range's. */
struct range {
        uint32_t start;
        uint16_t exit;
};

struct node {
        uint16_t code;
        uint32_t k;
        uint16_t yes, no;
};

struct work {
        const struct sock_filter *in;
        size_t n, root;               /* the first comparison of the number, behind its load */
        bool reached[BPF_MAXINSNS];   /* and stays */
        bool by_number[BPF_MAXINSNS]; /* a comparison that makes way */
        uint32_t edges[EDGES_MOST];
        struct range ranges[EDGES_MOST];
        struct node nodes[EDGES_MOST];
        uint16_t leaves[JUMP_MOST]; /* exits */
        size_t n_edges, n_ranges, n_nodes, n_leaves;
        size_t at[BPF_MAXINSNS]; /* place in out */
        struct sock_filter out[BPF_MAXINSNS];
        size_t n_out;
};

static bool is_load(const struct sock_filter *i)
{
        return i->code == (BPF_LD | BPF_W | BPF_ABS);
}

static bool is_ja(const struct sock_filter *i)
{
        return i->code == (BPF_JMP | BPF_JA);
}

static bool is_conditional(const struct sock_filter *i)
{
        return BPF_CLASS(i->code) == BPF_JMP && !is_ja(i);
}

/* One that tells numbers apart, by a constant. */
static bool is_comparison(const struct sock_filter *i)
{
        return i->code == (BPF_JMP | BPF_JEQ | BPF_K) || i->code == (BPF_JMP | BPF_JGT | BPF_K) ||
               i->code == (BPF_JMP | BPF_JGE | BPF_K);
}

static bool is_return(const struct sock_filter *i)
{
        return i->code == (BPF_RET | BPF_K);
}

static bool compare(const struct sock_filter *i, uint32_t number)
{
        switch (BPF_OP(i->code)) {
        case BPF_JEQ:
                return number == i->k;
        case BPF_JGT:
                return number > i->k;
        default:
                return number >= i->k;
        }
}

/* "Load; and 0; equal to 0?" goes one way only. What it leaves in the accumulator must not matter
 * there. */
static bool is_idle(const struct work *w, size_t i, size_t *to)
{
        const struct sock_filter *at = w->in + i;

        if (i + 3 >= w->n || !is_load(at) || at[1].code != (BPF_ALU | BPF_AND | BPF_K) ||
            at[1].k != 0 || at[2].code != (BPF_JMP | BPF_JEQ | BPF_K) || at[2].k != 0)
                return false;
        *to = i + 3 + at[2].jt;
        return *to < w->n && (is_load(w->in + *to) || is_return(w->in + *to));
}

/* Where a jump to i ends that goes on at once. */
static size_t resolve(const struct work *w, size_t i)
{
        size_t to;

        for (;;) {
                if (i < w->n && is_ja(w->in + i))
                        i += 1 + (size_t)w->in[i].k;
                else if (i < w->n && is_idle(w, i, &to))
                        i = to;
                else
                        return i;
        }
}

/* Returns how many there are, at most 2; *ret beyond the program's end is for the caller to see. */
static size_t successors(const struct work *w, size_t i, size_t ret[static 2])
{
        const struct sock_filter *at = w->in + i;

        if (BPF_CLASS(at->code) == BPF_RET)
                return 0;
        ret[0] = is_conditional(at) ? resolve(w, i + 1 + at->jt)
                 : is_ja(at)        ? resolve(w, i)
                                    : i + 1;
        ret[1] = resolve(w, i + 1 + at->jf);
        return is_conditional(at) ? 2 : 1;
}

/* The last load of the number: what is before it looks at the architecture, and asks for numbers of
 * x32. */
static bool find_root(struct work *w)
{
        for (size_t i = w->n; i-- > 0;)
                if (is_load(w->in + i) && w->in[i].k == offsetof(struct seccomp_data, nr)) {
                        w->root = i + 1;
                        return resolve(w, w->root) < w->n;
                }
        return false;
}

/* A return that the tree leads to is copied to a leaf. */
static void mark_after_number(struct work *w, size_t i)
{
        if (is_comparison(w->in + i))
                w->by_number[i] = true;
        else if (!is_return(w->in + i))
                w->reached[i] = true;
}

/* Jumps go forward only: each instruction is seen after all that lead to it. False where one leads
 * out of the program. A comparison that is reached otherwise too, with something else loaded, makes
 * way for the number and stays for that. */
static bool mark(struct work *w)
{
        size_t to[2];

        w->reached[0] = true;
        mark_after_number(w, resolve(w, w->root));
        for (size_t i = 0; i < w->n; i++) {
                if (i + 1 == w->root || (!w->reached[i] && !w->by_number[i]))
                        continue;
                for (size_t k = successors(w, i, to); k-- > 0;) {
                        if (to[k] >= w->n)
                                return false;
                        if (w->by_number[i])
                                mark_after_number(w, to[k]);
                        w->reached[to[k]] |= w->reached[i];
                }
        }
        return w->reached[w->root - 1];
}

static int compare_numbers(const void *a, const void *b)
{
        const uint32_t *x = a, *y = b;
        return (*x > *y) - (*x < *y);
}

static size_t exit_of(const struct work *w, uint32_t number)
{
        size_t i = resolve(w, w->root);

        while (is_comparison(w->in + i))
                i = resolve(w, i + 1 + (compare(w->in + i, number) ? w->in[i].jt : w->in[i].jf));
        return i;
}

static bool same_exit(const struct work *w, size_t a, size_t b)
{
        return a == b || (is_return(w->in + a) && is_return(w->in + b) && w->in[a].k == w->in[b].k);
}

static void find_ranges(struct work *w)
{
        w->edges[w->n_edges++] = 0;
        for (size_t i = 0; i < w->n; i++) {
                if (!w->by_number[i])
                        continue;
                w->edges[w->n_edges++] = w->in[i].k;
                w->edges[w->n_edges++] = w->in[i].k + 1; /* 0 behind the last: an edge anyway */
        }
        qsort(w->edges, w->n_edges, sizeof(*w->edges), compare_numbers);
        for (size_t i = 0; i < w->n_edges; i++) {
                size_t exit = exit_of(w, w->edges[i]);
                if (w->n_ranges == 0 || !same_exit(w, w->ranges[w->n_ranges - 1].exit, exit))
                        w->ranges[w->n_ranges++] = (struct range){w->edges[i], (uint16_t)exit};
        }
}

/* Returns its place in the tree; sets *fits to false once there are more than a jump reaches. */
static uint16_t leaf(struct work *w, uint16_t exit, bool *fits)
{
        size_t i = 0;

        while (i < w->n_leaves && !same_exit(w, w->leaves[i], exit))
                i++;
        if (i == ARRAY_SIZE(w->leaves)) {
                *fits = false;
                return 0;
        }
        if (i == w->n_leaves)
                w->leaves[w->n_leaves++] = exit;
        return (uint16_t)(LEAF | i);
}

/* The tree of ranges low to high, as deep as their number has bits; returns the place of its root.
 */
static uint16_t grow(struct work *w, size_t low, size_t high, bool *fits)
{
        const struct range *r = w->ranges + low;

        if (low == high)
                return leaf(w, r[0].exit, fits);
        size_t i = w->n_nodes++;
        if (high - low == 2 && r[2].start == r[1].start + 1 && same_exit(w, r[0].exit, r[2].exit)) {
                w->nodes[i] = (struct node){BPF_JMP | BPF_JEQ | BPF_K, r[1].start,
                                            leaf(w, r[1].exit, fits), leaf(w, r[0].exit, fits)};
                return (uint16_t)i;
        }
        size_t middle = (low + high + 1) / 2;
        uint16_t yes = grow(w, middle, high, fits);
        uint16_t no = grow(w, low, middle - 1, fits);
        w->nodes[i] = (struct node){BPF_JMP | BPF_JGE | BPF_K, w->ranges[middle].start, yes, no};
        return (uint16_t)i;
}

static void place(struct work *w)
{
        size_t at = 0;

        for (size_t i = 0; i < w->n; i++) {
                if (i == w->root)
                        at += w->n_nodes + w->n_leaves;
                if (w->reached[i])
                        w->at[i] = at++;
        }
        w->n_out = at;
}

static bool put_jump(struct sock_filter *jump, size_t from, size_t yes, size_t no)
{
        size_t jt = yes - from - 1, jf = no - from - 1;

        jump->jt = (uint8_t)jt;
        jump->jf = (uint8_t)jf;
        return jt <= JUMP_MOST && jf <= JUMP_MOST;
}

static size_t node_at(const struct work *w, size_t tree, uint16_t node)
{
        return tree + (node & LEAF ? w->n_nodes + (size_t)(node & ~LEAF) : node);
}

static bool put_tree(struct work *w)
{
        size_t tree = w->at[w->root - 1] + 1;
        bool fits = true;

        for (size_t i = 0; i < w->n_nodes && fits; i++) {
                const struct node *node = &w->nodes[i];
                w->out[tree + i] = (struct sock_filter){.code = node->code, .k = node->k};
                fits = put_jump(&w->out[tree + i], tree + i, node_at(w, tree, node->yes),
                                node_at(w, tree, node->no));
        }
        for (size_t i = 0; i < w->n_leaves; i++) {
                size_t at = tree + w->n_nodes + i, exit = w->leaves[i];
                w->out[at] = is_return(w->in + exit)
                                     ? w->in[exit]
                                     : (struct sock_filter){.code = BPF_JMP | BPF_JA,
                                                            .k = (uint32_t)(w->at[exit] - at - 1)};
        }
        return fits;
}

static bool put_others(struct work *w)
{
        size_t to[2];
        bool fits = true;

        for (size_t i = 0; i < w->n && fits; i++) {
                if (!w->reached[i])
                        continue;
                struct sock_filter *out = &w->out[w->at[i]];
                *out = w->in[i];
                size_t n = successors(w, i, to);
                if (n == 2)
                        fits = put_jump(out, w->at[i], w->at[to[0]], w->at[to[1]]);
                else if (n == 1 && is_ja(out))
                        out->k = (uint32_t)(w->at[to[0]] - w->at[i] - 1);
        }
        return fits;
}

static bool shrink(struct work *w)
{
        bool fits = true;

        if (!find_root(w) || !mark(w))
                return false;
        find_ranges(w);
        grow(w, 0, w->n_ranges - 1, &fits);
        if (!fits)
                return false;
        place(w);
        return w->n_out < w->n && put_tree(w) && put_others(w);
}

size_t bpf_shrink(struct sock_filter *program, size_t n)
{
        _cleanup_free_ struct work *w = NULL;

        if (n == 0 || n > BPF_MAXINSNS || !(w = calloc(1, sizeof(*w))))
                return n;
        w->in = program;
        w->n = n;
        if (!shrink(w))
                return n;
        memcpy(program, w->out, w->n_out * sizeof(*program));
        return w->n_out;
}
