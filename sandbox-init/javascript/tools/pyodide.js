'use strict';
/*
 * Runs Python in Pyodide: "guest": "pyodide" of a published tool. The code defines `async def main()`; what it returns is the value. Each
 * interpreter runs one code. The names of tools are those of codemode-lite.
 */

const kept = require('./intrinsics.js');
const { decode, encode } = require('./json-codec.js');
const { PythonError } = require('./tracebacks.js');

const PLACE = '/usr/local/lib/node_modules/pyodide';
const SCHEMAS_MAX = 500;
const VALUE_MAX = 1024 * 1024; // characters of its JSON

// Defines the names of tools, runs the code, and returns its value as JSON, or ! and its error.
const SHIM = String.raw`
import asyncio, collections, datetime, functools, itertools, json, math, re, sys, traceback


class ToolError(RuntimeError):
    pass


class _Now(list):
    def __await__(self):
        return self
        yield


class _NowDict(dict):
    def __await__(self):
        return self
        yield


class _Tool:
    def __init__(self, name):
        self.__name__ = name

    async def __call__(self, *positional, **named):
        if len(positional) == 1 and isinstance(positional[0], dict) and not named:
            named = positional[0]
        elif positional:
            raise TypeError("%s() takes its arguments by name, or one dict" % self.__name__)
        if set(named) == {"arguments"} and isinstance(named["arguments"], dict):
            named = named["arguments"]
        named = {key: value for key, value in named.items() if value is not None}
        answer = json.loads(await _host.call(self.__name__, json.dumps(named)))
        if "error" in answer:
            raise ToolError(answer["error"])
        return answer["value"]


class _Tools:
    def __init__(self, own):
        self._own = own

    def __getitem__(self, name):
        return self._own.get(name) or _Tool(name)

    def __contains__(self, name):
        return any(name in (entry["name"], "%s.%s" % (entry["server"], entry["name"])) for entry in _entries)


class _Server:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        for entry in _entries:
            if entry["server"] == self._name and _identifier(entry["name"]) == name:
                name = entry["name"]
                break
        return _Tool("%s.%s" % (self._name, name))


def _identifier(name):
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def _discover():
    return _Now(dict(entry) for entry in _entries)


def _search(q, limit=1000):
    text = str(q).lower()
    found = [entry for entry in _entries if text in entry["name"].lower() or text in (entry["description"] or "").lower()]
    return _Now(dict(entry) for entry in found[: max(0, int(limit))])


def _schema(name):
    return _NowDict(_schemas.get(name) or {"error": "there is no tool %r" % name})


_entries, _schemas = json.loads(_host.catalogue), json.loads(_host.schemas)
_own = {"_discover": _discover, "_search": _search, "_schema": _schema}
_names = {"asyncio": asyncio, "json": json, "re": re, "math": math, "datetime": datetime, "collections": collections, "itertools": itertools,
          "functools": functools, "tools": _Tools(_own), "ToolError": ToolError, "__name__": "__sandbox__", **_own}
for _entry in _entries:
    _names.setdefault(_identifier(_entry["name"]), _Tool(_entry["name"]))
    _names.setdefault("mcp_" + _identifier(_entry["server"]).lower(), _Server(_entry["server"]))


def _describe(error):
    # The first frame is that of this program.
    lines = traceback.format_exception(type(error), error, error.__traceback__.tb_next if error.__traceback__ else None)
    return "!" + json.dumps({"type": type(error).__name__, "message": str(error), "traceback": "".join(lines)})


def _check(value, levels):
    if not levels:
        raise ValueError("more than 100 levels")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        _check(part, levels - 1)


async def _run(code):
    try:
        exec(compile(code, "<code>", "exec"), _names)
        main = _names.get("main")
        if not asyncio.iscoroutinefunction(main):
            raise NameError("the code must define: async def main()")
        value = await main()
    except BaseException as error:
        return _describe(error)
    try:
        _check(value, 100)
        text = json.dumps(value, allow_nan=False)
        if len(text) > ${VALUE_MAX}:
            raise ValueError("more than ${VALUE_MAX} characters")
        return text
    except (TypeError, ValueError, RecursionError) as error:
        return _describe(TypeError("main() must return a dict that is JSON: %s" % error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


_run
`;

/** Calls a tool. The answer is text, because objects of the two languages differ. */
async function call(names, name, text) {
  try {
    return encode({ value: (await names.tools[name](decode(text))) ?? null });
  } catch (error) {
    return kept.stringify({ error: kept.String(error?.message ?? error) });
  }
}

async function findSchemas(names, entries, source) {
  const found = {};
  if (source.includes('_schema')) {
    for (const { name } of entries.slice(0, SCHEMAS_MAX)) {
      found[name] = await names._schema(name);
    }
  }
  return encode(found);
}

/** names: the values of tool-names.js. Returns a promise of the value as JSON. */
async function run(source, names, load) {
  // Pyodide calls it when an interrupt has broken it, which must not look like an exit of the code.
  process.exit = () => {
    throw new Error('the interpreter has ended');
  };
  const { loadPyodide } = await load(`${PLACE}/pyodide.mjs`);
  const write = (stream) => ({ write: (bytes) => (stream.write(Buffer.from(bytes)), bytes.length) });
  const python = await loadPyodide({ indexURL: PLACE, env: { HOME: '/home/pyodide' } });
  python.setStdout(write(process.stdout));
  python.setStderr(write(process.stderr));
  const entries = (await names._discover()).map(({ name, description, server }) => ({ name, description, server }));
  const host = {
    __proto__: null,
    call: (name, text) => call(names, name, text),
    catalogue: encode(entries),
    schemas: await findSchemas(names, entries, source),
  };
  python.registerJsModule('_host', host);
  const start = python.runPython(`import _host\n${SHIM}`, { globals: python.toPy({}) });
  const answer = await start(source);
  if (answer.startsWith('!')) {
    throw new PythonError(decode(answer.slice(1)));
  }
  return answer;
}

module.exports = { run };
