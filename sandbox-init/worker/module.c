/*
 * The built-in module _cloister.
 *
 *     boot()            runs bootstrap.py; once, from the command line
 *     source(name)      the bytes of an embedded Python file, None when there is none
 *     compiled(name, magic)
 *                       its code, marshalled, None when there is none for this magic number
 *     preload()         names of the modules that the profile preloads, one per line
 *     serve(idle)       serves as the template; returns in each worker, whether its pid is that of each
 *                       worker. Between sessions it calls idle() until that returns something false
 *     warm_up(cell, turn)
 *                       returns turn(), called while the channel is a socket pair on which an EXEC
 *                       with this payload has come; what is sent on it is dropped
 *     fileno()          the channel, for an event loop to watch; nothing else may touch it
 *     send(type, id, payload)  blocks until sent. True: frames may have been read meanwhile
 *     read(list)        appends (type, id, payload) for each frame that has arrived: to a list, so
 *                       that no signal handler comes between. payload: bytes; a str where it came
 *                       in a memfd; None when there is no memory for it; an errno when it was lost
 *     wait(timeout_ms)  whether there is something to read; -1: no bound. A signal's handler may
 *                       raise here
 *     waiting()         for that handler: it was called from inside wait()
 *     poll(fd, timeout_ms)
 *                       waits for the channel and another descriptor: 1, 2 or both of them for
 *                       what is ready, 0 when neither is or a signal came; its handler runs later
 *     ask(type, id, payload, fd)
 *                       send(), then poll() without a bound. The payload of the RETURN with this id
 *                       where that is the first frame to come, else None: then it was not read
 *     ours()            whether this is the session's first process, not a fork of it
 *     begin()           lets SIGINT through; whether descriptors 0, 1 and 2 are open
 *     flush()           C's stdout; whether descriptors 0, 1 and 2 are open
 *     is_empty(path)    whether a directory of /workspace is empty or absent, as far as its size shows; the path is bytes
 *     spares()          copies of descriptors 1 and 2, above those that code opens; -1 for one that failed
 *     in_template()
 *     copy(threads, bytes, socket), rolled_back(): copy.h; copy() returns 0 in the copy
 *     dump(threads, fd), write(fd, mask), load(fd, offset, number): copy.h; dump() returns (number,) in the branch
 *     begin_image(), end_image()
 *                       in the template, after the warm-up: memory/image.h. 0 or an errno
 *     inherit()         in the template, after the warm-up: memory/inherit.h
 *     wrap(number, module, doc, original), flags(type, values): own-files.h
 *     forked()          in a child of Python's fork: the channel is not its own
 *
 * When the channel is closed, the process exits at once.
 */
#include "sandbox-init/worker/module.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox-init/raw.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/setup/template.h"
#include "sandbox-init/worker/arenas.h"
#include "sandbox-init/worker/channel.h"
#include "sandbox-init/worker/copy.h"
#include "sandbox-init/worker/memory/image.h"
#include "sandbox-init/worker/memory/inherit.h"
#include "sandbox-init/worker/own-files.h"
#include "sandbox-init/worker/sources.h"
#include "sandbox-init/worker/sqlite-locks.h"
#include "sandbox-init/worker/threads.h"

/* METH_FASTCALL: supported since CPython 3.7, in the limited API since 3.10. The functions that each
 * cell calls use this or METH_O, because PyArg_ParseTuple is slow. */
enum { CALL_FAST = 0x0080, WARM_UP_CELL_MAX = 256 };

enum {
        WORKER_PID = 2, /* the first process that PID 1 forks */
        SPARE_BELOW_CHANNEL =
                8, /* descriptors below the channel: code that counts up does not meet them */
        EMPTY_TMPFS =
                40, /* size of a directory, which grows by 20 with each entry (BOGO_DIRENT_SIZE of mm/shmem.c) */
};

static bool reported; /* template_ready() or template_failed() was called */
static int in_wait;   /* wait() checks for signals */
static int pulled;    /* send() has read frames */
static int sleepers;  /* threads that wait in wait() */

bool module_has_reported(void)
{
        return reported;
}

static PyObject *none(void)
{
        return py.Py_BuildValue("");
}

/* Not through CPython, which would run exit handlers of the guest. */
static _Noreturn void leave(int status, const char *why)
{
        char text[600];

        if (why) {
                int n = snprintf(text, sizeof(text), "cloister: %s\n", why);
                fd_write_all(STDERR_FILENO, text, (size_t)n);
        }
        _exit(status);
}

static _Noreturn void leave_lost(const char *why)
{
        leave(FRAME_EXIT_LOST, why);
}

/* Returns false with a Python exception. */
static bool take_count(Py_ssize_t n, Py_ssize_t wanted)
{
        if (n != wanted)
                py.PyErr_Format(*py.PyExc_RuntimeError, "%zd arguments, not %zd", n, wanted);
        return n == wanted;
}

static bool take_int(PyObject *object, int *ret)
{
        long long value = py.PyLong_AsLongLong(object);

        if (value == -1 && py.PyErr_Occurred())
                return false;
        *ret = (int)value;
        return true;
}

static bool take_id(PyObject *object, unsigned long long *ret)
{
        *ret = py.PyLong_AsUnsignedLongLongMask(object);
        return *ret != (unsigned long long)-1 || !py.PyErr_Occurred();
}

/* Formats the pending exception as "Type: message", cut at n bytes, and clears it. */
static void exception_text(char *text, size_t n)
{
        PyObject *type = NULL, *value = NULL, *traceback = NULL;
        char *name = NULL, *message = NULL;

        py.PyErr_Fetch(&type, &value, &traceback);
        py.PyErr_NormalizeException(&type, &value, &traceback);
        PyObject *name_object = type ? py.PyObject_GetAttrString(type, "__name__") : NULL;
        PyObject *value_text = value ? py.PyObject_Str(value) : NULL;
        PyObject *name_bytes = name_object ? py.PyUnicode_AsUTF8String(name_object) : NULL;
        PyObject *value_bytes = value_text ? py.PyUnicode_AsUTF8String(value_text) : NULL;
        if (name_bytes)
                py.PyBytes_AsStringAndSize(name_bytes, &name, NULL);
        if (value_bytes)
                py.PyBytes_AsStringAndSize(value_bytes, &message, NULL);
        snprintf(text, n, "%s: %s", name ? name : "exception", message ? message : "?");
        for (char *c = text; *c; c++)
                if (*c == '\n')
                        *c = ' ';
        py.PyErr_Clear();
        py.Py_DecRef(name_object);
        py.Py_DecRef(value_text);
        py.Py_DecRef(name_bytes);
        py.Py_DecRef(value_bytes);
}

/* The source of this name, or NULL. */
static const struct guest_source *find_source(const char *name)
{
        for (size_t i = 0; i < guest_sources_count; i++)
                if (strcmp(guest_sources[i].name, name) == 0)
                        return &guest_sources[i];
        return NULL;
}

static PyObject *run_source(const char *name)
{
        const struct guest_source *source = find_source(name);
        char filename[64];

        if (!source)
                return py.PyErr_Format(*py.PyExc_RuntimeError, "%s is not embedded", name);
        snprintf(filename, sizeof(filename), "<cloister>/%s.py", name);
        PyObject *code = py.Py_CompileString(source->bytes, filename, Py_file_input);
        PyObject *globals = code ? py.PyDict_New() : NULL;
        if (!globals ||
            py.PyDict_SetItemString(globals, "__builtins__", py.PyEval_GetBuiltins()) < 0)
                return NULL;
        return py.PyEval_EvalCode(code, globals, globals);
}

/* The globals and the result of bootstrap.py are never released: it ends with the process. */
static PyObject *cloister_boot(PyObject *self, PyObject *args)
{
        char text[400];
        struct error error = {0};

        if (reported)
                return py.PyErr_Format(*py.PyExc_RuntimeError, "the worker is booted");
        arenas_watch();
        if (run_source("bootstrap"))
                leave(EXIT_FAILURE, NULL);
        exception_text(text, sizeof(text));
        if (reported)
                leave(EXIT_FAILURE, text);
        error_set(&error, ENOEXEC, "start CPython: %s", text);
        reported = true;
        template_failed(&error);
        leave(EXIT_FAILURE, NULL);
}

static PyObject *cloister_source(PyObject *self, PyObject *args)
{
        const char *name;

        if (!py.PyArg_ParseTuple(args, "s", &name))
                return NULL;
        const struct guest_source *source = find_source(name);
        if (!source)
                return none();
        return py.PyBytes_FromStringAndSize(source->bytes, (Py_ssize_t)source->length);
}

static PyObject *cloister_compiled(PyObject *self, PyObject *args)
{
        const char *name;
        char *magic;
        Py_ssize_t n;
        PyObject *bytes;

        if (!py.PyArg_ParseTuple(args, "sO", &name, &bytes) ||
            py.PyBytes_AsStringAndSize(bytes, &magic, &n) < 0)
                return NULL;
        for (size_t i = 0; n == GUEST_MAGIC_SIZE && i < guest_codes_count; i++) {
                const struct guest_code *code = &guest_codes[i];
                if (strcmp(code->name, name) == 0 &&
                    memcmp(code->magic, magic, GUEST_MAGIC_SIZE) == 0)
                        return py.PyBytes_FromStringAndSize(code->bytes, (Py_ssize_t)code->length);
        }
        return none();
}

static PyObject *cloister_preload(PyObject *self, PyObject *args)
{
        return py.Py_BuildValue("s", template_plan()->preload);
}

static PyObject *idle; /* argument of serve(); borrowed */

static bool call_idle(void)
{
        char text[400];

        PyObject *more = py.PyObject_CallObject(idle, NULL);
        int r = more ? py.PyObject_IsTrue(more) : -1;

        if (r < 0) {
                exception_text(text, sizeof(text));
                leave(EXIT_FAILURE, text);
        }
        py.Py_DecRef(more);
        return r == 1;
}

static int send_one(int channel, enum frame_type type, const char *payload, size_t n)
{
        struct frame_header header = {.length = (uint32_t)n, .type = (uint8_t)type, .id = 1};
        uint8_t frame[FRAME_HEADER_SIZE + WARM_UP_CELL_MAX];

        if (n > WARM_UP_CELL_MAX)
                return -EMSGSIZE;
        frame_header_encode(&header, frame);
        memcpy(frame + FRAME_HEADER_SIZE, payload, n);
        return fd_write_all(channel, frame, FRAME_HEADER_SIZE + n);
}

/* Sends an empty catalogue, the cell, and then the end of the stream: if the cell does not arrive, the reader ends
 * instead of waiting forever. */
static int send_cell(int channel, const char *cell, size_t n)
{
        static const char catalogue[] = "{\"servers\":[]}";

        int r = send_one(channel, FRAME_CATALOG, catalogue, sizeof(catalogue) - 1);
        if (r >= 0)
                r = send_one(channel, FRAME_EXEC, cell, n);
        if (r >= 0 && syscall(SYS_shutdown, channel, SHUT_WR) < 0)
                r = -errno;
        return r;
}

/* A dummy cell that runs through the same code as a cell of the broker. An idle template runs it several times, so
 * that CPython's specialized code and caches are shared by its workers. A worker that finds no cell at its start runs it
 * once, so that the pages that a cell writes to are already its own. Only before the channel has been read: no code of
 * the guest runs earlier. */
static PyObject *cloister_warm_up(PyObject *self, PyObject *args)
{
        PyObject *bytes, *turn;
        char *cell;
        Py_ssize_t n;
        int pair[2];

        if (!py.PyArg_ParseTuple(args, "OO", &bytes, &turn) ||
            py.PyBytes_AsStringAndSize(bytes, &cell, &n) < 0)
                return NULL;
        if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return py.PyErr_Format(*py.PyExc_RuntimeError, "socketpair: errno %d", errno);
        PyObject *result = NULL;
        int r = send_cell(pair[0], cell, (size_t)n);
        if (r < 0) {
                py.PyErr_Format(*py.PyExc_RuntimeError, "send a cell: errno %d", -r);
        } else if (channel_divert(pair[1]) < 0) {
                py.PyErr_Format(*py.PyExc_RuntimeError, "the channel was read already");
        } else {
                result = py.PyObject_CallObject(turn, NULL);
                channel_restore();
        }
        fd_close_many(pair, 2);
        return result;
}

/* CPython's hooks of fork() renew locks and forget threads. A template has one thread, which holds no lock, and running
 * them writes to a hundred pages of each worker. */
static bool needs_fork_hooks;

static void before_fork(void)
{
        if (needs_fork_hooks)
                py.PyOS_BeforeFork();
}

static void after_fork_parent(void)
{
        if (needs_fork_hooks)
                py.PyOS_AfterFork_Parent();
}

static void after_fork_child(void)
{
        if (needs_fork_hooks)
                py.PyOS_AfterFork_Child();
}

static PyObject *cloister_need_fork_hooks(PyObject *self, PyObject *args)
{
        needs_fork_hooks = true;
        return none();
}

static bool serves;             /* this is a template */
static int spares[] = {-1, -1}; /* copies of descriptors 1 and 2 */

static void copy_standard(void)
{
        int lowest = channel_number() - SPARE_BELOW_CHANNEL;

        for (int fd = 1; fd <= 2; fd++) {
                long copy = raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest > 3 ? lowest : 3, 0, 0,
                                     0);
                spares[fd - 1] = copy < 0 ? -1 : (int)copy;
        }
}

static PyObject *cloister_spares(PyObject *self, PyObject *args)
{
        return py.Py_BuildValue("(ii)", spares[0], spares[1]);
}

static PyObject *cloister_in_template(PyObject *self, PyObject *args)
{
        return py.PyBool_FromLong(serves);
}

static PyObject *cloister_serve(PyObject *self, PyObject *argument)
{
        struct template_session session = {.rpc_fd = -1, .release_fd = -1, .listener_fd = -1};
        struct error error = {0};

        if (reported)
                return py.PyErr_Format(*py.PyExc_RuntimeError, "the worker is serving");
        struct template_hooks hooks = {
                .before_fork = before_fork,
                .after_fork_parent = after_fork_parent,
                .after_fork_child = after_fork_child,
                .idle = call_idle,
        };

        idle = argument;
        reported = serves = true;
        branch_prepare();
        int r = template_end_others(&error);
        if (r < 0)
                template_failed(&error);
        else
                r = template_ready(&error);
        if (r >= 0)
                r = template_serve(&hooks, &session, &error);
        if (r < 0)
                leave(EXIT_FAILURE, error.text);
        if (r == 0)
                _exit(EXIT_SUCCESS);
        channel_open(session.rpc_fd, session.release_fd, session.listener_fd);
        copy_standard();
        /* Signals that came in the template. Their handler ignores them. */
        if (py.PyErr_CheckSignals() < 0)
                py.PyErr_Clear();
        serves = false;
        return py.PyBool_FromLong(raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0) == WORKER_PID);
}

/* The descriptor, or -1 with a Python exception. */
static int own_channel(void)
{
        int fd = channel_fd();
        if (fd < 0)
                py.PyErr_Format(*py.PyExc_RuntimeError,
                                "only the session's first process can talk to Cloister");
        return fd;
}

static PyObject *cloister_fileno(PyObject *self, PyObject *args)
{
        int fd = own_channel();
        return fd < 0 ? NULL : py.PyLong_FromLong(fd);
}

static void pull_or_leave(void)
{
        int r = channel_pull();
        if (r == -ENOMEM)
                leave_lost("out of memory for a message");
        if (r < 0)
                leave_lost(NULL);
}

/* Called by a sender that waits without the interpreter's lock; data is its saved thread state. */
static bool pull_for_sender(void *data)
{
        PyThreadState **state = data;

        py.PyEval_RestoreThread(*state);
        pull_or_leave();
        pulled = 1;
        bool again = !channel_full();
        *state = py.PyEval_SaveThread();
        return again;
}

/* Sends a frame. If nothing was read meanwhile, waits for the channel and for the descriptor
 * `beside`, unless that is -1. Returns which are ready (channel.h), or -1 with an exception. */
static int send_frame(int type, unsigned long long id, PyObject *bytes, int beside)
{
        char *payload;
        Py_ssize_t n;
        int ready = 0;

        if (py.PyBytes_AsStringAndSize(bytes, &payload, &n) < 0 || own_channel() < 0)
                return -1;
        PyThreadState *state = py.PyEval_SaveThread();
        int r = channel_send((uint8_t)type, id, payload, (size_t)n, pull_for_sender, &state);
        if (r == 0 && beside >= 0 && !pulled)
                ready = channel_wait_beside(beside, -1);
        py.PyEval_RestoreThread(state);
        if (r == -EMSGSIZE) {
                py.PyErr_Format(*py.PyExc_ValueError,
                                "%zd bytes are more than a message may have (%d)", n,
                                FRAME_PAYLOAD_MAX);
                return -1;
        }
        if (r < 0)
                leave_lost(NULL);
        return ready;
}

static PyObject *cloister_send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
        int type;
        unsigned long long id;

        if (!take_count(count, 3) || !take_int(args[0], &type) || !take_id(args[1], &id) ||
            send_frame(type, id, args[2], -1) < 0)
                return NULL;
        return py.PyBool_FromLong(pulled);
}

/* Frames that wait in the queue until the loop of the main thread waits, or any frame is sent. */
static PyObject *cloister_queue(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
        int type;
        unsigned long long id;
        char *payload;
        Py_ssize_t n;

        if (!take_count(count, 3) || !take_int(args[0], &type) || !take_id(args[1], &id) ||
            py.PyBytes_AsStringAndSize(args[2], &payload, &n) < 0)
                return NULL;
        if (channel_queue((uint8_t)type, id, payload, (size_t)n) < 0)
                return cloister_send(self, args, count);
        return py.PyBool_FromLong(pulled);
}

static void send_queued(void)
{
        if (!channel_has_queued())
                return;
        PyThreadState *state = py.PyEval_SaveThread();
        int r = channel_flush(pull_for_sender, &state);
        py.PyEval_RestoreThread(state);
        if (r < 0)
                leave_lost(NULL);
}

static PyObject *cloister_send_queued(PyObject *self, PyObject *args)
{
        send_queued();
        return py.PyBool_FromLong(pulled);
}

static PyObject *or_none(PyObject *object)
{
        if (object)
                return object;
        py.PyErr_Clear();
        return none();
}

/* The content of a memfd becomes a str at once: bytes would be one more copy of a large text. */
static PyObject *take_text(const struct frame_header *header)
{
        struct channel_view view;

        int r = channel_map(header, &view);
        if (r < 0)
                return or_none(py.PyLong_FromLong(-r));
        PyObject *text = NULL;
        if (view.bytes)
                text = py.PyUnicode_FromStringAndSize(view.bytes, (Py_ssize_t)view.length);
        channel_unmap(&view);
        return or_none(text);
}

static int append_frame(PyObject *list, const struct frame_header *header, const char *payload)
{
        PyObject *content = frame_has_fd(header->type)
                                    ? or_none(py.PyLong_FromLong(channel_take_fd()))
                            : header->flags & FRAME_IN_MEMFD
                                    ? take_text(header)
                                    : or_none(py.PyBytes_FromStringAndSize(
                                              payload, (Py_ssize_t)header->length));
        PyObject *frame = py.Py_BuildValue("(iKN)", (int)header->type,
                                           (unsigned long long)header->id, content);
        int r = frame ? py.PyList_Append(list, frame) : -1;
        py.Py_DecRef(frame);
        return r;
}

static PyObject *cloister_read(PyObject *self, PyObject *list)
{
        struct frame_header header;
        struct error error = {0};
        const char *payload;

        if (own_channel() < 0)
                return NULL;
        pulled = 0;
        pull_or_leave();
        int r;
        while ((r = channel_peek(&header, &payload, &error)) > 0) {
                if (append_frame(list, &header, payload) < 0)
                        leave_lost("out of memory for a message");
                channel_next(&header);
        }
        if (r < 0)
                leave_lost(error.text);
        return none();
}

/* Does not read while a thread waits for the channel: that thread would miss the other frames. */
static PyObject *cloister_ask(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
        struct frame_header header;
        struct error error = {0};
        const char *payload;
        int type, fd;
        unsigned long long id;

        if (!take_count(count, 4) || !take_int(args[0], &type) || !take_id(args[1], &id) ||
            !take_int(args[3], &fd))
                return NULL;
        int ready = send_frame(type, id, args[2],
                               channel_peek(&header, &payload, NULL) == 0 ? fd : -1);
        if (ready < 0)
                return NULL;
        if (!(ready & CHANNEL_READY) || sleepers > 0)
                return none();
        pull_or_leave();
        int r = channel_peek(&header, &payload, &error);
        if (r < 0)
                leave_lost(error.text);
        if (r == 0 || header.type != FRAME_RETURN || header.id != id ||
            header.flags & FRAME_IN_MEMFD)
                return none();
        PyObject *content = py.PyBytes_FromStringAndSize(payload, (Py_ssize_t)header.length);
        if (content)
                channel_next(&header);
        return or_none(content);
}

static int check_signals(void)
{
        in_wait = 1;
        int r = py.PyErr_CheckSignals();
        in_wait = 0;
        return r;
}

static PyObject *cloister_wait(PyObject *self, PyObject *timeout)
{
        raw_signals interrupts = 1U << (SIGINT - 1) | 1U << (WORKER_REMIND - 1), before = 0;
        struct frame_header header;
        const char *payload;
        int timeout_ms;

        if (!take_int(timeout, &timeout_ms) || own_channel() < 0)
                return NULL;
        send_queued();
        if (channel_peek(&header, &payload, NULL) != 0)
                return py.PyBool_FromLong(1);
        /* Blocked until the wait itself, so that no signal is missed between the check and the wait. */
        raw_signal_mask(SIG_BLOCK, &interrupts, &before);
        int signalled = check_signals();
        int ready = 0;
        if (signalled == 0) {
                sleepers++;
                PyThreadState *state = py.PyEval_SaveThread();
                ready = channel_wait(timeout_ms, &before);
                py.PyEval_RestoreThread(state);
                sleepers--;
        }
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        if (signalled < 0 || check_signals() < 0)
                return NULL;
        return py.PyBool_FromLong(ready > 0);
}

static PyObject *cloister_waiting(PyObject *self, PyObject *args)
{
        return py.PyBool_FromLong(in_wait);
}

static PyObject *cloister_poll(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
        struct frame_header header;
        const char *payload;
        int fd, timeout_ms;

        if (!take_count(count, 2) || !take_int(args[0], &fd) || !take_int(args[1], &timeout_ms) ||
            own_channel() < 0)
                return NULL;
        send_queued();
        if (channel_peek(&header, &payload, NULL) != 0)
                return py.PyLong_FromLong(CHANNEL_READY);
        PyThreadState *state = py.PyEval_SaveThread();
        int ready = channel_wait_beside(fd, timeout_ms);
        py.PyEval_RestoreThread(state);
        return py.PyLong_FromLong(ready);
}

static PyObject *cloister_ours(PyObject *self, PyObject *args)
{
        return py.PyBool_FromLong(channel_is_ours());
}

/* Quick checks after a cell, one system call each. Nearly always they find that there is nothing to
 * do; otherwise the Python code does a full check. */
static PyObject *are_standard_open(void)
{
        struct pollfd p[] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
        struct __kernel_timespec now = {0};

        long r = raw_call(SYS_ppoll, raw_pointer(p), 3, raw_pointer(&now), 0, 0, 0);
        return py.PyBool_FromLong(r >= 0 &&
                                  !((p[0].revents | p[1].revents | p[2].revents) & POLLNVAL));
}

static PyObject *cloister_begin(PyObject *self, PyObject *args)
{
        raw_signals interrupt = 1U << (SIGINT - 1);

        raw_signal_mask(SIG_UNBLOCK, &interrupt, NULL);
        return are_standard_open();
}

static PyObject *cloister_flush(PyObject *self, PyObject *args)
{
        fflush(stdout);
        return are_standard_open();
}

/* In the tmpfs of /workspace the size of a directory depends on its entries. statfs() would wait for init. */
static PyObject *cloister_is_empty(PyObject *self, PyObject *bytes)
{
        struct statx all, about;
        char *path;

        if (py.PyBytes_AsStringAndSize(bytes, &path, NULL) < 0)
                return NULL;
        long r = raw_call(SYS_statx, AT_FDCWD, raw_pointer(path), AT_SYMLINK_NOFOLLOW,
                          STATX_TYPE | STATX_SIZE, raw_pointer(&about), 0);
        if (r < 0 || (about.stx_mode & 0170000) != 0040000)
                return py.PyBool_FromLong(true);
        bool is = about.stx_size == EMPTY_TMPFS &&
                  raw_call(SYS_statx, AT_FDCWD, raw_pointer("/workspace"), 0, STATX_INO,
                           raw_pointer(&all), 0) == 0 &&
                  about.stx_dev_major == all.stx_dev_major &&
                  about.stx_dev_minor == all.stx_dev_minor;
        return py.PyBool_FromLong(is);
}

static PyObject *cloister_copy(PyObject *self, PyObject *args)
{
        int is_copy = 0;
        PyObject *r = copy_keep(args, &is_copy);
        if (is_copy)
                in_wait = pulled = 0;
        if (is_copy && copy_held() <= 0)
                sleepers = 0;
        return r;
}

static PyObject *cloister_held(PyObject *self, PyObject *args)
{
        return py.PyLong_FromLong(copy_held());
}

/* (value, flags of O_NONBLOCK): a new eventfd, for one that a library had. Returns the descriptor or a negative errno. */
static PyObject *cloister_eventfd(PyObject *self, PyObject *args)
{
        unsigned value;
        int flags;

        if (!py.PyArg_ParseTuple(args, "Ii", &value, &flags))
                return NULL;
        return py.PyLong_FromLong(
                raw_call(SYS_eventfd2, value, (flags & O_NONBLOCK) | O_CLOEXEC, 0, 0, 0, 0));
}

/* (epoll set or -1, descriptor, events, data): as epoll_ctl(EPOLL_CTL_ADD), but with any data; -1 makes a set. Returns it, 0 or a negative
 * errno. */
static PyObject *cloister_epoll(PyObject *self, PyObject *args)
{
        struct epoll_event event;
        unsigned long long data;
        unsigned events;
        int set, fd;

        if (!py.PyArg_ParseTuple(args, "iiIK", &set, &fd, &events, &data))
                return NULL;
        if (set < 0)
                return py.PyLong_FromLong(
                        raw_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
        event = (struct epoll_event){.events = events, .data.u64 = data};
        return py.PyLong_FromLong(
                raw_call(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, raw_pointer(&event), 0, 0));
}

/* In a branch, when the descriptors for which its threads wait are open again. */
static PyObject *cloister_return_threads(PyObject *self, PyObject *args)
{
        raw_signals before;
        const raw_signals every = ~0ULL;

        raw_signal_mask(SIG_SETMASK, &every, &before);
        threads_return();
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        return py.Py_BuildValue("");
}

static PyObject *cloister_dump(PyObject *self, PyObject *args)
{
        int64_t number;
        int is_copy = 0, has_threads, fd;

        if (!py.PyArg_ParseTuple(args, "ii", &has_threads, &fd))
                return NULL;
        PyObject *r = branch_make(has_threads, fd, &is_copy, &number);
        if (!is_copy)
                return r;
        in_wait = pulled = sleepers = 0;
        py.Py_DecRef(r);
        return py.Py_BuildValue("(L)", (long long)number);
}

static PyObject *cloister_begin_image(PyObject *self, PyObject *args)
{
        const struct image_range *ranges;
        long n = arenas_found(&ranges);

        return py.PyLong_FromLong(-image_begin(LAYOUT_DRAFT_FD, LAYOUT_HEAP_FD, ranges, n));
}

static PyObject *cloister_end_image(PyObject *self, PyObject *args)
{
        return py.PyLong_FromLong(-image_end());
}

static PyObject *cloister_inherit(PyObject *self, PyObject *args)
{
        inherit_text((const void *)(uintptr_t)py.PyErr_CheckSignals);
        return none();
}

static PyObject *cloister_forked(PyObject *self, PyObject *args)
{
        channel_forget();
        return none();
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
        {"boot", cloister_boot, METH_NOARGS, NULL},
        {"source", cloister_source, METH_VARARGS, NULL},
        {"compiled", cloister_compiled, METH_VARARGS, NULL},
        {"preload", cloister_preload, METH_NOARGS, NULL},
        {"need_fork_hooks", cloister_need_fork_hooks, METH_NOARGS, NULL},
        {"serve", cloister_serve, METH_O, NULL},
        {"warm_up", cloister_warm_up, METH_VARARGS, NULL},
        {"fileno", cloister_fileno, METH_NOARGS, NULL},
        {"send", FAST(cloister_send), CALL_FAST, NULL},
        {"queue", FAST(cloister_queue), CALL_FAST, NULL},
        {"send_queued", cloister_send_queued, METH_NOARGS, NULL},
        {"read", cloister_read, METH_O, NULL},
        {"wait", cloister_wait, METH_O, NULL},
        {"waiting", cloister_waiting, METH_NOARGS, NULL},
        {"poll", FAST(cloister_poll), CALL_FAST, NULL},
        {"ask", FAST(cloister_ask), CALL_FAST, NULL},
        {"ours", cloister_ours, METH_NOARGS, NULL},
        {"begin", cloister_begin, METH_NOARGS, NULL},
        {"flush", cloister_flush, METH_NOARGS, NULL},
        {"is_empty", cloister_is_empty, METH_O, NULL},
        {"spares", cloister_spares, METH_NOARGS, NULL},
        {"in_template", cloister_in_template, METH_NOARGS, NULL},
        {"copy", cloister_copy, METH_VARARGS, NULL},
        {"rolled_back", transaction_report, METH_NOARGS, NULL},
        {"dump", cloister_dump, METH_VARARGS, NULL},
        {"write", branch_write, METH_VARARGS, NULL},
        {"load", branch_load, METH_VARARGS, NULL},
        {"eventfd", cloister_eventfd, METH_VARARGS, NULL},
        {"epoll", cloister_epoll, METH_VARARGS, NULL},
        {"held", cloister_held, METH_NOARGS, NULL},
        {"return_threads", cloister_return_threads, METH_NOARGS, NULL},
        {"inherit", cloister_inherit, METH_NOARGS, NULL},
        {"begin_image", cloister_begin_image, METH_NOARGS, NULL},
        {"end_image", cloister_end_image, METH_NOARGS, NULL},
        {"forked", cloister_forked, METH_NOARGS, NULL},
        {"hook_sqlite", sqlite_locks_hook, METH_O, NULL},
        {"wrap", own_files_wrap, METH_VARARGS, NULL},
        {"flags", own_flags, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "_cloister",
        .m_size = -1,
        .m_methods = methods,
};

PyObject *module_init(void)
{
        return py.PyModule_Create2(&definition, PYTHON_ABI_VERSION);
}
