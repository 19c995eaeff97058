"""What a server offers besides tools: resources and prompts.

Each function is a generator: it yields the method and the params of a request, and is sent the result. It returns the
value of the call. So the same code serves `await mcp_x.resources()` and `mcp_x.resources.sync()`.
"""

from collections.abc import Mapping

from cloister.errors import ToolArgumentError, ToolProtocolError
from cloister.frames import CALL
from cloister.json_codec import Unfit, encode_guest
from cloister.results import Link, block_value, file_value, read_answer

MAX_PAGES = 1000
LIMIT = 10_000  # entries of a list, unless the caller says otherwise
MAX_BYTES = 17 * 1024 * 1024  # FRAME_CALL_MAX


def _pages(method, key, limit):
    found, cursor = [], None
    for _ in range(MAX_PAGES):
        result = yield method, {} if cursor is None else {"cursor": cursor}
        entries = result.get(key)
        if not isinstance(entries, list):
            raise ToolProtocolError('the result of %s has no list "%s"' % (method, key), data=result)
        found += entries
        before, cursor = cursor, result.get("nextCursor")
        if cursor is None or cursor == before or len(found) >= limit:
            break
    return found[:limit]


def resources(limit=LIMIT):
    """The resources of the server: a list of dicts with uri, name and perhaps title, description, mimeType and size.
    limit: how many at most."""
    return (yield from _pages("resources/list", "resources", limit))


def resource_templates(limit=LIMIT):
    """The templates of resources: a list of dicts with uriTemplate and name. Fill one in and pass it to
    read_resource()."""
    return (yield from _pages("resources/templates/list", "resourceTemplates", limit))


def read_resource(uri):
    """The content of a resource: a File (.text or None, .data, .mime_type, .uri, .save(path)), or a list of them when
    there are several. uri: a string, an entry of resources(), or a Link of a tool's result."""
    if isinstance(uri, Link):
        uri = uri.uri
    elif isinstance(uri, Mapping):
        uri = uri.get("uri")
    if not isinstance(uri, str):
        raise ToolArgumentError("read_resource() takes a uri, which is a string")
    result = yield "resources/read", {"uri": uri}
    contents = result.get("contents")
    if not isinstance(contents, list):
        raise ToolProtocolError("the result of resources/read has no contents", data=result)
    files = [file_value(content) for content in contents]
    return files[0] if len(files) == 1 else files


def prompts(limit=LIMIT):
    """The prompts of the server: a list of dicts with name and perhaps title, description and arguments."""
    return (yield from _pages("prompts/list", "prompts", limit))


def get_prompt(name, /, **arguments):
    """A prompt, filled in: a dict with messages, each with role and content, and perhaps description. A content of
    text is a str. The arguments of a prompt are strings."""
    if isinstance(name, Mapping):
        name = name.get("name")
    if not isinstance(name, str):
        raise ToolArgumentError("get_prompt() takes the name of a prompt, which is a string")
    for key, value in arguments.items():
        if not isinstance(value, str):
            raise ToolArgumentError("get_prompt(): the argument %s must be a string" % key)
    params = {"name": name, "arguments": arguments} if arguments else {"name": name}
    result = yield "prompts/get", params
    messages = result.get("messages")
    if not isinstance(messages, list):
        raise ToolProtocolError("the result of prompts/get has no messages", data=result)
    return {**result, "messages": [_message(message) for message in messages]}


def _message(message):
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, dict) and content.get("type") == "text" and isinstance(content.get("text"), str):
        content = content["text"]
    return {**message, "content": block_value(content)}


OFFERS = {made.__name__: made for made in (resources, resource_templates, read_resource, prompts, get_prompt)}


class Offer:
    """await mcp_x.resources() calls it; .sync() blocks."""

    def __init__(self, channel, server, name):
        self._channel = channel
        self._server = server
        self._made = OFFERS[name]
        self.__name__ = name
        self.__doc__ = self._made.__doc__

    @property
    def __signature__(self):
        import inspect

        return inspect.signature(self._made)

    def _request(self, method, params):
        try:
            data = encode_guest({"server": self._server, "method": method, "arguments": params})
        except Unfit as wrong:
            raise self._wrong(wrong.reason) from None
        if len(data) > MAX_BYTES:
            raise self._wrong("its arguments are larger than %s bytes" % format(MAX_BYTES, ","))
        return data

    def _wrong(self, why):
        return ToolArgumentError("%s: %s" % (self.__name__, why), server=self._server, tool=self.__name__)

    def _read(self, method, answer):
        result = read_answer(answer, self._server, method)
        if not isinstance(result, dict):
            raise ToolProtocolError("the result of %s is not an object" % method, server=self._server, tool=method)
        return result

    async def _run(self, steps):
        try:
            method, params = next(steps)
            while True:
                answer = await self._channel.call_async(CALL, self._request(method, params))
                method, params = steps.send(self._read(method, answer))
        except StopIteration as end:
            return end.value

    def __call__(self, *args, **kwargs):
        coroutine = self._run(self._made(*args, **kwargs))
        coroutine.__name__ = coroutine.__qualname__ = "%s.%s" % (self._server, self.__name__)
        return coroutine

    def sync(self, *args, **kwargs):
        """The same for threads and for code outside of async functions."""
        steps = self._made(*args, **kwargs)
        try:
            method, params = next(steps)
            while True:
                answer = self._channel.call(CALL, self._request(method, params))
                method, params = steps.send(self._read(method, answer))
        except StopIteration as end:
            return end.value

    def __repr__(self):
        return "<%s of server %s>" % (self.__name__, self._server)
