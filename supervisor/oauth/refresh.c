/* A token for the broker, by way of cloister-access: the stored one, or a new one. */
#include "supervisor/oauth/refresh.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "supervisor/oauth/metadata.h"
#include "supervisor/oauth/store.h"
#include "supervisor/oauth/token.h"

enum {
        INPUT_MAX = 64 * 1024,
        ANSWER_MAX = 32 * 1024,
        MARGIN_SECONDS = 60, /* a token is renewed this long before it expires */
        /* A token that is refused so soon after it was made is refused for another reason. */
        JUST_MADE_SECONDS = 5,
};

struct request {
        yyjson_doc *doc;
        const char *name, *url;
        int status; /* 0: nothing was refused */
        struct challenge challenge;
};

static int read_request(struct request *q, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        int64_t status = 0;

        int r = fd_read_whole(STDIN_FILENO, INPUT_MAX, &text, &n, err);
        if (r >= 0)
                r = json_parse_bounded(text, n, OAUTH_VALUES_MAX, &q->doc, err);
        if (r < 0)
                return error_context(err, "request");
        yyjson_val *root = yyjson_doc_get_root(q->doc);
        const char *challenge = json_string(root, "challenge", NULL);
        q->name = json_string(root, "name", NULL);
        q->url = json_string(root, "url", NULL);
        if (json_int64(yyjson_obj_get(root, "status"), &status) == 0)
                q->status = (int)status;
        if (challenge)
                challenge_parse(challenge, strlen(challenge), &q->challenge);
        if (!q->name || !q->url)
                return error_set(err, EINVAL, "the request has no name or no url");
        return 0;
}

static int needs_login(const struct request *q, const char *why, struct error *err)
{
        char word[2 * OAUTH_NAME_MAX];

        return error_set(err, ENOKEY, "%sneeds a login: cloister login %s", why,
                         oauth_shell_word(q->name, word, sizeof(word)));
}

/* The scopes come from the server: they are printed as a word that a shell takes literally. */
static int needs_scope(const struct request *q, struct error *err)
{
        char name[2 * OAUTH_NAME_MAX], scope[300];

        if (strlen(q->challenge.scope) > 200)
                return needs_login(q, "its token lacks scopes (more than fit here); ", err);
        return error_set(err, ENOKEY,
                         "its token lacks scopes; needs a login: cloister login %s --scope %s",
                         oauth_shell_word(q->name, name, sizeof(name)),
                         oauth_shell_word(q->challenge.scope, scope, sizeof(scope)));
}

/* How long before its end a token is renewed. */
static int64_t margin_of(const struct oauth_record *record)
{
        int64_t quarter = (record->expires - record->obtained) / 4;

        return quarter < MARGIN_SECONDS ? quarter : MARGIN_SECONDS;
}

static bool is_usable(const struct oauth_record *record, int64_t margin)
{
        int64_t now = time(NULL), most = margin_of(record);

        if (!*record->tokens.access)
                return false;
        if (record->expires == 0)
                return true;
        if (margin > most)
                margin = most;
        /* A clock that was set back makes every token look new. */
        return now >= record->obtained - MARGIN_SECONDS && now < record->expires - margin;
}

/* Most servers take a refresh token once: a process that ended between their answer and the write
 * would lose the login. The reaper above sends SIGTERM first, and SIGKILL two seconds later. */
static void hold_signals(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        prctl(PR_SET_PDEATHSIG, 0);
}

static int renew(const struct request *q, struct oauth_store *store, struct oauth_record *record,
                 struct error *err)
{
        struct error why = {};

        if (!*record->tokens.refresh && !record->credentials)
                return needs_login(q, "its token has expired; ", err);
        hold_signals();
        int r = oauth_token_renew(record, &why);
        if (r >= 0)
                return oauth_store_write(store, record, err);
        if (r == -EKEYREJECTED) {
                /* The registration stays: it is used for the next login. */
                *record->tokens.access = *record->tokens.refresh = '\0';
                (void)oauth_store_write(store, record, NULL);
                return needs_login(q, "its login has ended; ", err);
        }
        if (q->status == 0 && is_usable(record, 0))
                return 0;
        *err = why;
        return r;
}

/* With the lock held, so that two Cloisters do not use one refresh token twice. */
static int renew_locked(const struct request *q, struct oauth_store *store,
                        struct oauth_record *record, struct error *err)
{
        _cleanup_free_ char *refused = strdup(record->tokens.access);

        if (!refused)
                return error_errno(err, ENOMEM, "refresh");
        int r = oauth_store_lock(store, err);
        if (r >= 0)
                r = oauth_store_read(store, record, err);
        if (r == -ENOENT)
                r = needs_login(q, "", err);
        /* Another one has renewed it meanwhile. */
        bool is_new = r >= 0 && strcmp(refused, record->tokens.access) != 0;
        explicit_bzero(refused, strlen(refused));
        if (r < 0 || (is_new && is_usable(record, MARGIN_SECONDS)))
                return r;
        return renew(q, store, record, err);
}

/* Returns 1 with a token in the record, 0 without a login. */
static int find_token(const struct request *q, struct oauth_record *record, struct error *err)
{
        _cleanup_store_ struct oauth_store store;
        struct error why = {};

        int r = oauth_store_open(&store, q->name, q->url, false, &why);
        if (r >= 0)
                r = oauth_store_read(&store, record, &why);
        if (r == -ENOENT)
                return q->status == 0 ? 0 : needs_login(q, "", err);
        if (r < 0) {
                *err = why;
                return r;
        }
        if (q->status == 403)
                return *q->challenge.scope
                               ? needs_scope(q, err)
                               : error_set(err, EACCES,
                                           "the server refuses the token (HTTP status 403)");
        if (q->status == 0 && is_usable(record, MARGIN_SECONDS))
                return 1;
        if (q->status != 0 && is_usable(record, 0) &&
            time(NULL) - record->obtained < JUST_MADE_SECONDS)
                return needs_login(q, "the server refuses a token that was just made; ", err);
        r = renew_locked(q, &store, record, err);
        return r < 0 ? r : 1;
}

static int answer(int found, const struct oauth_record *record, const struct error *err)
{
        struct buffer line = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &line};
        int64_t seconds = record->expires - time(NULL), renew = seconds - margin_of(record);

        json_out_begin(&out, NULL, '{');
        if (found > 0) {
                json_out_text(&out, "token", record->tokens.access);
                if (record->expires > 0)
                        json_out_int(&out, "seconds", seconds > 0 ? seconds : 0);
                if (record->expires > 0 && (*record->tokens.refresh || record->credentials))
                        json_out_int(&out, "renew", renew > 0 ? renew : 0);
        } else {
                if (found < 0)
                        json_out_text(&out, "error", err->text);
                json_out_bool(&out, "login", found == -ENOKEY);
        }
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append_text(&line, "\n");
        if (r >= 0)
                r = fd_write_all(STDOUT_FILENO, buffer_bytes(&line), line.length);
        if (line.data)
                explicit_bzero(line.data, line.allocated);
        buffer_done(&line);
        return r;
}

int oauth_refresh(struct error *err)
{
        struct request q = {};
        struct error why = {};
        struct oauth_record *record = calloc(1, sizeof(*record));

        if (!record)
                return error_errno(err, ENOMEM, "refresh");
        int found = read_request(&q, &why);
        if (found >= 0)
                found = find_token(&q, record, &why);
        int r = answer(found, record, &why);
        explicit_bzero(record, sizeof(*record));
        free(record);
        yyjson_doc_free(q.doc);
        return r < 0 ? error_errno(err, -r, "answer") : 0;
}
