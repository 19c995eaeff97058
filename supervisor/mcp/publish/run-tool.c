/* Calls of tools that run the code they are given. */
#include "supervisor/mcp/publish/run-tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "base/utf8.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/publish/form-result.h"
#include "supervisor/mcp/publish/run-tool-arguments.h"
#include "supervisor/mcp/publish/run-tool-log.h"
#include "supervisor/mcp/tasks/task.h"

/* The names that code has in its sandbox (docs/publish.md). */
static const char *const script_files[] = {
        [LANGUAGE_PYTHON] = "/workspace/script.py",
        [LANGUAGE_JAVASCRIPT] = "/workspace/script.js",
};

enum { SCRIPT_FRAME_MAX = 4 * 1024 * 1024 };

/* Of a call, until its answer is made. */
struct run_tool {
        struct config *config; /* a reference: the form is in it */
        enum config_guest guest;
        struct form_facts facts;
};

static struct run_tool *run_tool_free(struct run_tool *tool)
{
        if (!tool)
                return NULL;
        config_free(tool->config);
        free(tool);
        return NULL;
}

static struct run_tool *run_tool_new(const struct mcp_request *request,
                                     const struct config_published *entry)
{
        struct mcp_server *server = request->peer->server;
        struct run_tool *tool = calloc(1, sizeof(*tool));

        if (!tool)
                return NULL;
        tool->config = config_ref(server->config);
        tool->guest = entry->run.guest;
        tool->facts = (struct form_facts){
                .form = entry->result,
                .is_script = entry->run.is_script,
                .most = server->config->output_characters,
        };
        if (entry->run.session)
                snprintf(tool->facts.session, sizeof(tool->facts.session), "%s",
                         entry->run.session);
        else
                mcp_call_name_session(tool->facts.session);
        return tool;
}

/* ---- the answer ---- */

/* Answers that no code was run. */
static void refuse(const struct run_tool *tool, struct reply *reply, const char *type,
                   const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct cell_outcome outcome = {.status = CELL_ERROR, .error_type = type};

        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&outcome.streams[i]);
        snprintf(outcome.why, sizeof(outcome.why), "%s", why);
        run_tool_log_end(tool->guest, &outcome);
        int r = form_render(&outcome, &tool->facts, &result);
        reply_made(reply, r, &result);
}

/* An outcome that is rendered in the background; owns the facts. */
struct tool_answer {
        struct mcp_answer answer; /* first */
        struct run_tool *tool;
};

static int make_answer(struct mcp_answer *answer, struct buffer *to)
{
        const struct tool_answer *a = (const void *)answer;

        return form_render(&answer->outcome, &a->tool->facts, to);
}

static void free_tool(struct mcp_answer *answer)
{
        struct tool_answer *a = (void *)answer;

        a->tool = run_tool_free(a->tool);
}

static void on_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *outcome)
{
        static const struct mcp_answer_kind kind = {.make = make_answer, .done = free_tool};
        struct tool_answer *a = calloc(1, sizeof(*a));

        mcp_call_finish(call);
        if (!a) {
                reply_error(&call->reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                mcp_call_free(call);
                return;
        }
        a->tool = take_ptr(call->tool);
        run_tool_log_end(a->tool->guest, outcome);
        a->tool->facts.kinds = call->kinds;
        mcp_answer_start(&a->answer, &kind, call, outcome);
}

static void on_done(struct mcp_call *call)
{
        call->tool = run_tool_free(call->tool);
}

static const struct mcp_call_kind tool_kind = {on_ended, on_done};

/* ---- the cell ---- */

/* The payload of SCRIPT. Empty: the code is a cell as that of run_python. program: of the language, or NULL. */
static int append_script(const struct config_run *run, const struct config_program *program,
                         const char *file, struct buffer *to)
{
        struct json_out out = {.to = to};
        bool is_script = run->is_script || program;

        if (!is_script && !run->name && run->guest == GUEST_CLOISTER)
                return 0;
        json_out_begin(&out, NULL, '{');
        json_out_bool(&out, "once", true);
        if (run->name)
                json_out_text(&out, "name", run->name);
        if (run->guest != GUEST_CLOISTER)
                json_out_text(&out, "guest",
                              run->guest == GUEST_PYODIDE ? "pyodide" : "codemode-lite");
        if (is_script) {
                json_out_begin(&out, "arguments", '[');
                json_out_text(&out, NULL, file);
                json_out_end(&out, ']');
                json_out_begin(&out, "environment", '{');
                for (char *const *v = run->env; v && *v; v++) {
                        size_t n = strcspn(*v, "=");
                        json_out_key(&out, *v, n);
                        json_out_text(&out, NULL, *v + n + 1);
                }
                json_out_end(&out, '}');
                json_out_text(&out, "file", file);
                json_out_bool(&out, "write", true);
                json_out_bool(&out, "ends", !run->session && !program);
        }
        if (program) {
                json_out_begin(&out, "commands", '[');
                for (char *const *command = program->commands; *command; command++)
                        json_out_text(&out, NULL, *command);
                json_out_end(&out, ']');
        }
        json_out_text(&out, "input", "none");
        json_out_end(&out, '}');
        return out.error;
}

static int start_cell(struct mcp_call *call, const struct config_published *entry,
                      const struct config_profile *profile,
                      const struct run_tool_arguments *arguments, struct error *err)
{
        _cleanup_buffer_ struct buffer script = BUFFER_INIT(SCRIPT_FRAME_MAX);
        const struct config_program *program = arguments->program ? &arguments->program->program
                                                                  : NULL;
        char file[sizeof("/workspace/") + IMAGE_NAME_SIZE], key[SESSION_KEY_MAX + 1];

        if (program)
                snprintf(file, sizeof(file), "/workspace/%s", program->file);
        else
                snprintf(file, sizeof(file), "%s",
                         script_files[profile ? profile->language : LANGUAGE_PYTHON]);
        if (append_script(&entry->run, program, file, &script) < 0)
                return error_errno(err, ENOMEM, "the script");
        session_key_make(call->principal->key, call->session, key);
        run_tool_log_start(entry->run.guest, arguments);
        const struct cell_request cell = {
                .code = arguments->code,
                .code_length = arguments->code_length,
                .filename = entry->run.is_script || program ? file : NULL,
                .script = script.length > 0 ? buffer_bytes(&script) : NULL,
                .script_length = script.length,
                .needs = arguments->needs,
                .merges_needs = true,
                .timeout_ms = arguments->timeout_ms,
                .profile = profile ? profile->name : NULL,
                .language = arguments->language,
                .is_single = !entry->run.session,
                .request_id = reply_id(&call->reply),
                .client_name = call->client_name,
                .trace = &call->trace,
                .done = mcp_call_done,
                .watch = mcp_call_output,
                .client = &mcp_input_client,
                .waits = mcp_call_waits,
                .data = call,
        };
        return sessions_run(call->server->sessions, key, &cell, &call->cell, err);
}

/* The profile of the entry, or of the client, for the language of the call; NULL: the config's default. */
static int find_profile(const struct mcp_request *request, const struct config_published *entry,
                        const struct run_tool_arguments *arguments,
                        const struct config_profile **ret, struct error *err)
{
        const struct config *config = request->peer->server->config;
        const struct config_profile *own = mcp_profile(request->peer, request->era);
        enum language language = arguments->language;
        size_t i = entry->profile ? config_profile_index(config, entry->profile) : SIZE_MAX;
        bool found;

        if (arguments->program) {
                *ret = arguments->program;
                found = (i != SIZE_MAX && *ret == &config->profiles[i]) ||
                        mcp_profile_is_choice(*ret, own, language);
        } else if (i != SIZE_MAX) {
                *ret = &config->profiles[i];
                found = (*ret)->language == language;
        } else {
                found = mcp_profile_for(config, own, language, ret);
        }
        return found ? 0
                     : error_set(
                               err, EINVAL,
                               "the language \"%s\" is not available: no profile that may be used here has it",
                               arguments->program ? arguments->program->program.language
                                                  : language_names[language]);
}

/* By which a modern client's request is compared with the call that it continues. */
static uint64_t digest_of(const struct config_published *entry, yyjson_val *arguments)
{
        _cleanup_buffer_ struct buffer name = BUFFER_INIT(RESULT_MAX);
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(RESULT_MAX);

        buffer_append_text(&name, entry->name);
        if (arguments)
                json_append(&text, arguments);
        return mcp_input_digest_published("tools/call", &name, &text);
}

/* A modern request may continue a call that waits for the client's answers; with another state nothing is run. Returns
 * whether it was answered. */
static bool resume(const struct mcp_request *request, uint64_t digest, struct reply *reply)
{
        if (request->era != ERA_MODERN ||
            !yyjson_is_str(yyjson_obj_get(request->params, "requestState")))
                return false;
        if (!mcp_input_resume(request, digest, reply))
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            "requestState is not known: it may have expired");
        return true;
}

void run_tool_call(const struct mcp_request *request, const struct config_published *entry,
                   struct reply *reply)
{
        yyjson_val *given = yyjson_obj_get(request->params, "arguments");
        const struct config_profile *profile = NULL;
        uint64_t digest = request->era == ERA_MODERN ? digest_of(entry, given) : 0;
        struct run_tool *tool = run_tool_new(request, entry);
        struct run_tool_arguments arguments;
        struct service_refusal refusal;
        bool is_refused = false;
        struct error err = {};

        if (!tool) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        if (resume(request, digest, reply)) {
                run_tool_free(tool);
                return;
        }
        int r = run_tool_arguments_take(given, tool->config, entry, &arguments, &err);
        if (r >= 0)
                r = find_profile(request, entry, &arguments, &profile, &err);
        if (r >= 0)
                r = run_tool_arguments_find_servers(&arguments, tool->config, profile, &err);
        tool->facts.timeout_ms = arguments.timeout_ms;
        if (arguments.server)
                snprintf(tool->facts.server, sizeof(tool->facts.server), "%s", arguments.server);
        utf8_trim(tool->facts.server);
        const char *type = r < 0 ? "ArgumentError" : "SandboxError", *why = err.text;
        if (tool->config->as.refusal) {
                type = "SettingError";
                why = tool->config->as.refusal;
        } else if (r >= 0) {
                is_refused = mcp_call_admit(request->peer, tool->facts.session, 1, &refusal) < 0;
                why = is_refused ? refusal.text : NULL;
        }
        if (entry->run.session)
                mcp_sink_name_session(reply->sink, tool->facts.session);
        if (why) {
                if (!is_refused || !reply_refuse(reply, &refusal))
                        refuse(tool, reply, type, why);
                run_tool_free(tool);
                return;
        }
        /* The size of an answer is estimated by it: a form may show more of a stream than `output`. */
        struct mcp_call *call = mcp_call_new(request, &tool_kind, tool->facts.session,
                                             OUTPUT_CHARACTERS_MAX, reply);
        if (!call) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                run_tool_free(tool);
                return;
        }
        call->tool = tool;
        call->suspension.digest = digest;
        if (start_cell(call, entry, profile, &arguments, &err) < 0) {
                refuse(tool, &call->reply, "SandboxError", err.text);
                mcp_call_free(call);
        } else if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0) {
                log_warning("a call goes without progress: out of memory");
        }
}
