/* Python's functions that open the files about the machine. */
#include "sandbox-init/worker/own-files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "sandbox-init/raw.h"

enum function { OPEN, OS_OPEN, FUNCTIONS };

static struct {
        PyObject *original, *own;
} functions[FUNCTIONS];

/* ---- one failed call ---- */

/* An exception that is set again unless the call succeeds after all. */
struct failure {
        PyObject *type, *value, *traceback;
        PyObject *path; /* bytes */
};

static void drop(PyObject *object)
{
        if (object)
                py.Py_DecRef(object);
}

/* Whether a call with these arguments did not find a file below /proc or /sys. If so, fill *ret and clear the exception. */
static bool has_failed(PyObject *args, PyObject *kwargs, const char *name, struct failure *ret)
{
        char *path = NULL;

        if (!py.PyErr_ExceptionMatches(*py.PyExc_FileNotFoundError))
                return false;
        PyObject *file = py.PyTuple_Size(args) > 0 ? py.PyTuple_GetItem(args, 0)
                         : kwargs                  ? py.PyDict_GetItemString(kwargs, name)
                                                   : NULL;
        *ret = (struct failure){};
        py.PyErr_Fetch(&ret->type, &ret->value, &ret->traceback);
        if (file && py.PyUnicode_FSConverter(file, &ret->path) &&
            py.PyBytes_AsStringAndSize(ret->path, &path, NULL) >= 0 &&
            (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0))
                return true;
        drop(ret->path);
        py.PyErr_Clear();
        py.PyErr_Restore(ret->type, ret->value, ret->traceback);
        return false;
}

/* Returns the result; NULL: sets the exception again. */
static PyObject *finish(struct failure *f, PyObject *result)
{
        drop(f->path);
        if (!result) {
                py.PyErr_Clear();
                py.PyErr_Restore(f->type, f->value, f->traceback);
                return NULL;
        }
        drop(f->type);
        drop(f->value);
        drop(f->traceback);
        return result;
}

/* Returns a descriptor or negative errno. */
static int ask_init(const struct failure *f)
{
        char *path = NULL;

        if (py.PyBytes_AsStringAndSize(f->path, &path, NULL) < 0)
                return -EINVAL;
        long fd = raw_call(SYS_openat, AT_FDCWD, raw_pointer(path), O_RDONLY, 0, 0, 0);
        if (fd >= 0)
                raw_call(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC, 0, 0, 0);
        return (int)fd;
}

/* ---- the functions ---- */

/* The file is named by its path, and so is opened by an opener, which is the other function here. */
static PyObject *call_open(PyObject *self, PyObject *args, PyObject *kwargs)
{
        struct failure f;

        PyObject *r = py.PyObject_Call(functions[OPEN].original, args, kwargs);
        if (r || !has_failed(args, kwargs, "file", &f))
                return r;
        PyObject *with = kwargs ? py.PyDict_Copy(kwargs) : py.PyDict_New();
        if (with && py.PyTuple_Size(args) < 8 && !py.PyDict_GetItemString(with, "opener") &&
            py.PyDict_SetItemString(with, "opener", functions[OS_OPEN].own) == 0)
                r = py.PyObject_Call(functions[OPEN].original, args, with);
        drop(with);
        return finish(&f, r);
}

static PyObject *call_os_open(PyObject *self, PyObject *args, PyObject *kwargs)
{
        struct failure f;
        int fd = -1;

        PyObject *r = py.PyObject_Call(functions[OS_OPEN].original, args, kwargs);
        if (r || !has_failed(args, kwargs, "path", &f))
                return r;
        PyObject *flags = py.PyTuple_Size(args) > 1 ? py.PyTuple_GetItem(args, 1)
                          : kwargs                  ? py.PyDict_GetItemString(kwargs, "flags")
                                                    : NULL;
        if (flags &&
            (py.PyLong_AsUnsignedLongLongMask(flags) & (O_ACCMODE | O_CREAT | O_PATH)) == 0)
                fd = ask_init(&f);
        return finish(&f, fd < 0 ? NULL : py.PyLong_FromLong(fd));
}

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef definitions[FUNCTIONS] = {
        [OPEN] = {"open", KEYWORDS(call_open), METH_VARARGS | METH_KEYWORDS, NULL},
        [OS_OPEN] = {"open", KEYWORDS(call_os_open), METH_VARARGS | METH_KEYWORDS, NULL},
};

PyObject *own_files_wrap(PyObject *self, PyObject *args)
{
        PyObject *module, *doc, *original;
        char *text;
        int i;

        if (!py.PyArg_ParseTuple(args, "iOOO", &i, &module, &doc, &original) ||
            py.PyBytes_AsStringAndSize(doc, &text, NULL) < 0)
                return NULL;
        if (i < 0 || i >= FUNCTIONS)
                return py.PyErr_Format(*py.PyExc_ValueError, "function %d", i);
        definitions[i].ml_doc = text;
        functions[i].original = original;
        PyObject *of = py.PyObject_GetAttrString(original, "__self__");
        functions[i].own = of ? py.PyCMethod_New(&definitions[i], of, module, NULL) : NULL;
        drop(of);
        /* They stay as long as the interpreter. */
        py.Py_IncRef(doc);
        py.Py_IncRef(original);
        if (functions[i].own)
                py.Py_IncRef(functions[i].own);
        return functions[i].own;
}

PyObject *own_flags(PyObject *self, PyObject *args)
{
        PyObject *type, *values;

        if (!py.PyArg_ParseTuple(args, "OO", &type, &values))
                return NULL;
        PyObject *flags = py.PyStructSequence_New((PyTypeObject *)type);
        for (Py_ssize_t i = 0; flags && i < py.PyTuple_Size(values); i++) {
                PyObject *value = py.PyTuple_GetItem(values, i);
                py.Py_IncRef(value);
                py.PyStructSequence_SetItem(flags, i, value);
        }
        return flags;
}
