/*
 * The options of `cloister`, cloister-monitor, cloister-broker, cloister-doctor, cloister-journal and cloister-oauth.
 *
 * `cloister` parses what a person writes (supervisor/cli/command/command.h) and writes a command line for one of the
 * others; the monitor writes that of the broker. Each program accepts only the options that options.def
 * gives it, and writes only those that the next program accepts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/package-set.h"

/* The purposes of a monitor. The broker's modes come first. */
enum mode { MODE_MCP, MODE_RUN, MODE_TOOLS, MODE_SERVE, MODE_IMAGE_BUILD, MODE_MAX };

enum {
        OPTION_WORDS_MAX = 16, /* words that are not options */
        OPTION_INS_MAX = 64,
        OPTION_LISTEN_MAX = 4,
        OPTION_NAMES_MAX = 8,
        OPTION_ENV_MAX = 256,
        OPTION_MOUNTS_MAX = 16,
        CONFIG_PATHS_MAX = 16,
        /* The numbers of descriptors that `cloister` passes on to the broker. Lower ones are the monitor's and
         * the broker's. */
        OPTION_FD_FIRST = 64,
        OPTION_FD_END = 1000,
        OPTION_FDS_MAX = 16, /* as many as options.def has rows for */
};

/* OPTION_ID_… is the row of an option; CLI_… is the same, of those that a person writes. */
enum option_id {
#define USER(id, ...)      OPTION_ID_##id,
#define USER_LIST(id, ...) OPTION_ID_##id,
#define INTERNAL(id, ...)  OPTION_ID_##id,
#include "supervisor/options/options.def"
#undef USER
#undef USER_LIST
#undef INTERNAL
        OPTION_IDS
};
enum {
#define USER(id, ...)      CLI_##id = OPTION_ID_##id,
#define USER_LIST(id, ...) CLI_##id = OPTION_ID_##id,
#define INTERNAL(id, ...)
#include "supervisor/options/options.def"
#undef USER
#undef USER_LIST
#undef INTERNAL
};

/* The words of --label (policy/rules/labels.h). */
#define OPTION_LABELS "private untrusted"
/* The words of --answer. */
#define OPTION_ANSWERS "once cell session always no"
/* The words of --kind: the kinds of records of the journal (docs/journal.md). */
#define OPTION_KINDS                                                                               \
        "start session.start session.end cell.begin cell call answer ask decision denied proposed token.refused reload drain owner end"

/* All strings are borrowed. A text is NULL and a number -1 if the option was not given. */
struct options {
        enum mode mode;         /* of the monitor and the broker */
        bool given[OPTION_IDS]; /* by a person: CLI_… */

        /* Of `cloister`: the command and its arguments. */
        const char *words[OPTION_WORDS_MAX];
        size_t n_words;
        char *const *rest; /* of 'run': the arguments of the code */
        size_t n_rest;

        const char *configs[CONFIG_PATHS_MAX];
        size_t n_configs;
        const char *profile, *image, *python, *store, *language;

        /* Of `cloister mcp` and `serve`, as another system (docs/as.md). as: its name, for the monitor the path of
         * the table. servers_from: the directory of its servers. */
        const char *as, *also, *network, *servers_from;
        bool private_variables;    /* --as: code gets variables of this environment */
        const char *table_options; /* that the table describes and that were given (table-file.h) */
        int table_fd;              /* the table; */
        int settings_fd; /* and what options and variables make of it: config files (config-files.h) */
        const char *replace;                   /* the system whose entry `setup` changes */
        const char *mounts[OPTION_MOUNTS_MAX]; /* SOURCE:TARGET, and :ro or :rw */
        size_t n_mounts;
        const char *variables;   /* names of --env, each with a comma behind it */
        const char *mounts_text; /* `mounts` as JSON (policy/config/config.h) */

        /* Of an image to build. */
        const char *name; /* or of the published tool, or of the server to log in to */
        const char *rootfs, *oci, *python_from, *link, *node, *pyodide;
        struct package_set set;

        /* Of the code to run. */
        const char *code, *code_name, *out, *server;
        const char *seen;  /* labels that `rules explain` takes a session to have */
        const char *label; /* of the files of --in, or of those that cp copies into a session */
        const char *ins[OPTION_INS_MAX]; /* FILE or FILE=NAME */
        size_t n_ins;
        const char *env[OPTION_ENV_MAX]; /* NAME or NAME=VALUE */
        size_t n_env;
        uint32_t timeout_ms, wait_ms, deadline_ms; /* 0: not given */

        /* Of `cloister serve`. */
        const char *listen[OPTION_LISTEN_MAX], *hosts[OPTION_NAMES_MAX], *origins[OPTION_NAMES_MAX];
        size_t n_listen, n_hosts, n_origins;
        const char *tokens, *admin;
        bool admin_view; /* without tokens: the address of --admin serves the live view, too */

        /* Of 'journal' and 'approve'. */
        const char *session, *tool, *kind, *since, *key;
        const char *answer, *rows, *note;

        const char *scope, *secrets, *rounds;
        bool attack, attest, cancel, count, dry_run, help, in_doubt, json, no_browser, no_tools,
                out_hidden, prompt, quick, quiet, recursive, remove, strict, version, watch,
                with_private, yes;

        int log_level, log_format; /* enum log_level, enum log_format */
        const char *log_file;

        /* Descriptors that `cloister` passes to the broker. */
        int code_fd;        /* run: the code */
        int script_fd;      /* run: JSON of the SCRIPT frame (rpc/frame.h) */
        int in_fd;          /* run: a stream of files for /workspace (rpc/file-stream.h) */
        int out_fd;         /* run: a socket that takes such a stream */
        int terminal_fd;    /* run: the terminal, for questions to a person */
        int stdin_fd;       /* run: a socket to the process that reads standard input */
        int attestation_fd; /* mcp, serve: a report for the resource cloister://attestation */
        int admin_fd;       /* serve: listens for --admin */
        int tokens_fd;      /* serve: a file of tokens (supervisor/http/access.h) */
        int helper_fd;      /* serve: rpc/serve-messages.h */
        int listen_fds[OPTION_LISTEN_MAX]; /* serve: listening sockets */
        size_t n_listen_fds;

        /* Set by the monitor for the broker. */
        int filter_fd,
                egress_filter_fd; /* the latter: of the process that has the network of sessions */
        int control_fd;           /* listens for the owner */
        int log_fd;               /* -1: standard error */
        const char *state_path;
        const char *node_name; /* serve: policy/node-name.h; NULL: none */
        int64_t uid;
        bool has_http; /* servers are reached by HTTP */
        bool probe;    /* serve: a sandbox is tried before the server is ready */
        int watchdog_ms; /* serve: the service manager restarts a server that is silent for so long; -1: none */
        const char *serving; /* serve: lines for stderr that name the addresses */
        bool passed;         /* serve: the listening sockets are of systemd, which keeps them */
};

enum option_kind {
        OPTION_FLAG,       /* bool */
        OPTION_TEXT,       /* const char * */
        OPTION_ONCE,       /* const char *; it is an error to give it twice */
        OPTION_PATH,       /* const char *: an absolute path */
        OPTION_LIST,       /* an array of const char *, and a size_t */
        OPTION_TIME,       /* uint32_t: milliseconds */
        OPTION_NUMBER,     /* int, not negative */
        OPTION_FD,         /* int: OPTION_FD_FIRST to OPTION_FD_END - 1 */
        OPTION_FDS,        /* an array of int, and a size_t: the same */
        OPTION_UID,        /* int64_t */
        OPTION_LOG_LEVEL,  /* int */
        OPTION_LOG_FORMAT, /* int */
        OPTION_VERBOSE,    /* int: a log level; takes no argument */
};

enum option_program {
        PROGRAM_MONITOR = 1 << 0,
        PROGRAM_BROKER = 1 << 1,
        PROGRAM_DOCTOR = 1 << 2,
        PROGRAM_OAUTH = 1 << 3,
        PROGRAM_JOURNAL = 1 << 4,
};

struct option {
        enum option_kind kind;
        unsigned int programs; /* PROGRAM_… that accept it, besides `cloister` */
        bool is_user;          /* `cloister` accepts it */
        char letter;           /* 0: none */
        const char *name;      /* "--json"; NULL: only the letter */
        const char *argument;  /* "NAME"; NULL: takes none */
        const char *text;      /* for --help; NULL: not shown */
        const char *advice;    /* of a list that is full */
        size_t offset, count;  /* of the member, and of the length of a list */
        size_t most;           /* of a list */
};

extern const struct option option_rows[OPTION_IDS];

/* Returns whether `word` is one of `words`, which blanks separate. */
bool options_have_word(const char *words, const char *word);

/* No option is given. */
void options_init(struct options *options);

/* Sets the member. Returns -EINVAL for a bad value, -E2BIG if the list is full, -EEXIST if an option that
 * may be given once is given twice. */
int option_set(const struct option *option, const char *value, struct options *to);

/* Parses "--name value" and "--name" of a command line that `cloister` or the monitor wrote: argv without
 * program and mode, NULL-terminated. `to` was initialised. */
int options_parse(char *const *argv, enum option_program program, struct options *to,
                  struct error *err);

/* MODE_MAX: no mode has this name. name may be NULL. */
enum mode options_mode(const char *name);
const char *options_mode_name(enum mode mode);

/* The descriptors that `cloister` passes to a program. Returns how many. */
size_t options_fds(const struct options *options, enum option_program program,
                   int ret[OPTION_FDS_MAX]);

enum { COMMAND_LINE_WORDS_MAX = 336, COMMAND_LINE_NUMBERS_MAX = 32 };

/* A command line for execv(3); it borrows the strings of the options. */
struct command_line {
        const char *words[COMMAND_LINE_WORDS_MAX + 1]; /* NULL-terminated */
        size_t n;
        char numbers[COMMAND_LINE_NUMBERS_MAX][16];
        size_t n_numbers;
};

/* Writes the program's name, its verb or mode (or NULL), and the options that it accepts. Allocates
 * nothing. */
void command_line_init(struct command_line *line, const char *name, const char *verb,
                       const struct options *options, enum option_program program);
