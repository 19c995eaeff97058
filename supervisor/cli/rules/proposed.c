/* The commands about proposed rules. */
#include "supervisor/cli/rules/proposed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "supervisor/cli/rules/opened-config.h"
#include "supervisor/cli/rules/proposals.h"
#include "supervisor/cli/rules/rule-insert.h"

enum { OUTPUT_MAX = 64 * 1024 * 1024, RULE_MAX = 64 * 1024 };

/* cloister-journal may have printed the error. */
static int fail(const struct error *err)
{
        return error_is_set(err) ? cli_fail(1, err) : 1;
}

/* ---- proposed ---- */

/* Code chose the arguments: control characters and those that change the direction of text are escaped. */
static int print_proposal(const struct proposal *p)
{
        _cleanup_buffer_ struct buffer rule = BUFFER_INIT(RULE_MAX), shown = BUFFER_INIT(RULE_MAX);
        char text[600];

        if (proposal_rule(p, &rule) < 0 ||
            printable_json(&shown, buffer_bytes(&rule), rule.length) < 0)
                return cli_fail_text(1, "out of memory");
        snprintf(text, sizeof(text), "%s  %.19s  %s%s%s  asked by %s", p->id, p->time, p->principal,
                 *p->principal ? ":" : "", p->session, p->rule);
        printable_print(stdout, text);
        printf("\n  %.*s\n", (int)shown.length, buffer_bytes(&shown));
        return 0;
}

static void put_proposal(struct json_out *out, const struct proposal *p)
{
        _cleanup_buffer_ struct buffer rule = BUFFER_INIT(RULE_MAX);

        json_out_begin(out, NULL, '{');
        json_out_text(out, "id", p->id);
        json_out_text(out, "t", p->time);
        json_out_text(out, "principal", p->principal);
        json_out_text(out, "session", p->session);
        json_out_text(out, "profile", p->profile);
        json_out_text(out, "asked", p->rule);
        if (proposal_rule(p, &rule) < 0)
                json_out_fail(out, -ENOMEM);
        json_out_buffer(out, "rule", &rule);
        json_out_end(out, '}');
}

static int print_list(const struct options *o, const struct proposals *all)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OUTPUT_MAX),
                                       shown = BUFFER_INIT(OUTPUT_MAX);
        struct json_out out = {.to = &text};
        size_t n = 0;

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < all->n; i++) {
                if (all->list[i].is_decided)
                        continue;
                n++;
                if (o->json)
                        put_proposal(&out, &all->list[i]);
                else if (print_proposal(&all->list[i]) != 0)
                        return 1;
        }
        json_out_end(&out, ']');
        if (!o->json && n == 0)
                fprintf(stderr, "No proposed rules.\n");
        if (all->n_left_out > 0)
                fprintf(stderr, "%zu older ones are left out.\n", all->n_left_out);
        if (!o->json)
                return 0;
        if (out.error < 0 || printable_json(&shown, buffer_bytes(&text), text.length) < 0)
                return cli_fail_text(1, "out of memory");
        printf("%.*s\n", (int)shown.length, buffer_bytes(&shown));
        return 0;
}

int cli_rules_proposed(const struct options *o, const char *const *words, size_t n)
{
        struct error err = {};
        struct proposals *all = proposals_read(&err);
        int status = all ? print_list(o, all) : fail(&err);

        proposals_free(all);
        return status;
}

/* ---- accept ---- */

static const struct proposal *find(const struct proposals *all, const char *id, struct error *err)
{
        const struct proposal *found = NULL;

        for (size_t i = 0; i < all->n; i++) {
                if (all->list[i].is_decided || strcmp(all->list[i].id, id) != 0)
                        continue;
                if (found) {
                        error_set(err, EBADMSG,
                                  "two proposals have the id %.40s: write the rule yourself", id);
                        return NULL;
                }
                found = &all->list[i];
        }
        if (!found)
                error_set(err, ENOENT,
                          "no proposed rule has the id %.40s (see 'cloister rules proposed')", id);
        return found;
}

/* The rule that asked, in the profile of the call. */
static const struct rule *find_asking(const struct opened_config *opened, const struct proposal *p)
{
        for (size_t i = 0; i < opened->config->n_profiles; i++) {
                const struct config_profile *profile = &opened->config->profiles[i];
                if (strcmp(profile->name, p->profile) != 0)
                        continue;
                for (size_t k = 0; k < rules_count(profile->compiled_rules); k++) {
                        const struct rule *rule = rules_at(profile->compiled_rules, k);
                        if (rule->key == p->key && rule->effect == RULES_ASK)
                                return rule;
                }
        }
        return NULL;
}

static int find_file(const struct opened_config *opened, const char *path, size_t *ret)
{
        for (size_t i = 0; i < config_files_count(opened->files); i++) {
                *ret = i;
                if (config_files_code(opened->files, i) == 0 &&
                    strcmp(config_files_path(opened->files, i), path) == 0)
                        return 0;
        }
        return -ENOENT;
}

static int write_rule(const struct options *o, const struct opened_config *opened,
                      const struct proposal *p, const struct rule *asking, struct error *err)
{
        _cleanup_buffer_ struct buffer rule = BUFFER_INIT(RULE_MAX),
                                       text = BUFFER_INIT(2 * CONFIG_FILE_SIZE_MAX),
                                       shown = BUFFER_INIT(OUTPUT_MAX);
        _cleanup_(entry_text_done) struct entry_text file = {};
        const char *path = asking->file;
        size_t index = 0;

        if (find_file(opened, path, &index) < 0 ||
            entry_text_read(&file, path, CONFIG_FILE_SIZE_MAX, err) <= 0)
                return error_set(err, ENOENT, "%s cannot be read again", path);
        int r = proposal_rule(p, &rule);
        if (r >= 0)
                r = buffer_append(&rule, "", 1);
        if (r < 0)
                return error_errno(err, -r, "the rule");
        r = rule_insert(&file, asking->is_own ? p->profile : NULL, asking->number - 1,
                        buffer_bytes(&rule), &text, err);
        if (r < 0)
                return error_context(err, "%s", path);
        r = opened_config_try(opened, index, buffer_bytes(&text), text.length, err);
        if (r >= 0 && !o->dry_run)
                r = entry_text_unchanged(&file, path, err);
        if (r >= 0 && !o->dry_run)
                r = entry_text_write(path, &text, false, err);
        if (r >= 0 && printable_json(&shown, buffer_bytes(&rule), rule.length - 1) < 0)
                r = error_errno(err, ENOMEM, "the rule");
        if (r >= 0)
                printf("%s %s, line %zu: %.*s\n", o->dry_run ? "would write" : "wrote", path,
                       asking->line, (int)shown.length, buffer_bytes(&shown));
        return r;
}

static int accept_proposal(const struct options *o, struct proposals *all, const char *id,
                           struct error *err)
{
        const struct proposal *p = find(all, id, err);
        struct opened_config opened;

        if (!p)
                return -ENOENT;
        int r = opened_config_open(&opened, o, err);
        const struct rule *asking = r >= 0 ? find_asking(&opened, p) : NULL;
        if (r >= 0 && !asking)
                r = error_set(
                        err, ENOENT,
                        "the rule that asked (%.200s) was changed or removed: nothing was written",
                        p->rule);
        if (r >= 0)
                r = write_rule(o, &opened, p, asking, err);
        opened_config_close(&opened);
        return r >= 0 && !o->dry_run ? proposals_decide(all, p, err) : r;
}

static int reject_proposal(const struct options *o, struct proposals *all, const char *id,
                           struct error *err)
{
        const struct proposal *p = find(all, id, err);

        return p ? proposals_decide(all, p, err) : -ENOENT;
}

static int decide(const struct options *o, const char *const *words, size_t n, const char *verb,
                  int (*function)(const struct options *o, struct proposals *all, const char *id,
                                  struct error *err))
{
        struct error err = {};

        if (n == 0)
                return cli_fail_text(
                        2, "rules %s: an ID is missing (see 'cloister rules proposed')", verb);
        struct proposals *all = proposals_read(&err);
        int r = all ? function(o, all, words[0], &err) : -1;
        proposals_free(all);
        return r < 0 ? fail(&err) : 0;
}

int cli_rules_accept(const struct options *o, const char *const *words, size_t n)
{
        return decide(o, words, n, "accept", accept_proposal);
}

int cli_rules_reject(const struct options *o, const char *const *words, size_t n)
{
        return decide(o, words, n, "reject", reject_proposal);
}
