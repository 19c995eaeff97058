/* Hosts, origins, tokens, users. */
#include "supervisor/http/access.h"

#include "tests/unit/test.h"

static const char *const hosts[] = {"mcp.example.org", "192.0.2.7", "[2001:db8::1]"};
static const char *const origins[] = {"https://app.example.org", "http://app.example.org:8080"};

static void open_access(struct access *access)
{
        access_init(access, NULL);
        access->hosts = hosts;
        access->n_hosts = ARRAY_SIZE(hosts);
        access->origins = origins;
        access->n_origins = ARRAY_SIZE(origins);
}

static void test_hosts(void)
{
        static const char *const allowed[] = {
                "localhost",
                "LOCALHOST",
                "localhost:1",
                "localhost:",
                "127.0.0.1",
                "127.0.0.1:8808",
                "[::1]",
                "[::1]:8808",
                "mcp.example.org",
                "MCP.example.ORG",
                "mcp.example.org:443",
                "192.0.2.7:80",
                "[2001:db8::1]:443",
        };
        static const char *const refused[] = {
                "",
                ":80",
                "localhost.",
                "localhost.evil.example",
                "evil.localhost",
                "localhost@evil.example",
                "evil.example:localhost",
                "localhost:80:80",
                "localhost:x",
                "localhost:80/",
                "localhost/",
                "localhost, evil.example",
                " localhost",
                "localhost\t",
                "127.0.0.1.evil.example",
                "127.1",
                "127.0.0.2",
                "2130706433",
                "0x7f.0.0.1",
                "0.0.0.0",
                "[::1",
                "::1",
                "[::1]x",
                "[::1]:x",
                "[::1]]",
                "[0:0:0:0:0:0:0:1]",
                "[::ffff:127.0.0.1]",
                "mcp.example.org.evil.example",
                "xmcp.example.org",
                "mcp.example.or",
                "[2001:db8::1",
                "*",
        };
        struct access access;

        open_access(&access);
        for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
                check_eq_int(access_host_allowed(&access, allowed[i]) ? -1 : (int)i, -1);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                check_eq_int(access_host_allowed(&access, refused[i]) ? (int)i : -1, -1);
        access_done(&access);
        /* Only those that were named. */
        access_init(&access, NULL);
        check(!access_host_allowed(&access, "mcp.example.org"));
        check(access_host_allowed(&access, "localhost"));
        access_done(&access);
}

static void test_origins(void)
{
        static const char *const allowed[] = {
                "http://localhost",        "https://localhost",           "http://localhost:3000",
                "http://127.0.0.1:8808",   "http://[::1]:3000",           "https://app.example.org",
                "HTTPS://APP.example.org", "http://app.example.org:8080",
        };
        static const char *const refused[] = {
                "",
                "null",
                "localhost",
                "//localhost",
                "file://",
                "file://localhost",
                "ftp://localhost",
                "http:localhost",
                "http://",
                "http://evil.example",
                "http://localhost.evil.example",
                "http://localhost@evil.example",
                "http://localhost:80@evil.example",
                "http://localhost/",
                "http://localhost/path",
                "http://localhost http://evil.example",
                "http://evil.example http://localhost",
                "http://evil.example://localhost",
                "xhttp://localhost",
                "http://app.example.org",
                "https://app.example.org:8443",
                "https://app.example.org.evil.example",
                "https://app.example.org/",
                "chrome-extension://localhost",
                "http://[::1",
                "http://[::1].evil.example",
        };
        struct access access;

        open_access(&access);
        for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
                check_eq_int(access_origin_allowed(&access, allowed[i]) ? -1 : (int)i, -1);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                check_eq_int(access_origin_allowed(&access, refused[i]) ? (int)i : -1, -1);
        access_done(&access);
}

static struct mcp_principal *who(struct access *access, const char *authorization)
{
        return access_principal(access, authorization, NULL);
}

static int read_tokens(struct access *access, const char *text, struct error *err)
{
        *err = (struct error){};
        access_init(access, "plain");
        return access_read_tokens(access, text, strlen(text), err);
}

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb=="

static void test_tokens(void)
{
        struct access access;
        struct error err;

        check_ok(read_tokens(&access,
                             "# ours\n\n  alice\t" A " profile=big calls=3 # hers\r\nbob " B
                             " sessions=2\n",
                             &err));
        struct mcp_principal *alice = who(&access, "Bearer " A);
        check_eq_str(alice->name, "alice");
        check_eq_str(alice->profile, "big");
        check_eq_int(alice->calls_max, 3);
        check_eq_int(alice->sessions_max, 0);
        struct mcp_principal *bob = who(&access, "bearer   " B);
        check_eq_str(bob->name, "bob");
        check_eq_str(bob->profile, "plain");
        check_eq_int(bob->calls_max, ACCESS_CALLS);
        check_eq_int(bob->sessions_max, 2);
        access_done(&access);
}

#define C "cccccccccccccccc"

/* A token with a role is not a client, and a client's token has no role. */
static void test_roles(void)
{
        static const char *const refused[] = {
                "a " A " role=owner\n",
                "a " A " role=\n",
                "a " A " role=metrics sessions=3\n",
                "a " A " profile=big role=view\n",
                "a " A " role=view role=metrics\n",
        };
        struct access access;
        struct error err;

        check_ok(read_tokens(
                &access, "alice " A "\nprom " B " role=metrics\nops " C " role=view # me\n", &err));
        check(who(&access, "Bearer " A));
        check(!who(&access, "Bearer " B) && !who(&access, "Bearer " C));
        check_eq_int(access_role(&access, "Bearer " A), ACCESS_ROLE_NONE);
        check_eq_int(access_role(&access, "Bearer " B), ACCESS_ROLE_METRICS);
        check_eq_int(access_role(&access, "Bearer " C), ACCESS_ROLE_VIEW);
        check_eq_int(access_role(&access, NULL), ACCESS_ROLE_NONE);
        check(access_is_known(&access, "Bearer " A) && access_is_known(&access, "Bearer " C));
        check(!access_is_known(&access, "Bearer dddddddddddddddd") &&
              !access_is_known(&access, NULL));
        /* They have no part of what principals share. */
        check_eq_int(access_principals(&access), 1);
        access_done(&access);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                check_eq_int(read_tokens(&access, refused[i], &err), -EINVAL);
                check_has(err.text, "line 1: role=");
                access_done(&access);
        }
}

static void note_removed(void *data, struct mcp_principal *principal, enum access_change change)
{
        check_eq_int(change, ACCESS_REMOVED);
        check_eq_str(principal->name, "alice");
        ++*(int *)data;
}

/* A client that gets a role loses its sessions; its token stays. */
static void test_role_later(void)
{
        static const char roles[] = "alice " A " role=view\n", clients[] = "alice " A "\n";
        struct access access;
        struct error err;
        int removed = 0;

        check_ok(read_tokens(&access, clients, &err));
        const struct mcp_principal *before = who(&access, "Bearer " A);
        check_ok(access_replace_tokens(&access, roles, sizeof(roles) - 1, note_removed, &removed,
                                       &err));
        check_eq_int(removed, 1);
        check(!who(&access, "Bearer " A));
        check_eq_int(access_role(&access, "Bearer " A), ACCESS_ROLE_VIEW);
        /* The end of a token with a role calls no function. */
        check_ok(access_replace_tokens(&access, clients, sizeof(clients) - 1, note_removed,
                                       &removed, &err));
        check_eq_int(removed, 1);
        check_eq_int(access_role(&access, "Bearer " A), ACCESS_ROLE_NONE);
        const struct mcp_principal *after = who(&access, "Bearer " A);
        check(after && after != before && strcmp(after->key, before->key) != 0);
        access_done(&access);
}

static void test_wrong_tokens(void)
{
        static const char *const wrong[] = {
                NULL,
                "",
                A,
                "Bearer",
                "Bearer ",
                "Bearer" A,
                "Basic " A,
                "Bearer  " A "a",
                "Bearer " A " ",
                "Bearer aaaaaaaaaaaaaaa",
                "Bearer " A "," A,
                "Bearer alice",
                "Bearer \t" A,
        };
        char longest[300];
        struct access access;
        struct error err;

        check_ok(read_tokens(&access, "alice " A "\n", &err));
        check(who(&access, "Bearer " A));
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                check_eq_int(who(&access, wrong[i]) ? (int)i : -1, -1);
        memset(longest, 'a', sizeof(longest));
        memcpy(longest, "Bearer ", 7);
        for (size_t n = ACCESS_TOKEN_MAX + 6; n < ACCESS_TOKEN_MAX + 10; n++) {
                longest[n] = '\0';
                check(!who(&access, longest));
                longest[n] = 'a';
        }
        access_done(&access);
}

static const struct limits *limits_of(const void *data, const char *profile)
{
        return data;
}

/* Of all sessions of a principal: one at least fits. */
static void test_sums(void)
{
        struct limits one = {.memory = 512 << 20, .cpu_milli = 1000};
        struct monitor_principal p = {};
        struct access access;
        struct error err = {};

        access_init(&access, NULL);
        access.limits_of = limits_of;
        access.data = &one;
        static const char good[] = "alice " A " memory=1.5G cpu=1.5\nbob " B "\n";
        check_ok(access_read_tokens(&access, good, strlen(good), &err));
        access_sums(&access, "alice", &p);
        check(p.id == 1 && p.memory_mib == 1536 && p.cpu_milli == 1500);
        access_sums(&access, "bob", &p);
        check(p.id == 2 && p.memory_mib == 0 && p.cpu_milli == 0);
        static const char *const small[] = {"alice " A " memory=256M\n", "alice " A " cpu=0.5\n"};
        for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
                check(access_replace_tokens(&access, small[i], strlen(small[i]), NULL, NULL, &err) <
                      0);
                check_has(err.text, "of one session");
        }
        access_sums(&access, "alice", &p);
        check(p.id == 1 && p.memory_mib == 1536);
        access_done(&access);
}

static void test_files(void)
{
        static const struct {
                const char *text, *why;
        } refused[] = {
                {"", "no token"},
                {"# only\n", "no token"},
                {"alice\n", "line 1: a token has"},
                {"alice short\n", "line 1: a token has"},
                {"\nalice " A "!\n", "line 2: a token has"},
                {"alice =" A "\n", "line 1: a token has"},
                {"al/ice " A "\n", "line 1: a name is"},
                {"al:ice " A "\n", "line 1: a name is"},
                {"alice " A "\nalice " B "\n", "line 2: the name or the token is there twice"},
                {"alice " A "\nbob " A "\n", "line 2: the name or the token is there twice"},
                {"alice " A " calls=0\n", "line 1: profile=NAME"},
                {"alice " A " calls=-1\n", "line 1: profile=NAME"},
                {"alice " A " calls=1x\n", "line 1: profile=NAME"},
                {"alice " A " calls=\n", "line 1: profile=NAME"},
                {"alice " A " calls=999999\n", "line 1: profile=NAME"},
                {"alice " A " memory=lots\n", "line 1: profile=NAME"},
                {"alice " A " memory=0\n", "line 1: profile=NAME"},
                {"alice " A " memory=-1\n", "line 1: profile=NAME"},
                {"alice " A " memory=9999999T\n", "line 1: profile=NAME"},
                {"alice " A " cpu=0\n", "line 1: profile=NAME"},
                {"alice " A " cpu=0.009\n", "line 1: profile=NAME"},
                {"alice " A " cpu=1h\n", "line 1: profile=NAME"},
                {"alice " A " cpu=\n", "line 1: profile=NAME"},
                {"alice " A " profile=\n", "line 1: profile=NAME"},
                {"alice " A " profile=a/b\n", "line 1: profile=NAME"},
                {"alice " A " root=1\n", "line 1: profile=NAME"},
        };
        struct access access;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                check(read_tokens(&access, refused[i].text, &err) < 0);
                check_has(err.text, refused[i].why);
                check(!strstr(err.text, A)); /* a token is not told */
                check(!who(&access, "Bearer " A) || access.n_tokens > 0);
                access_done(&access);
        }
}

static void test_many_tokens(void)
{
        static char text[ACCESS_FILE_MAX];
        struct access access;
        struct error err;
        size_t n = 0;

        for (int i = 0; i < ACCESS_TOKENS_MAX; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "n%d token-number-%06d\n", i, i);
        check_ok(read_tokens(&access, text, &err));
        check_eq_str(who(&access, "Bearer token-number-000063")->name, "n63");
        access_done(&access);
        snprintf(text + n, sizeof(text) - n, "more token-number-999999\n");
        check_eq_int(read_tokens(&access, text, &err), -E2BIG);
        check_has(err.text, "at most 256 tokens");
        access_done(&access);
}

/* Changes that access_replace_tokens() reported: "+" for a new token, "-" for a removed name, "~" for another profile. */
static char told[256];

static void on_changed(void *data, struct mcp_principal *principal, enum access_change change)
{
        static const char marks[] = {
                [ACCESS_REMOVED] = '-', [ACCESS_TOKEN] = '+', [ACCESS_PROFILE] = '~'};
        size_t n = strlen(told);

        check(data == told);
        snprintf(told + n, sizeof(told) - n, "%c%s ", marks[change], principal->name);
}

static int replace(struct access *access, const char *text, struct error *err)
{
        *told = '\0';
        *err = (struct error){};
        return access_replace_tokens(access, text, strlen(text), on_changed, told, err);
}

#define C "cccccccccccccccc"

static void test_replaced_tokens(void)
{
        struct access access;
        struct error err;

        check_ok(read_tokens(&access, "alice " A " calls=2\nbob " B "\n", &err));
        struct mcp_principal *alice = who(&access, "Bearer " A), *bob = who(&access, "Bearer " B);
        /* The order of the lines changes. */
        check_ok(replace(&access, "bob " B "\nalice " A " calls=2\n", &err));
        check_eq_str(told, "");
        /* The quota and the profile only. */
        check_ok(replace(&access, "alice " A " calls=5 profile=big\nbob " B "\n", &err));
        check_eq_str(told, "~alice ");
        check(who(&access, "Bearer " A) == alice);
        check_eq_int(alice->calls_max, 5);
        check_eq_str(alice->profile, "big");
        check_ok(replace(&access, "alice " A "\nbob " B "\n", &err));
        check_eq_int(alice->calls_max, ACCESS_CALLS);
        check_eq_str(alice->profile, "plain");
        /* Another token for the same name. */
        check_ok(replace(&access, "alice " C "\nbob " B "\n", &err));
        check_eq_str(told, "+alice ");
        check(!who(&access, "Bearer " A));
        check(who(&access, "Bearer " C) == alice);
        /* Two change their tokens. */
        check_ok(replace(&access, "alice " B "\nbob " C "\n", &err));
        check_eq_str(told, "+alice +bob ");
        check(who(&access, "Bearer " B) == alice && who(&access, "Bearer " C) == bob);
        /* A name is removed, another is added; a name that returns is another principal, with other keys. */
        check_ok(replace(&access, "carol " A "\nalice " B "\n", &err));
        check_eq_str(told, "-bob ");
        check(!who(&access, "Bearer " C));
        check_eq_str(who(&access, "Bearer " A)->name, "carol");
        check_ok(replace(&access, "bob " C "\n", &err));
        check_eq_str(told, "-alice -carol ");
        struct mcp_principal *later = who(&access, "Bearer " C);
        check(later && later != bob);
        check_eq_str(later->name, "bob");
        check_eq_str(bob->key, "bob");
        check_eq_str(later->key, "bob.2");
        /* Also with the token that it had, and where another name is the key. */
        check_ok(replace(&access, "bob.3 " A "\n", &err));
        check_ok(replace(&access, "bob.3 " A "\nbob " C "\n", &err));
        check_eq_str(who(&access, "Bearer " A)->key, "bob.3");
        check_eq_str(who(&access, "Bearer " C)->key, "bob.4");
        access_done(&access);
}

/* Without a token in the file no request is accepted. It does not mean that all are accepted. */
static void test_no_token_is_left(void)
{
        struct mcp_principal user = {.name = "uid-7"};
        struct access access;
        struct error err;

        check_ok(read_tokens(&access, "alice " A "\n", &err));
        check_ok(replace(&access, "# none\n", &err));
        check_eq_str(told, "-alice ");
        check(!who(&access, "Bearer " A) && !who(&access, NULL));
        check(!access_principal(&access, NULL, &user));
        check_ok(replace(&access, "alice " A "\n", &err));
        check(who(&access, "Bearer " A));
        access_done(&access);
}

static void test_bad_replacement(void)
{
        static char text[ACCESS_FILE_MAX];
        struct access access;
        struct error err;
        size_t n = 0;

        check_ok(read_tokens(&access, "alice " A "\n", &err));
        check(replace(&access, "bob " B "\nalice\n", &err) < 0);
        check_has(err.text, "line 2");
        check_eq_str(told, "");
        check(who(&access, "Bearer " A) && !who(&access, "Bearer " B));
        /* Each time as many names that were never there. */
        for (int round = 0; round < ACCESS_NAMES_EVER / ACCESS_TOKENS_MAX; round++) {
                bool last = round == ACCESS_NAMES_EVER / ACCESS_TOKENS_MAX - 1;
                n = 0;
                for (int i = 0; i < ACCESS_TOKENS_MAX; i++)
                        n += (size_t)snprintf(text + n, sizeof(text) - n,
                                              "n%d-%d token-number-%03d-%03d\n", round, i, round,
                                              i);
                check_eq_int(replace(&access, text, &err), last ? -E2BIG : 0);
        }
        char token[64];
        snprintf(token, sizeof(token), "Bearer token-number-%03d-000",
                 ACCESS_NAMES_EVER / ACCESS_TOKENS_MAX - 2);
        check(who(&access, token));
        access_done(&access);
}

static void test_users(void)
{
        struct access access;
        struct error err;

        access_init(&access, "plain");
        struct mcp_principal *first = access_user(&access, 1000);
        check_eq_str(first->name, "uid-1000");
        check_eq_str(first->profile, "plain");
        check_eq_int(first->calls_max, ACCESS_CALLS);
        check(access_user(&access, 1001) != first);
        check(access_user(&access, 1000) == first);
        check(access_principal(&access, NULL, first) == first);
        check(access_principal(&access, NULL, NULL) == &access.everybody);
        check_eq_str(access_user(&access, UINT32_MAX)->name, "uid-4294967295");
        for (uint32_t i = 3; i < ACCESS_USERS_MAX; i++)
                check(access_user(&access, i));
        check(!access_user(&access, 5000));
        check(access_user(&access, 1000) == first);
        access_done(&access);
        /* A token is needed from a user as well. */
        check_ok(read_tokens(&access, "alice " A "\n", &err));
        first = access_user(&access, 1000);
        check(!access_principal(&access, NULL, first));
        check_eq_str(access_principal(&access, "Bearer " A, first)->name, "alice");
        access_done(&access);
}

int main(void)
{
        run(test_hosts);
        run(test_origins);
        run(test_tokens);
        run(test_roles);
        run(test_role_later);
        run(test_wrong_tokens);
        run(test_sums);
        run(test_files);
        run(test_many_tokens);
        run(test_replaced_tokens);
        run(test_no_token_is_left);
        run(test_bad_replacement);
        run(test_users);
        return 0;
}
