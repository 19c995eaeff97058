/*
 * The floor of a cell: a CPython that only compiles and evaluates.
 *
 *     floor-cell [LIBPYTHON]
 *
 * Reads requests of run_python on standard input, one per line, compiles the code, evaluates it in
 * one namespace and writes the value's repr(). It flushes no stream, checks no signal, keeps no
 * state and reads no limit.
 */
#include <stdio.h>
#include <yyjson.h>

#include "base/cleanup.h"
#include "bench/libpython.h"

enum { EVALUATE = 258 }; /* Py_eval_input */

static struct {
        void (*start)(int signals);
        void *(*import)(const char *name);
        void *(*members)(void *module);
        void *(*compile)(const char *code, const char *filename, int start);
        void *(*evaluate)(void *code, void *globals, void *locals);
        void *(*repr)(void *value);
        const char *(*text)(void *string);
        void (*release)(void *object);
} python;

static void *boot(const char *path)
{
        const struct libpython_symbol wanted[] = {
                {"Py_InitializeEx", &python.start},    {"PyImport_AddModule", &python.import},
                {"PyModule_GetDict", &python.members}, {"Py_CompileString", &python.compile},
                {"PyEval_EvalCode", &python.evaluate}, {"PyObject_Repr", &python.repr},
                {"PyUnicode_AsUTF8", &python.text},    {"Py_DecRef", &python.release},
        };

        libpython_open(path, wanted, ARRAY_SIZE(wanted));
        python.start(0);
        return python.members(python.import("__main__"));
}

/* Runs one cell; false if it fails. */
static bool answer(void *namespace, yyjson_val *request)
{
        yyjson_val *arguments = yyjson_ptr_get(request, "/params/arguments");
        const char *source = yyjson_get_str(yyjson_obj_get(arguments, "code"));
        void *code = source ? python.compile(source, "<cell>", EVALUATE) : NULL;
        void *value = code ? python.evaluate(code, namespace, namespace) : NULL;
        void *repr = value ? python.repr(value) : NULL;
        const char *text = repr ? python.text(repr) : NULL;

        if (!text)
                return false;
        printf("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"repr\":\"%s\"}}\n",
               (long)yyjson_get_sint(yyjson_obj_get(request, "id")), text);
        python.release(repr);
        python.release(value);
        python.release(code);
        return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
        _cleanup_free_ char *line = NULL;
        size_t room = 0;
        ssize_t n;

        void *namespace = boot(argc > 1 ? argv[1] : NULL);
        while ((n = getline(&line, &room, stdin)) > 0) {
                yyjson_doc *doc = yyjson_read(line, (size_t)n, 0);
                bool good = doc && answer(namespace, yyjson_doc_get_root(doc));

                yyjson_doc_free(doc);
                if (!good) {
                        fprintf(stderr, "floor-cell: not a cell that has a value\n");
                        return 1;
                }
        }
        return 0;
}
