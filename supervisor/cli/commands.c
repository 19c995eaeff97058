/* The table of the commands of `cloister`, with their help texts. */
#include "supervisor/cli/commands.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cloister-config.h"
#include "supervisor/cli/as/as.h"
#include "supervisor/cli/command/help.h"
#include "supervisor/cli/commit.h"
#include "supervisor/cli/completion.h"
#include "supervisor/cli/config/config-import.h"
#include "supervisor/cli/config/config.h"
#include "supervisor/cli/config/setup.h"
#include "supervisor/cli/images/images.h"
#include "supervisor/cli/publish.h"
#include "supervisor/cli/rules/proposed.h"
#include "supervisor/cli/rules/rules.h"
#include "supervisor/cli/run/run.h"
#include "supervisor/cli/serve/journal.h"
#include "supervisor/cli/serve/serve.h"
#include "supervisor/cli/sessions/approve.h"
#include "supervisor/cli/sessions/cp.h"
#include "supervisor/cli/sessions/exec.h"
#include "supervisor/cli/sessions/service.h"
#include "supervisor/cli/sessions/sessions.h"

#define COMMON CLI_LOG_LEVEL, CLI_VERBOSE, CLI_LOG_FILE, CLI_LOG_FORMAT
#define PACKAGES                                                                                   \
        CLI_WITH, CLI_REQUIREMENTS, CLI_NPM, CLI_INSTALLER, CLI_FIND_LINKS, CLI_OFFLINE, CLI_UPGRADE
#define SERVING COMMON, CLI_CONFIG, CLI_IMAGE, CLI_PYTHON, CLI_STORE, CLI_PROFILE

/* The commands that print the table. */
static int run_completion(const struct options *o, const char *const *words, size_t n)
{
        return completion_print(&cli_commands, n > 0 ? words[0] : "");
}

static int run_manual(const struct options *o, const char *const *words, size_t n)
{
        return manual_print(&cli_commands, words, n);
}

static int run_help(const struct options *o, const char *const *words, size_t n)
{
        return help_print(&cli_commands, words, n);
}

static const struct cli_command rows[] = {
        {"run", "{FILE | -c CODE | -} [ARGUMENT]...",
         "run Python or JavaScript in a sandbox that can call your MCP servers' tools",
         CLI_OPTIONS(SERVING, CLI_CODE, CLI_TIMEOUT, PACKAGES, CLI_IN, CLI_LABEL, CLI_OUT,
                     CLI_OUT_HIDDEN, CLI_ENV, CLI_MOUNT, CLI_JSON, CLI_PROMPT, CLI_LANGUAGE),
         1, cli_run,
         "Runs a file, a line of code or standard input (-) in a new sandbox: no network, none\n"
         "of your files, limited memory, processes and time. The arguments after the file\n"
         "are the script's sys.argv. Output appears as it is printed, piped input is\n"
         "sys.stdin; Ctrl-C stops the code. The exit status is that of the code: 0, the argument of\n"
         "sys.exit(), or 1 after an exception. It is 2 for wrong arguments, 124 after a\n"
         "timeout, 125 when Cloister itself failed (its config, its image, files that it could not\n"
         "copy), 126 if no sandbox can be created on this machine ('cloister doctor'\n"
         "says why), 130 after Ctrl-C, 137 when the code ran out of memory.\n"
         "\n"
         "A file *.js, *.mjs, *.cjs, *.ts, *.mts or *.cts, and --language javascript, run in Node\n"
         "(docs/javascript.md).\n"
         "\n"
         "-i begins a prompt, after the script if there is one ('cloister exec --help').\n"
         "\n"
         "The script is in /workspace, with the *.py files beside it that it names. --in FILE\n"
         "copies a file or directory there, under its own name or as NAME. Files that the\n"
         "code writes to /workspace/out, and images that it displays, are written to --out\n"
         "DIRECTORY, which is created if needed; files of the same name are replaced. Names\n"
         "that begin with a dot are refused, because programs read such files as settings\n"
         "(.git/config): --out-hidden writes them too.\n"
         "\n"
         "The tools of the MCP servers in your config are coroutines in the code, which can\n"
         "use await at its top level.\n"
         "\n"
         "Examples:\n"
         "  cloister run -c 'print(sum(range(10)))'\n"
         "  cloister run --timeout 30 report.py --month 7\n"
         "  cloister run --with pandas,numpy report.py\n"
         "  cloister run --python 3.13 report.py\n"
         "  cloister run --in sales.csv --out plots plot.py\n"
         "  cat log | cloister run --env LEVEL=warn -c 'import sys; print(len(sys.stdin.read()))'\n"
         "  cloister run --mount ~/data:/data --json count.py\n"
         "  cloister run --language javascript -c '[1, 2].map(x => x * 2)'\n"
         "  echo 'print(_discover())' | cloister run -\n"
         "  cloister run -c 'print(await tools[\"list-events\"](calendarId=\"primary\"))'\n"},
        {"mcp", "", "serve the tool run_python to an MCP client, over standard input and output",
         CLI_OPTIONS(SERVING, CLI_ATTEST, CLI_AS, CLI_ALSO, CLI_NETWORK), 0, cli_mcp,
         "An MCP client starts this command. It ends at the end of standard input. It speaks the\n"
         "MCP versions 2024-11-05 to 2025-11-25 and 2026-07-28 (docs/mcp.md). The exit status is\n"
         "126 if no sandbox can be created on this machine ('cloister doctor' says why).\n"
         "\n"
         "With --attest, it first runs 'cloister doctor --attack' with the same options, which takes\n"
         "a second or two. If anything is open, it ends with status 1 and one line. Otherwise clients\n"
         "can read the report as the resource cloister://attestation.\n"
         "\n"
         "--as SYSTEM has the tools, options and variables of another system: codemode-lite,\n"
         "code-sandbox-mcp, llm-sandbox, mcp-python-exec-sandbox, or the path of a table (docs/as.md). The\n"
         "options of that system follow. --also run_python lists Cloister's tool beside them.\n"
         "\n"
         "--network HOST[,HOST] lets code reach these hosts (docs/network.md). It opens nothing that a\n"
         "\"network\" in the config does not allow.\n"
         "\n"
         "Examples:\n"
         "  claude mcp add cloister -- cloister mcp\n"
         "  {\"mcpServers\": {\"cloister\": {\"command\": \"cloister\", \"args\": [\"mcp\"]}}}\n"},
        {"serve", "", "serve the tool run_python to MCP clients over HTTP",
         CLI_OPTIONS(SERVING, CLI_LISTEN, CLI_TOKENS, CLI_ADMIN, CLI_HOST, CLI_ORIGIN, CLI_ATTEST,
                     CLI_AS, CLI_ALSO, CLI_NETWORK),
         0, cli_serve,
         "Streamable HTTP at /mcp, for the MCP versions 2025-03-26 to 2025-11-25 (with sessions) and\n"
         "2026-07-28, and the older transport at /sse. --listen may be given four times; without it,\n"
         "sockets that systemd passes are used, otherwise " LISTEN_DEFAULT ".\n"
         "\n"
         "Without --tokens, every process that can open the socket can call your tools: on 127.0.0.1 that\n"
         "is every user of this machine. unix:PATH is for you alone (mode 0600), and if you open it to\n"
         "others, each user has sessions of its own. Any other address needs --tokens. Each line of\n"
         "that file, which only you may read, is NAME TOKEN [profile=NAME] [calls=N] [sessions=N]\n"
         "[cells_per_minute=N]: clients with different names share neither sessions nor files. It is\n"
         "read again when it changes. --attest, --as, --also and --network are as for 'cloister mcp'.\n"
         "\n"
         "--admin ADDRESS serves /metrics and the live view /ui (docs/service.md). With --tokens they need a\n"
         "token whose line has role=metrics or role=view, which opens nothing else. Without --tokens,\n"
         "unix:PATH (mode 0600) serves both, and a loopback address serves /metrics only.\n"
         "\n"
         "Requests of web pages are refused unless their origin, and the host that they ask for, are\n"
         "those of this machine or allowed. TLS is a reverse proxy's: docs/http.md.\n"
         "\n"
         "SIGTERM stops it: calls that run are answered, new ones get 503 (docs/service.md).\n"
         "\n"
         "Examples:\n"
         "  cloister serve\n"
         "  cloister serve --listen unix:$XDG_RUNTIME_DIR/cloister.sock\n"
         "  cloister serve --listen 0.0.0.0:8808 --tokens ~/.config/cloister/tokens --allow-host box.lan\n"},
        {"reload", "", "have a running 'cloister serve' read its config and tokens again",
         CLI_OPTIONS(CLI_SERVER), 0, cli_reload,
         "Waits until the server has done it. The exit status is 1 if the config or the file of tokens\n"
         "is invalid: one line says why, and nothing has changed. Keys that count at the next start\n"
         "only are named (docs/config.md). Sessions and calls continue, except those whose right has\n"
         "ended. SIGHUP does the same, and so does a change of a file, unless \"reload\" is \"signal\".\n"
         "The log file is opened again.\n"
         "\n"
         "Examples:\n"
         "  cloister reload\n"
         "  cloister reload --server 4711\n"},
        {"drain", "", "let the sessions of a running 'cloister serve' end, and then the server",
         CLI_OPTIONS(CLI_SERVER, CLI_DEADLINE, CLI_CANCEL), 0, cli_drain,
         "The server takes no new sessions: calls that need one get 503. Calls in live sessions continue,\n"
         "until these end (by 'idle', or 'cloister sessions end') or the deadline comes. Then the\n"
         "server stops as after SIGTERM (docs/service.md). The command returns at once. --cancel takes\n"
         "new sessions again.\n"
         "\n"
         "Examples:\n"
         "  cloister drain\n"
         "  cloister drain --deadline 2h\n"
         "  cloister drain --cancel\n"},
        {"setup", "CLIENT [FILE]", "write the entry for Cloister into the config of an MCP client",
         CLI_OPTIONS(CLI_DRY_RUN, CLI_REMOVE, CLI_REPLACE, CLI_YES), 2, cli_setup, cli_help_setup},
        {"publish", "FILE", "offer a Python script as an MCP tool",
         CLI_OPTIONS(CLI_CONFIG, CLI_DRY_RUN, CLI_NAME, CLI_PROFILE), 1, cli_publish,
         "The tool's description is the script's docstring (or that of its main()), its arguments are\n"
         "those of its function main(): name: str is a required string, count: int = 3 an optional\n"
         "integer; bool, float, list[str], dict, Literal[...] and Optional[...] are known too. A script\n"
         "without main() takes no arguments. It is parsed, and not run.\n"
         "\n"
         "Each call runs the script in a fresh sandbox and calls main(); what it returns and prints is\n"
         "the result. The entry names the file: a later edit counts at once, but to change the\n"
         "description or the arguments edit the entry, or remove it and publish again.\n"
         "docs/publish.md has all keys, prompts and resources.\n"
         "\n"
         "Examples:\n"
         "  cloister publish ~/bin/report.py\n"
         "  cloister publish ./convert.py --name convert --profile analysis --dry-run\n"},
        {"tools", "", "start your MCP servers and list their tools, as code can call them",
         CLI_OPTIONS(SERVING, CLI_COUNT, CLI_JSON), 0, cli_tools,
         "Prints each tool with its Python signature, and the reason for each server that could\n"
         "not be started. In that case the exit status is 1. The last line says how many tools may\n"
         "change things; --count prints only that line, and starts no server.\n"
         "\n"
         "Examples:\n"
         "  cloister tools\n"
         "  cloister tools --json --config ./servers.json\n"},
        {"journal show", "", "print the records of the journal",
         CLI_OPTIONS(CLI_SESSION, CLI_TOOL, CLI_KIND, CLI_SINCE, CLI_IN_DOUBT, CLI_JSON), 0,
         cli_journal_show,
         "Prints what code has called (docs/journal.md), one line for each record; with --json the records\n"
         "as they are.\n"
         "\n"
         "Examples:\n"
         "  cloister journal show --since 1h\n"
         "  cloister journal show --in-doubt\n"
         "  cloister journal show --tool 'bank.*' --json\n"},
        {"journal verify", "", "check all records and signatures of the journal",
         CLI_OPTIONS(CLI_KEY), 0, cli_journal_verify,
         "Reads all files of the journal, and prints how many records they have and how many are\n"
         "signed. The first line that is wrong is an error, and the exit status is 1. With --key, only\n"
         "signatures of the public key in FILE count ('cloister journal key > FILE').\n"
         "\n"
         "Examples:\n"
         "  cloister journal verify\n"
         "  cloister journal verify --key key.pem\n"},
        {"journal key", "", "print the public key of the journal", NULL, 0, cli_journal_key,
         "Prints the public key as PEM, which openssl reads. Keep it on another machine.\n"
         "\n"
         "Examples:\n"
         "  cloister journal key > key.pem\n"},
        {"login", "NAME", "log in to an MCP server that asks for OAuth",
         CLI_OPTIONS(CLI_CONFIG, CLI_NO_BROWSER, CLI_SCOPE), 1, cli_login,
         "For servers with a url that ask for OAuth. Prints a URL to open in a browser, and waits for the\n"
         "browser's return on 127.0.0.1. The tokens are kept in files that only you can read\n"
         "($XDG_STATE_HOME/cloister/oauth) and are renewed when they expire; code in a sandbox and the\n"
         "process that serves clients never see more than the access token.\n"
         "\n"
         "With --no-browser, or at a terminal, the URL that the browser ends at can be pasted instead: the\n"
         "browser may be on another machine. --scope asks for further permissions; those of earlier logins\n"
         "are requested again. docs/oauth.md describes the config.\n"
         "\n"
         "Examples:\n"
         "  cloister login calendar\n"
         "  cloister login calendar --scope 'events:read events:write'\n"
         "  cloister login calendar --no-browser\n"},
        {"logout", "NAME", "end the login to an MCP server", CLI_OPTIONS(CLI_CONFIG), 1, cli_logout,
         "Revokes the tokens where the authorization server offers that, and removes them from this machine.\n"
         "\n"
         "Examples:\n"
         "  cloister logout calendar\n"},
        {"cp", "SESSION:PATH LOCAL | LOCAL SESSION:PATH",
         "copy files to or from a live session of a running server",
         CLI_OPTIONS(CLI_LABEL, CLI_RECURSIVE, CLI_OUT_HIDDEN, CLI_QUIET, CLI_SERVER), 2, cli_cp,
         "Copies a file, or with -r a directory, into or out of /workspace of a session. PATH is\n"
         "relative to /workspace; one that ends with a slash, or none, is a directory. - is standard\n"
         "input or output. A file appears when it is complete, and replaces one of its name.\n"
         "\n"
         "Symbolic links are not followed, neither in a directory that is copied nor in the session.\n"
         "Names that begin with a dot in a directory that is copied out are left out, because\n"
         "programs read such files as settings: --out-hidden writes them too. Empty directories are\n"
         "not copied. The exit status is 1 if files were left out, 125 if the copy failed. While a\n"
         "session runs code that awaits nothing, it does not answer. The agent's next result says\n"
         "which file a person has copied in.\n"
         "\n"
         "Examples:\n"
         "  cloister cp sales.csv default:\n"
         "  cloister cp default:out/plot.png .\n"
         "  cloister cp -r default:out results\n"
         "  cloister cp default:report.txt - | less\n"},
        {"exec", "SESSION [FILE | -c CODE | -]", "run Python in a live session of a running server",
         CLI_OPTIONS(CLI_CODE, CLI_TIMEOUT, CLI_WAIT, CLI_JSON, CLI_OUT, CLI_SERVER, CLI_PROMPT), 2,
         cli_exec,
         "Runs a file, a line of code or standard input (-) in a session that an agent uses: with its\n"
         "variables, files and tools. 'cloister sessions' lists the sessions. Output appears as it is\n"
         "printed; with -c, the value of the last expression is printed too. Ctrl-C interrupts the\n"
         "code, and the session keeps its variables. The agent's next result says that a person has\n"
         "run code.\n"
         "\n"
         "A session runs one piece of code at a time. If it is busy, this command says what it runs\n"
         "and ends with status 125; with --wait TIME it waits for its turn. The exit status is that\n"
         "of 'cloister run'. --json prints the result as an agent gets it. Images that the code\n"
         "displays become files in --out DIRECTORY.\n"
         "\n"
         "-i begins a prompt in the session, with a history, completion of names by the tab key, and\n"
         "blocks that end with an empty line. Ctrl-C interrupts the code, Ctrl-D or exit() ends it.\n"
         "\n"
         "Examples:\n"
         "  cloister exec -i default\n"
         "  cloister exec default -c 'df.shape'\n"
         "  cloister exec default fix.py --timeout 30 --wait 1m\n"
         "  cloister exec work -c 'dir()' --json\n"
         "  echo 'print(len(rows))' | cloister exec default -\n"},
        {"approve", "[ID]", "answer questions of your running servers about calls of tools",
         CLI_OPTIONS(CLI_ANSWER, CLI_ROWS, CLI_NOTE, CLI_JSON, CLI_SERVER, CLI_WATCH), 1,
         cli_approve,
         "Rules of the config can leave the decision about a call to you (docs/questions.md). Without\n"
         "arguments, lists the questions that are open. With an ID, shows the calls as they will be\n"
         "sent, and asks for the answer:\n"
         "\n"
         "  once      send these calls\n"
         "  cell      and do not ask again about this rule and tool until the cell ends\n"
         "  session   until the sandbox of the session ends\n"
         "  always    as session, and propose a rule (cloister rules proposed)\n"
         "  no        send none of them\n"
         "  1-12,15   send these rows only (option: --rows)\n"
         "\n"
         "The code whose calls are denied receives --note, or text after the answer. An answer is taken\n"
         "from a terminal only. --watch waits for the next question, until Ctrl-C.\n"
         "\n"
         "Examples:\n"
         "  cloister approve\n"
         "  cloister approve 7f3a2b1c\n"
         "  cloister approve 7f3a2b1c --answer no --note 'use the test address'\n"
         "  cloister approve 7f3a2b1c --rows 1-12,15\n"
         "  cloister approve --watch\n"},
        {"sessions end", "NAME", "end a session of a running server", CLI_OPTIONS(CLI_SERVER), 1,
         cli_sessions_end,
         "Its variables and files are lost; a call that runs in it ends as killed. The next call\n"
         "with its name gets a new sandbox and a notice. --server is needed if two servers have\n"
         "a session of this name.\n"
         "\n"
         "Examples:\n"
         "  cloister sessions end default\n"
         "  cloister sessions end work --server 4711\n"},
        {"sessions reset", "NAME", "end a session and replace it by a new, empty one",
         CLI_OPTIONS(CLI_SERVER), 1, cli_sessions_reset,
         "Like 'cloister sessions end', but the new sandbox is created immediately.\n"
         "\n"
         "Examples:\n"
         "  cloister sessions reset default\n"},
        {"sessions undo", "NAME [CHECKPOINT]",
         "take a session's variables back to an earlier state", CLI_OPTIONS(CLI_SERVER), 2,
         cli_sessions_undo,
         "While a call runs, the call ends as cancelled and the variables are as they were before it.\n"
         "Otherwise they are as at the newest checkpoint. With CHECKPOINT: as at that one; 'cloister\n"
         "sessions' lists them. Files and what tools have done are not taken back. The session's\n"
         "next result says what has happened.\n"
         "\n"
         "Examples:\n"
         "  cloister sessions undo default\n"
         "  cloister sessions undo default loaded\n"},
        {"sessions", "", "list the live sessions of your running servers",
         CLI_OPTIONS(CLI_JSON, CLI_SERVER, CLI_WATCH), 0, cli_sessions,
         "Each server (cloister mcp) that you run listens on a socket that only you can open. SERVER\n"
         "is its process id. LAST is how the session's last call ended, or how long the current\n"
         "call has been running, and the beginning of its code. Checkpoints of a session are listed\n"
         "below it.\n"
         "\n"
         "--watch shows the sessions on the terminal, once a second: what runs and for how long, the\n"
         "last line that it has printed, tool calls, processor time and memory. q or Ctrl-C ends it.\n"
         "With --json it prints one line a second, also without a terminal.\n"
         "\n"
         "Examples:\n"
         "  cloister sessions\n"
         "  cloister sessions --watch\n"
         "  cloister sessions --json\n"
         "  cloister sessions end default\n"},
        {"top", "", "show the sessions of your running servers, the busiest first",
         CLI_OPTIONS(CLI_SERVER), 0, cli_top,
         "As 'cloister sessions --watch', with the sums of all servers, and sorted: the keys c, m, t and a sort\n"
         "by processor time (at first), memory, tool calls and age. q or Ctrl-C ends it.\n"
         "\n"
         "Examples:\n"
         "  cloister top\n"},
        {"config path", "", "print which config files are read, and why",
         CLI_OPTIONS(CLI_CONFIG, CLI_JSON), 0, cli_config_path,
         "Examples:\n"
         "  cloister config path\n"
         "  cloister config path --config ./mcp.d --json\n"},
        {"config check", "", "report all problems of the config, with file and line",
         CLI_OPTIONS(CLI_CONFIG, CLI_JSON, CLI_STRICT, CLI_STORE), 0, cli_config_check,
         "Starts no server. Programs, interpreters, images, directories and users that the\n"
         "config names and this machine lacks are warnings. The exit status is 1 if there is an error;\n"
         "warnings count with --strict.\n"
         "\n"
         "Examples:\n"
         "  cloister config check\n"
         "  cloister config check --config ./mcp.json --json\n"
         "  cloister config check --strict\n"},
        {"config show", "", "print the config as Cloister understands it, with secrets masked",
         CLI_OPTIONS(CLI_CONFIG, CLI_JSON, CLI_AS, CLI_ALSO, CLI_NETWORK), 0, cli_config_show,
         "Prints one config made of all files; each profile includes what it takes from the top\n"
         "level. Values of variables are shown only if they are ${VAR}. With --json, each server\n"
         "has its file and line, and its problem. --as SYSTEM shows the config of 'cloister mcp --as',\n"
         "with the same options.\n"
         "\n"
         "Examples:\n"
         "  cloister config show\n"
         "  cloister config show --json | jq .profiles\n"},
        {"config schema", "", "print the JSON Schema of a config file", NULL, 0, cli_config_schema,
         "Editors complete and check a config with it: write it to a file, and name that file in\n"
         "\"$schema\" of the config.\n"
         "\n"
         "Examples:\n"
         "  cloister config schema > cloister.schema.json\n"},
        {"config import", "[CLIENT | FILE]...",
         "copy MCP servers from the configs of your other clients",
         CLI_OPTIONS(CLI_CONFIG, CLI_JSON, CLI_DRY_RUN, CLI_SECRETS), OPTION_WORDS_MAX,
         cli_config_import,
         "Reads the config files of claude-code, claude-desktop, cursor, vscode, codex, gemini,\n"
         "qwen, opencode and mcps (~/MCPs/*.json), or the named ones, and adds their servers to\n"
         "your config. The existing text of the config stays unchanged, comments included. Prints\n"
         "which servers were added, and which were left out and why.\n"
         "\n"
         "A value that looks like a secret is not copied: ${NAME} replaces it, and a line says\n"
         "which variable to set. With --secrets copy, or if you agree when asked, it is copied,\n"
         "and only you can read the file.\n"
         "\n"
         "Examples:\n"
         "  cloister config import --dry-run\n"
         "  cloister config import claude-code cursor\n"
         "  cloister config import ./team/mcp.json --config ~/mcp.json\n"},
        {"rules list", "", "print the rules about calls of tools, in their order",
         CLI_OPTIONS(CLI_CONFIG, CLI_PROFILE, CLI_JSON), 0, cli_rules_list,
         "The rules of the profile, then those of the top level (docs/rules.md). The first rule that\n"
         "matches a call decides.\n"
         "\n"
         "Examples:\n"
         "  cloister rules list\n"
         "  cloister rules list --profile careful --json\n"},
        {"rules explain", "SERVER.TOOL [ARGUMENTS [ANNOTATIONS]]",
         "print what the rules say of a call, and why",
         CLI_OPTIONS(CLI_SEEN, CLI_CONFIG, CLI_PROFILE, CLI_JSON), 3, cli_rules_explain,
         "ARGUMENTS and ANNOTATIONS are JSON objects. No server is started: without ANNOTATIONS the tool\n"
         "has those that MCP gives a tool which declares none. The first line is the decision; then each\n"
         "rule follows with the reason why it matches or not. The exit status is 0 for each decision.\n"
         "\n"
         "Examples:\n"
         "  cloister rules explain files.write_file '{\"path\": \"/tmp/x\"}'\n"
         "  cloister rules explain files.list '{}' '{\"readOnlyHint\": true}'\n"
         "  cloister rules explain mail.send '{}' --seen private,untrusted\n"
         "  cloister rules explain @network.connect '{\"host\": \"example.org\", \"port\": 443}'\n"},
        {"rules test", "", "run \"rule_tests\" of the config", CLI_OPTIONS(CLI_CONFIG, CLI_JSON), 0,
         cli_rules_test,
         "Prints each entry with the expected and the found decision. The exit status is 1 if an entry\n"
         "failed. A server refuses a config with such an entry.\n"
         "\n"
         "Examples:\n"
         "  cloister rules test\n"
         "  cloister rules test --config ./mcp.json --json\n"},
        {"rules proposed", "", "print the rules that the answer 'always' has proposed",
         CLI_OPTIONS(CLI_JSON), 0, cli_rules_proposed,
         "The answer 'always' to a question about a call holds for its session, and is kept in the journal\n"
         "as a proposed rule, which allows exactly this call (docs/questions.md). Prints those that were\n"
         "neither accepted nor rejected yet, the oldest first.\n"
         "\n"
         "Examples:\n"
         "  cloister rules proposed\n"
         "  cloister rules accept 7f3a2b1c-1\n"},
        {"rules accept", "ID", "write a proposed rule into the config",
         CLI_OPTIONS(CLI_CONFIG, CLI_DRY_RUN), 1, cli_rules_accept,
         "Writes the rule in front of the rule that has asked, into the file of that one: rules that come\n"
         "before still decide first. The rest of the file stays as it is, with its comments. A config that\n"
         "would be refused, by \"rule_tests\" for example, is not written.\n"
         "\n"
         "Examples:\n"
         "  cloister rules accept 7f3a2b1c-1 --dry-run\n"
         "  cloister rules accept 7f3a2b1c-1\n"},
        {"rules reject", "ID", "do not list a proposed rule any more", NULL, 1, cli_rules_reject,
         "The config stays as it is. The same proposal is listed again if the person answers 'always' again.\n"
         "\n"
         "Examples:\n"
         "  cloister rules reject 7f3a2b1c-1\n"},
        {"image build", "", "build a sandbox image from a Python of this machine, with packages",
         CLI_OPTIONS(COMMON, CLI_CONFIG, CLI_PYTHON, CLI_NAME, CLI_STORE, CLI_QUIET, CLI_LINK,
                     CLI_NODE, CLI_PYODIDE, CLI_ROOTFS, CLI_OCI, CLI_PYTHON_FROM, CLI_PRIVATE,
                     PACKAGES),
         0, cli_image_build,
         "Copies a CPython (3.9 or later), its standard library, its packages and the shared\n"
         "libraries that they need. This needs no download and no privilege, and takes a second or\n"
         "two. Otherwise the image is built at first use. After an upgrade of Python or of a package\n"
         "a new image is built automatically, and the old one is removed. An existing image of that\n"
         "name is kept.\n"
         "\n"
         "--python PYTHON is an interpreter, or the directory of a virtual environment, whose\n"
         "packages the image contains, or a version: 3.13 is the newest such Python in PATH, of pyenv\n"
         "or of uv. Default: the config's python, otherwise /usr/bin/python3.\n"
         "\n"
         "--link says how Cloister and the interpreter are linked. embed: Cloister opens its\n"
         "libpython. module: the interpreter loads Cloister. Default: what the interpreter supports.\n"
         "\n"
         "--with and --requirements add packages of an index. The machine's pip or uv resolves and\n"
         "fetches them, as wheels only: nothing is built from source, no code of a package runs.\n"
         "Wheels are cached by content, so that the same set needs no network the next time. pip's and\n"
         "uv's own settings name the index (PIP_INDEX_URL, pip.conf, UV_INDEX_URL, ...).\n"
         "\n"
         "--npm adds packages of npm, with the Node of --node (default: node). The machine's npm\n"
         "resolves them; no script of a package runs. NPM_CONFIG_REGISTRY names the registry.\n"
         "\n"
         "--rootfs DIRECTORY is a root file system that contains a CPython 3.9 or later, such as\n"
         "mmdebstrap makes; --python is then the interpreter's path inside it. It is copied without\n"
         "setuid bits and devices, and without what other users of the machine may not read there\n"
         "(--private takes it too). Its Python runs confined, to find its standard library.\n"
         "\n"
         "--oci PATH is a container image: an OCI layout (PATH:TAG if it has several images), an OCI\n"
         "archive or what 'docker save' writes. docker://REF is fetched by skopeo or crane. Variables\n"
         "and working directory of its config apply. An image without a Python gets that of the\n"
         "default image, or of --python-from NAME; its programs then run by subprocess.\n"
         "\n"
         "Examples:\n"
         "  cloister image build\n"
         "  cloister image build --rootfs ./bookworm --name bookworm\n"
         "  cloister image build --oci ./debian.tar --name debian\n"
         "  cloister image build --oci docker://docker.io/library/golang:1.24 --name go\n"
         "  cloister image build --with pandas,numpy --name data\n"
         "  cloister image build -r requirements.txt --name report\n"
         "  cloister image build --npm lodash@^4,@google/genai --name tools\n"
         "  cloister image build --with ours --find-links ./wheels --offline --name ours\n"
         "  cloister image build --python 3.13\n"
         "  cloister image build --python ~/project/.venv\n"
         "  cloister image build --python /opt/python/bin/python3.12 --name py312\n"
         "  cloister run --image data -c 'import pandas; print(pandas.__version__)'\n"},
        {"image list", "", "list the images", CLI_OPTIONS(COMMON, CLI_JSON, CLI_STORE), 0,
         cli_image_list,
         "USED is when a sandbox was last created from the image. \"stale\" marks an image with a\n"
         "generated name that is outdated; 'cloister image prune' removes those.\n"
         "\n"
         "Examples:\n"
         "  cloister image list\n"
         "  cloister image list --json\n"},
        {"image show", "NAME", "show the source of an image, and its packages with their hashes",
         CLI_OPTIONS(COMMON, CLI_JSON, CLI_STORE), 1, cli_image_show,
         "Packages of an index are listed with the SHA-256 of their wheel; those of a virtual\n"
         "environment have none.\n"
         "\n"
         "Examples:\n"
         "  cloister image show data\n"
         "  cloister image show data --json\n"},
        {"image path", "[NAME]", "print the directory of the image store, or of one image",
         CLI_OPTIONS(COMMON, CLI_STORE), 1, cli_image_path,
         "Examples:\n"
         "  du -sh \"$(cloister image path)\"\n"
         "  ls \"$(cloister image path py312)/root\"\n"},
        {"image remove", "NAME...", "remove images that are not in use",
         CLI_OPTIONS(COMMON, CLI_STORE), OPTION_WORDS_MAX, cli_image_remove,
         "An image that a running server uses is kept, and the exit status is 1.\n"
         "\n"
         "Examples:\n"
         "  cloister image remove data\n"
         "  cloister image remove py311 py312\n"},
        {"image prune", "", "remove outdated images and unused wheels",
         CLI_OPTIONS(COMMON, CLI_STORE, CLI_QUIET), 0, cli_image_prune,
         "Removes images with a generated name (default-..., packages-...) whose interpreter or\n"
         "libraries have changed or were removed, wheels that no remaining image needs, and leftovers of\n"
         "killed builds. Images that you named are kept, and so are those in use.\n"
         "\n"
         "Examples:\n"
         "  cloister image prune\n"},
        {"doctor", "",
         "show each layer of the sandbox on this machine, and how to fix what is missing",
         CLI_OPTIONS(SERVING, CLI_JSON, CLI_ATTACK), 0, cli_doctor,
         "Tries each layer, and reports it as effective, degraded or missing, with the fix. Last,\n"
         "it runs 1+1 in a real sandbox, as 'cloister run' does, which takes at most a minute.\n"
         "The exit status is that of 'cloister run': 0, 126 if no sandbox can be created on\n"
         "this machine, 125 if the config or the image is at fault.\n"
         "\n"
         "With --attack, code in a sandbox of the profile tries what it must not be able to do:\n"
         "system calls, files, namespaces, descriptors, limits and more. The kernel is then asked\n"
         "about each process of the sandbox. Each row has the class of the attack\n"
         "(docs/isolation.md), what is expected and what was found: held, open, known (open, and\n"
         "the profile allows it) or untried (the image or the kernel does not allow the attempt).\n"
         "The exit status is 1 if a row is open.\n"
         "\n"
         "Examples:\n"
         "  cloister doctor\n"
         "  cloister doctor --json\n"
         "  cloister doctor --attack --profile analysis\n"},
        {"bench", "[ROW]...", "measure Cloister on this machine, beside other ways to run Python",
         CLI_OPTIONS(CLI_JSON, CLI_ROUNDS, CLI_QUICK), OPTION_WORDS_MAX, cli_bench,
         "Starts servers of its own and measures how long a session, a call and a tool call take,\n"
         "and how much memory an idle session needs. In the same rounds it measures bubblewrap with\n"
         "python3 and the container runtimes that are installed. It takes a minute or two, on a\n"
         "machine that should do nothing else meanwhile.\n"
         "\n"
         "A ROW is one line of the table. \"own\" selects all rows of Cloister, \"all\" also those of\n"
         "peers that are not installed. \"lean\" selects what a session costs, which takes several\n"
         "minutes. \"growth\" selects the curves of latency: tools, session-heap, template-heap,\n"
         "results and parallel. The row that a selected row is compared with is measured too. A missed\n"
         "budget appears in the table; the exit status is 0 when all rows were measured. Needs a\n"
         "python3 in PATH.\n"
         "\n"
         "Examples:\n"
         "  cloister bench\n"
         "  cloister bench warm fresh --rounds 30\n"
         "  cloister bench lean --quick\n"
         "  cloister bench --json > bench.json\n"},
        {"help", "[COMMAND]", "explain a command", NULL, 2, run_help,
         "Examples:\n"
         "  cloister help run\n"
         "  cloister help image build\n"},
        {"completion", "bash | zsh | fish", "print the completion script of a shell", NULL, 1,
         run_completion,
         "'meson install' installs these scripts. From a build tree:\n"
         "\n"
         "Examples:\n"
         "  source <(cloister completion bash)\n"
         "  cloister completion zsh > ~/.zfunc/_cloister\n"
         "  cloister completion fish > ~/.config/fish/completions/cloister.fish\n"},
        /* Called by the build, and by completion scripts. */
        {"manual", "[COMMAND]", NULL, NULL, 2, run_manual,
         "Prints a manual page. 'man cloister' shows the installed ones.\n"},
        {"names", "images | sessions | systems", NULL, NULL, 1, cli_names,
         "Prints names, one per line, for completion.\n"},
        /* Started by cloister-monitor, as the user that images belong to. */
        {"image-builder", "--store DIRECTORY --python PATH", NULL,
         CLI_OPTIONS(COMMON, CLI_STORE, CLI_PYTHON, CLI_NAME, CLI_QUIET, CLI_LINK, CLI_NODE,
                     CLI_PYODIDE, CLI_ROOTFS, CLI_OCI, CLI_PYTHON_FROM, CLI_PRIVATE, CLI_FILES_KEY,
                     PACKAGES),
         0, cli_image_builder,
         "Builds one image. 'cloister image build' is the command for users.\n"},
        {"package-installer", "--store DIRECTORY --python PATH [REQUEST]", NULL,
         CLI_OPTIONS(COMMON, CLI_STORE, CLI_PYTHON), 1, cli_package_installer,
         "Installs packages for a session of the server that starts it, or for the image that is built.\n"},
};
const struct cli_commands cli_commands = {rows, ARRAY_SIZE(rows)};

/* "cloister 0.9.0 (0123abcdef)", with "-dirty" where files differ from the commit; "cloister 0.9.0" when it
 * was built outside a git repository. */
static const char *version(void)
{
        return *CLOISTER_COMMIT ? "cloister " CLOISTER_VERSION " (" CLOISTER_COMMIT ")"
                                : "cloister " CLOISTER_VERSION;
}

static int dispatch(const struct options *o)
{
        struct error error = {};
        size_t used = 0;

        if (o->n_words == 0 && o->version) {
                puts(version());
                return 0;
        }
        if (o->n_words == 0 && !o->help)
                return cli_fail_text(2, "which command? (see 'cloister --help')");
        if (o->help)
                return help_print(&cli_commands, o->words, o->n_words);
        const struct cli_command *command = cli_find_command(&cli_commands, o->words, o->n_words,
                                                             &used, &error);
        if (!command || cli_check_command(command, o, o->n_words - used, &error) < 0)
                return cli_fail(2, &error);
        if (o->log_level >= 0)
                log_set_level((enum log_level)o->log_level);
        return command->run(o, o->words + used, o->n_words - used);
}

int cli_main(int argc, char **argv)
{
        struct options options;
        struct error error = {};

        int status = 2;

        if (as_options_parse(argc - 1, argv + 1, &options, &status, &error) < 0)
                return cli_fail(status, &error);
        status = dispatch(&options);
        if (fflush(stdout) != 0 || ferror(stdout)) {
                error_errno(&error, errno, "write to standard output");
                return cli_fail(1, &error);
        }
        return status;
}
