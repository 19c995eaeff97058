/* The report of the doctor, as a table or as JSON. */
#include "supervisor/doctor/report.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"

enum { REPORT_MAX = 1024 * 1024, REMEDY_SIZE = 1024 };

static const char *const state_names[] = {
        [DOCTOR_EFFECTIVE] = "effective",
        [DOCTOR_DEGRADED] = "degraded",
        [DOCTOR_MISSING] = "missing",
};
static_assert(sizeof(state_names) / sizeof(state_names[0]) == DOCTOR_STATE_MAX,
              "a name for each state");

void doctor_add(struct doctor *d, const char *name, enum doctor_state state, bool required,
                const char *fix, const char *format, ...)
{
        va_list args;

        if (d->count == DOCTOR_FINDINGS_MAX)
                return;
        struct doctor_finding *f = &d->items[d->count++];
        *f = (struct doctor_finding){.name = name, .state = state, .required = required};
        snprintf(f->fix, sizeof(f->fix), "%s", fix && state != DOCTOR_EFFECTIVE ? fix : "");
        va_start(args, format);
        vsnprintf(f->detail, sizeof(f->detail), format, args);
        va_end(args);
}

static bool holds(const struct doctor *d, const struct doctor_problem *kind)
{
        return d->system && kind->holds(d->system);
}

/* A sandbox ran although this layer is missing. */
static enum doctor_state effect_of(const struct doctor *d, enum doctor_state state)
{
        return d->tried && d->status == 0 && state == DOCTOR_MISSING ? DOCTOR_DEGRADED : state;
}

const char *attempt_fix(const struct attempt *attempt)
{
        static const struct {
                const char *said, *fix;
        } known[] = {
                {"images are made as", "as it says, or CLOISTER_IMAGE_STORE=/another/folder"},
                {"is in use by another", "end the Cloister that uses it (see 'cloister sessions')"},
                {"no space left", "make room, or CLOISTER_IMAGE_STORE=/a/folder/on/another/disk"},
                {"make the image store",
                 "CLOISTER_IMAGE_STORE=/a/folder/that/you/may/write, or a HOME that exists"},
                {"PreloadError",
                 "remove the module from \"preload\", or name an image that has it (cloister image build --help)"},
                {"there is no image", "make it: cloister image build --name NAME"},
                /* Findings of their own. */
                {"refuses a new /proc", NULL},
                {"/proc is mounted read-only", NULL},
                {"/proc is not that of", NULL},
                {"mount ", "correct \"mounts\" in the config, or make the directory"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if (strstr(attempt->why, known[i].said))
                        return known[i].fix;
        return NULL;
}

/* The check of the image found that there is none yet; the attempt found that none can be made. */
static void take_image_failure(struct doctor *d, const struct attempt *attempt)
{
        static const char prefix[] = "build the image: ";

        if (strncmp(attempt->why, prefix, strlen(prefix)) != 0)
                return;
        for (size_t i = 0; i < d->count; i++) {
                struct doctor_finding *f = &d->items[i];
                if (strcmp(f->name, "image") != 0 || f->state == DOCTOR_MISSING)
                        continue;
                const char *fix = attempt_fix(attempt);
                f->state = DOCTOR_MISSING;
                snprintf(f->detail, sizeof(f->detail), "cannot be made: %s",
                         attempt->why + strlen(prefix));
                snprintf(f->fix, sizeof(f->fix), "%s", fix ? fix : "cloister image build");
        }
}

static bool is_known_to_fail(const struct doctor *d)
{
        for (size_t i = 0; i < d->count; i++)
                if (d->items[i].required && d->items[i].state == DOCTOR_MISSING)
                        return true;
        for (size_t i = 0; i < doctor_n_problems; i++)
                if (doctor_problems[i].state == DOCTOR_MISSING && holds(d, &doctor_problems[i]))
                        return true;
        return false;
}

static void add_failure(struct doctor *d, const struct attempt *attempt)
{
        const char *fix = attempt_fix(attempt);

        take_image_failure(d, attempt);
        if (!fix)
                fix = is_known_to_fail(d) ? "see what is missing in this report"
                                          : "`cloister -vv run -c 1` logs each step";
        doctor_add(d, "sandbox", DOCTOR_MISSING, true, fix, "`cloister run` fails: %s",
                   attempt->why);
}

void doctor_take_attempt(struct doctor *d, const struct attempt *attempt)
{
        d->tried = attempt->done;
        d->status = attempt->status;
        for (size_t i = 0; i < d->count; i++)
                if (d->items[i].required)
                        d->items[i].state = effect_of(d, d->items[i].state);
        if (!attempt->done)
                doctor_add(d, "sandbox", DOCTOR_MISSING, true, "install all files of Cloister",
                           "none was tried: %s", attempt->why);
        else if (attempt->status == 0)
                doctor_add(d, "sandbox", DOCTOR_EFFECTIVE, true, NULL,
                           "a real one ran 1+1, in %.2f s", attempt->seconds);
        else
                add_failure(d, attempt);
}

bool doctor_usable(const struct doctor *d)
{
        return d->tried ? d->status == 0 : !is_known_to_fail(d);
}

/* File names and error texts must not control the terminal. */
static void replace_controls(char *text)
{
        unsigned char *c = (unsigned char *)text;

        for (; *c; c++) {
                if (*c < 0x20 || *c == 0x7f)
                        *c = '?';
                /* U+0080 to U+009F, of which one begins the commands of terminals */
                if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
                        c[0] = c[1] = '?';
        }
}

static void table_row(struct doctor_finding f, bool colour)
{
        static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
        const char *before = colour ? colours[f.state] : "", *after = colour ? "\033[0m" : "";

        replace_controls(f.detail);
        replace_controls(f.fix);
        printf("%-16s %s%-9s%s  %s\n", f.name, before, state_names[f.state], after, f.detail);
        if (f.fix[0])
                printf("%-16s %-9s  fix: %s\n", "", "", f.fix);
}

static void remedy(const struct doctor *d, char *ret, size_t size)
{
        ret[0] = '\0';
        if (d->system && !doctor_usable(d))
                doctor_remedy(d->system, ret, size);
}

static const char *verdict(const struct doctor *d)
{
        if (!doctor_usable(d))
                return "Cloister cannot run here until the missing layers are available.";
        for (size_t i = 0; i < d->count; i++) {
                if (d->items[i].state != DOCTOR_EFFECTIVE)
                        return "Cloister can run here; some layers are weaker than they could be.";
        }
        return "Cloister can run here.";
}

int doctor_print_table(const struct doctor *d, bool colour)
{
        char command[REMEDY_SIZE];

        for (size_t i = 0; i < d->count; i++)
                table_row(d->items[i], colour);
        for (size_t i = 0; i < doctor_n_problems; i++) {
                const struct doctor_problem *kind = &doctor_problems[i];
                if (holds(d, kind))
                        printf("\n%s: %s.\n    fix: %s\n", kind->name, kind->why, kind->fix);
        }
        remedy(d, command, sizeof(command));
        if (command[0])
                printf("\nAll of it by one command:\n    %s\n", command);
        printf("\n%s\n", verdict(d));
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -EIO;
}

static void json_row(struct json_out *out, const struct doctor_finding *f)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "name", f->name);
        json_out_text(out, "state", state_names[f->state]);
        json_out_bool(out, "required", f->required);
        json_out_text(out, "detail", f->detail);
        if (f->fix[0])
                json_out_text(out, "fix", f->fix);
        json_out_end(out, '}');
}

/* All known problems, present or absent, so that a test can compare the documentation with them. */
static void json_finding(struct json_out *out, const struct doctor *d,
                         const struct doctor_problem *kind)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "name", kind->name);
        json_out_text(out, "state",
                      holds(d, kind) ? state_names[effect_of(d, kind->state)] : "absent");
        json_out_text(out, "why", kind->why);
        json_out_text(out, "fix", kind->fix);
        json_out_end(out, '}');
}

int doctor_print_json(const struct doctor *d)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(REPORT_MAX);
        struct json_out out = {.to = &b, .indent = true};
        char command[REMEDY_SIZE];

        json_out_begin(&out, NULL, '{');
        json_out_bool(&out, "usable", doctor_usable(d));
        json_out_begin(&out, "layers", '[');
        for (size_t i = 0; i < d->count; i++)
                json_row(&out, &d->items[i]);
        json_out_end(&out, ']');
        json_out_begin(&out, "findings", '[');
        for (size_t i = 0; i < doctor_n_problems; i++)
                json_finding(&out, d, &doctor_problems[i]);
        json_out_end(&out, ']');
        remedy(d, command, sizeof(command));
        if (command[0])
                json_out_text(&out, "command", command);
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append(&b, "\n", 1);
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&b), b.length);
}
