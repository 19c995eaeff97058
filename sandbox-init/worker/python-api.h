/*
 * The functions of CPython's stable ABI that the worker uses, as a table: filled by dlsym() in
 * cloister-worker, by the interpreter's own loader in cloister-module.
 *
 * Which libpython it is, only the image knows: nothing here is linked against one. The headers are
 * those of any CPython from 3.9 on with Py_LIMITED_API; macros and inline functions that name
 * symbols (Py_DECREF, PyBytes_Check…) are not to be used, only what stands in the table.
 */
#pragma once

#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include "base/error.h"

#define PYTHON_API(X)                                                                              \
        X(PyBytes_AsStringAndSize)                                                                 \
        X(PyBytes_FromStringAndSize)                                                               \
        X(PyBool_FromLong)                                                                         \
        X(PyCMethod_New)                                                                           \
        X(PyDict_Copy)                                                                             \
        X(PyDict_GetItemString)                                                                    \
        X(PyErr_ExceptionMatches)                                                                  \
        X(PyErr_Restore)                                                                           \
        X(PyObject_Call)                                                                           \
        X(PyStructSequence_New)                                                                    \
        X(PyStructSequence_SetItem)                                                                \
        X(PyTuple_GetItem)                                                                         \
        X(PyTuple_Size)                                                                            \
        X(PyUnicode_FSConverter)                                                                   \
        X(Py_IncRef)                                                                               \
        X(PyErr_CheckSignals)                                                                      \
        X(PyErr_Clear)                                                                             \
        X(PyErr_Fetch)                                                                             \
        X(PyErr_Format)                                                                            \
        X(PyErr_NormalizeException)                                                                \
        X(PyErr_Occurred)                                                                          \
        X(PyEval_EvalCode)                                                                         \
        X(PyEval_GetBuiltins)                                                                      \
        X(PyEval_RestoreThread)                                                                    \
        X(PyEval_SaveThread)                                                                       \
        X(PyDict_New)                                                                              \
        X(PyDict_SetItemString)                                                                    \
        X(PyImport_AppendInittab)                                                                  \
        X(PyList_Append)                                                                           \
        X(PyLong_AsLongLong)                                                                       \
        X(PyLong_AsUnsignedLongLongMask)                                                           \
        X(PyLong_FromLong)                                                                         \
        X(PyMem_Free)                                                                              \
        X(PyMem_Realloc)                                                                           \
        X(PyModule_Create2)                                                                        \
        X(PyOS_AfterFork_Child)                                                                    \
        X(PyOS_AfterFork_Parent)                                                                   \
        X(PyOS_BeforeFork)                                                                         \
        X(PyObject_CallObject)                                                                     \
        X(PyObject_GetAttrString)                                                                  \
        X(PyObject_IsTrue)                                                                         \
        X(PyObject_Str)                                                                            \
        X(PyUnicode_AsUTF8String)                                                                  \
        X(PyUnicode_FromStringAndSize)                                                             \
        X(Py_BuildValue)                                                                           \
        X(Py_BytesMain)                                                                            \
        X(Py_CompileString)                                                                        \
        X(Py_DecRef)                                                                               \
        X(PyArg_ParseTuple)                                                                        \
        X(PyExc_FileNotFoundError)                                                                 \
        X(PyExc_RuntimeError)                                                                      \
        X(PyExc_ValueError)

struct python_api {
#define X(name) __typeof__(name) *name;
        PYTHON_API(X)
#undef X
};

extern struct python_api py;

/* Loads libpython with its symbols open to extension modules and fills `py`. Returns 0 or negative
 * errno. */
int python_api_load(const char *libpython, struct error *err);
