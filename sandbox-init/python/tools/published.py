"""Published code: tools, prompts, resources and templates of the config, which run as cells of their own sandbox.

The input comes as JSON beside the code. The code finds it in `arguments`, and its function main() is called with it, if
there is one. Each request of the code to the client (elicit, roots, sample) has a key. An answer that the input has is returned
at once; else the cell ends with the requests, and Cloister runs the code again from its start once they are answered.
"""

import sys

from cloister import aio, schema
from cloister.cell import Outcome, describe
from cloister.errors import ToolError
from cloister.frames import DISPLAY, LOG, PROGRESS
from cloister.json_codec import Unfit, decode, encode_guest, printable
from cloister.results import Blob

MAX_RESULT = 4 * 1024 * 1024 - 64 * 1024  # FRAME_RESULT_MAX, less what is around it
MAX_SMALL = 60 * 1024  # FRAME_SMALL_MAX, less what is around it
MAX_REQUESTS = 16
MAX_COMPLETIONS = 100
MAX_KEY = 64
TURNS = 3  # of the loop, in which other tasks of the code may ask too
MODULE = "published"  # the code's __name__, so that `if __name__ == "__main__":` is not run
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class ClientLacks(ToolError):
    """The client has not declared the capability that a question needs. capability: "elicitation", "elicitation.url", "sampling" or
    "roots"."""

    def __init__(self, message, capability):
        super().__init__(message)
        self.capability = capability


ClientLacks.__module__ = "cloister"


class Asking(BaseException):
    """Ends code that waits for answers of the client."""


class ArgumentError(Exception):
    pass


def _name(text):
    return isinstance(text, str) and 0 < len(text) <= MAX_KEY and text.isascii() and all(c.isalnum() or c in "_.-" for c in text)


class Run:
    """One run of published code. value: the input, from JSON."""

    def __init__(self, value, channel, number):
        self._channel = channel
        self._number = number
        self._answers = value.get("answers") or {}
        self._asked = {}  # key -> request
        self._open = {}  # those of them that have no answer
        self.asks = False  # the code was ended, because it waits for answers
        self._waiting = []  # futures
        self._counts = {}
        self._changes = []  # [name, whether it is shown]
        self._updated = []
        self.kind = value.get("kind")
        self.uri = value.get("uri")
        self.arguments = value.get("arguments") or {}
        self.capabilities = value.get("capabilities") or {}
        self.settings = value.get("settings") or {}
        self.input_schema = value.get("input_schema")
        self.output_schema = value.get("output_schema")
        self.complete = value.get("complete")

    # ---- what the code can call ----

    def names(self):
        given = {
            name: getattr(self, name)
            for name in "arguments capabilities settings uri emit progress log elicit roots sample show hide updated".split()
        }
        return {**given, "ClientLacks": ClientLacks, "__name__": MODULE}

    def emit(self, block):
        """Adds a content block to the tool's result: a dict as MCP has it, a text, or an image, audio or file of a tool's
        result."""
        if self.kind != "tool":
            raise RuntimeError("emit() belongs to tools; %ss return their content" % self.kind)
        self._channel.send(DISPLAY, self._number, encode_guest({"block": _block(block)}))

    def progress(self, progress, total=None, message=None):
        """Tells the client how far the call is. progress must grow from call to call."""
        told = {"progress": progress}
        if total is not None:
            told["total"] = total
        if message is not None:
            told["message"] = printable(str(message)[:4096])
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in (progress, total or 0)):
            raise TypeError("progress and total are numbers")
        self._channel.send(PROGRESS, self._number, encode_guest(told))

    def log(self, data, level="info"):
        """Sends a log message to the client, if it asked for that level. data: any JSON value."""
        if level not in LEVELS:
            raise ValueError("level is one of %s" % ", ".join(LEVELS))
        told = encode_guest({"level": level, "data": data})
        if len(told) > MAX_SMALL:
            raise ValueError("a log message has at most %d bytes as JSON" % MAX_SMALL)
        self._channel.send(LOG, self._number, told)

    async def elicit(self, message, schema=None, *, key=None, url=None):
        """Asks the user: a form whose fields are the properties of a JSON Schema, or a page at url. Returns
        {"action": "accept" | "decline" | "cancel", "content": {…}}."""
        key = self._key(key, "elicit")
        params = {"message": str(message)}
        if url is not None:
            params.update(mode="url", url=str(url), elicitationId=key)
        else:
            params["requestedSchema"] = schema or {"type": "object", "properties": {}}
        return await self._ask(key, "elicitation/create", params, "elicitation.url" if url else "elicitation", "action", str)

    async def roots(self, *, key=None):
        """The client's roots: [{"uri", "name"?}]."""
        answer = await self._ask(self._key(key, "roots"), "roots/list", {}, "roots", "roots", list)
        return answer["roots"]

    async def sample(self, messages, max_tokens=1000, *, key=None, **more):
        """Has the client's model answer. messages: a text, or a list as MCP has it. Returns {"role", "content", "model"}."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        params = {"messages": messages, "maxTokens": max_tokens, **more}
        return await self._ask(self._key(key, "sample"), "sampling/createMessage", params, "sampling", "role", str)

    def show(self, name):
        """Offers a tool, prompt, resource or template of the config to this client, from the end of the call on."""
        self._changes.append([str(name), True])

    def hide(self, name):
        """The opposite of show()."""
        self._changes.append([str(name), False])

    def updated(self, uri):
        """Tells those who subscribed to a published resource that it has changed, at the end of the call."""
        self._updated.append(str(uri))

    # ---- questions ----

    def _key(self, key, kind):
        """Without a key, questions are counted: the code must then ask the same ones in each run."""
        if key is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return "%s-%d" % (kind, self._counts[kind])
        if not _name(key):
            raise ValueError("a key is 1 to %d letters, digits, _ . -" % MAX_KEY)
        return key

    def _can(self, capability):
        """Whether the client has declared a capability; an empty "elicitation" means forms."""
        name, _, mode = capability.partition(".")
        declared = self.capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        return mode in declared if mode else name != "elicitation" or not declared or "form" in declared

    async def _ask(self, key, method, params, capability, member, kind):
        request = decode(encode_guest({"method": method, "params": params}))
        if self._asked.setdefault(key, request) != request:
            raise ValueError('two different questions have the key "%s"' % key)
        answer = self._answers.get(key)
        # It was checked against its question. In this run the code may ask something of another kind under the same key.
        if isinstance(answer, dict) and isinstance(answer.get(member), kind):
            return answer
        if not self._can(capability):
            raise ClientLacks("the client cannot be asked: it has not declared the capability %s" % capability, capability)
        if len(self._asked) > MAX_REQUESTS:
            raise ValueError("more than %d questions" % MAX_REQUESTS)
        self._open[key] = request
        loop = aio.load().get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.call_soon(self._turn, loop, TURNS, 1)
        return await future

    def _turn(self, loop, left, known):
        """Waits while other tasks ask, then ends the code."""
        if len(self._waiting) > known:
            left, known = TURNS, len(self._waiting)
        if left > 0:
            loop.call_soon(self._turn, loop, left - 1, known)
            return
        self.asks = True
        for future in self._waiting:
            if not future.done():
                future.set_exception(Asking())
        self._waiting.clear()

    # ---- the outcome ----

    def describe(self, outcome, interrupted):
        """The payload of a RESULT, as a dict."""
        if self.asks and not interrupted:
            return {"status": "ok", "requests": self._open}
        if outcome.error is not None:
            described = describe(outcome, interrupted)
            if isinstance(outcome.error, ClientLacks):
                described["output"] = {"lacks": outcome.error.capability}
            return described
        try:
            output = _OUTPUTS[self.kind](self, outcome.value)
            described = {"status": "ok", "output": {**output, **self._told()}}
            if len(encode_guest(described)) > MAX_RESULT:
                raise ValueError("the result takes more than %d bytes as JSON; emit() parts of it" % MAX_RESULT)
            return described
        except Unfit as wrong:
            return describe(Outcome(error=TypeError("the result: %s%s" % (wrong.reason, wrong.path))))
        except Exception as error:
            return describe(Outcome(error=error))

    def _told(self):
        told = {}
        if self._changes:
            told["shown"] = self._changes[:MAX_COMPLETIONS]
        if self._updated:
            told["updated"] = self._updated[:MAX_COMPLETIONS]
        return told

    def tool(self, value):
        if self.output_schema is None:
            return {"content": [] if value is None else [_block(value)]}
        value = decode(encode_guest(value))
        wrong = schema.check(value, self.output_schema, "the result")
        if wrong or not isinstance(value, dict):
            raise ValueError("the result does not fit the outputSchema: %s" % (wrong or "it is not an object"))
        return {"content": [_text(_json(value))], "structured": value}

    def prompt(self, value):
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            value = value["messages"]
        values = value if isinstance(value, list) else [value]
        return {"messages": [_message(item) for item in values]}

    def resource(self, value):
        values = value if isinstance(value, list) and all(_is_contents(item) for item in value) else [value]
        return {"contents": [_contents(item) for item in values]}

    def completion(self, value):
        values = [printable(str(item)) for item in value or ()]
        return {"values": values[:MAX_COMPLETIONS], "total": len(values)}


_OUTPUTS = {
    "tool": Run.tool,
    "prompt": Run.prompt,
    "resource": Run.resource,
    "completion": Run.completion,
}


def _text(text):
    return {"type": "text", "text": printable(text)}


def _json(value):
    return encode_guest(value).decode("utf-8")


def _base64(data):
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")


def _blob(value):
    kind = (value.mime_type or "application/octet-stream").partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": _base64(value.data), "mimeType": value.mime_type}
    return {"type": "resource", "resource": {"uri": value.uri or "file:///%s" % kind, **_contents(value)}}


def _block(value):
    """A content block of a value: text as it is, other values as JSON."""
    if isinstance(value, Blob):
        return _blob(value)
    if isinstance(value, dict) and value.get("type") in ("text", "image", "audio", "resource", "resource_link"):
        return value
    return _text(value if isinstance(value, str) else _json(value))


def _message(value):
    if value is None:
        raise ValueError("the prompt has no messages: return a text, a message, or a list of them")
    if isinstance(value, dict) and "role" in value:
        return {"role": value["role"], "content": _block(value.get("content"))}
    return {"role": "user", "content": _block(value)}


def _is_contents(value):
    return isinstance(value, dict) and ("text" in value or "blob" in value)


def _contents(value):
    if value is None:
        raise ValueError("the resource has no content: return a text, bytes, or {\"text\": …}")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"blob": _base64(bytes(value))}
    if isinstance(value, Blob):
        text = getattr(value, "text", None)
        content = {"text": printable(text)} if isinstance(text, str) else {"blob": _base64(value.data)}
        return {"mimeType": value.mime_type, **content} if value.mime_type else content
    if _is_contents(value):
        blob = value.get("blob")
        return {**value, "blob": _base64(bytes(blob))} if isinstance(blob, (bytes, bytearray)) else value
    return {"text": printable(value if isinstance(value, str) else _json(value))}


class Published:
    """The input of the next cell, and its run. names: of __main__."""

    def __init__(self, names, channel):
        self._names = names
        self._channel = channel
        self._inputs = {}  # number of the cell -> payload
        self.run = None  # of the cell that runs

    def on_input(self, number, payload):
        self._inputs = {number: payload}

    def begin(self, number):
        """Called before a cell. Returns whether it is published code."""
        if not self._inputs:
            return False
        payload = self._inputs.pop(number, None)
        if payload is None:
            return False
        self.run = Run(decode(payload), self._channel, number)
        return True

    def execute(self, cells, source, filename, prepare):
        """Runs the code and the function in it."""
        run = self.run
        if run.kind == "tool" and isinstance(run.input_schema, dict):
            wrong = schema.check(run.arguments, run.input_schema)
            if wrong:
                return Outcome(error=ArgumentError(wrong))
        self._names.update(run.names())
        sys.modules[MODULE] = sys.modules["__main__"]
        outcome = cells.run(source, filename, prepare)
        if outcome.error is not None or run.asks:
            return outcome
        function = self._names.get("complete" if run.kind == "completion" else "main")
        if run.kind == "completion":
            asked = run.complete or {}
            given = {"name": asked.get("name"), "value": asked.get("value"), "context": asked.get("context") or {}}
            return cells.call(function, given) if callable(function) else Outcome([])
        return cells.call(function, run.arguments) if callable(function) else outcome

    def end(self):
        self.run = None


ArgumentError.__module__ = "cloister"
