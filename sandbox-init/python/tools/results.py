"""Converts the result of a tool call to a Python value."""

import errno
import re
from binascii import Error as Base64Error
from binascii import a2b_base64

from cloister import schema as schemas
from cloister.errors import KINDS, ToolDenied, ToolError, ToolInputRequired, ToolProtocolError
from cloister.json_codec import decode, decode_text
from cloister.signature import is_wrapped


# An answer that consists of one plain text of moderate size, recognized without parsing all of its JSON.
_ONE_TEXT = rb"""
    \{"ok":true,"result":\{ "content": \[ \{ "type": "text", "text": "([^"\\\x00-\x1f]{0,4000})" \} \] (?:, "isError": false )?\}\}
    """.strip().replace(b" ", rb"[ \t\r\n]*")
SHOWN = 60  # characters of a text resource in its repr()
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _match_one_text(payload):
    """At its first call. Compiling takes longer than a start without tools should wait."""
    global _match_one_text
    _match_one_text = re.compile(_ONE_TEXT).fullmatch
    return _match_one_text(payload)


def prepare():
    _match_one_text(b"")


class Blank(Exception):
    """Not an error: the result stands for that of a call which was not sent."""

    def __init__(self, result):
        self.result = result


class Blob:
    """Bytes with a type. data: bytes; mime_type: str or None; save(path) writes them and returns the path."""

    def __init__(self, data, mime_type=None, uri=None, name=None):
        self.data = data
        self.mime_type = mime_type
        self.uri = uri
        self.name = name

    def save(self, path):
        with open(path, "wb") as file:
            file.write(self.data)
        return path

    def __len__(self):
        return len(self.data)

    def __bytes__(self):
        return self.data

    def __eq__(self, other):
        if not isinstance(other, Blob):
            return NotImplemented
        return (self.data, self.mime_type, self.uri) == (other.data, other.mime_type, other.uri)

    def __hash__(self):
        return hash((self.data, self.mime_type, self.uri))

    def __repr__(self):
        uri = " %s" % self.uri if self.uri else ""
        return "<%s%s %s, %s bytes>" % (
            type(self).__name__,
            uri,
            self.mime_type or "of no known type",
            format(len(self.data), ","),
        )


class Image(Blob):
    pass


class Audio(Blob):
    pass


class File(Blob):
    """An embedded resource. text, and str() of it: the content of a text resource; else text is None."""

    text = None

    def __str__(self):
        return repr(self) if self.text is None else self.text

    def __repr__(self):
        about = super().__repr__()
        if self.text is None:
            return about
        more = "…" if len(self.text) > SHOWN else ""
        return "%s: %r%s>" % (about[:-1], self.text[:SHOWN], more)


class Link:
    """A link to a resource of the server: uri, name, mime_type, description."""

    def __init__(self, block):
        self.uri = block.get("uri")
        self.name = block.get("name")
        self.mime_type = block.get("mimeType")
        self.description = block.get("description")

    def __repr__(self):
        return "<Link %s %s>" % (self.uri, self.mime_type or "")


for _kind in (Blob, Image, Audio, File, Link):
    _kind.__module__ = "cloister"


LOST = {errno.EMFILE: "no descriptor was free for it; close files that are no longer needed"}


def read_answer(payload, server, tool):
    """The CallToolResult of a RETURN frame. Raises the error that it contains, or Blank."""
    if payload is None:
        raise MemoryError("no memory for the result of %s" % tool)
    if type(payload) is int:
        text = "the result of %s did not arrive: %s" % (tool, LOST.get(payload, "its descriptor was closed"))
        raise ToolError(text, server=server, tool=tool)
    try:
        answer = decode_text(payload) if type(payload) is str else decode(payload)
        if answer.get("ok"):
            return answer["result"]
        if "blank" in answer:
            raise Blank(answer["blank"])
        error = answer["error"]
    except (ValueError, KeyError, AttributeError) as wrong:
        raise ToolProtocolError(_unreadable(tool, wrong), server=server, tool=tool) from None
    kind = KINDS.get(error.get("kind"), ToolError)
    extra = {}
    if kind is ToolProtocolError:
        extra = {"code": error.get("code"), "data": error.get("data")}
    elif kind is ToolInputRequired:
        extra = {"request": error.get("data")}
    elif kind is ToolDenied:
        extra = {"rule": error.get("rule"), "why": error.get("why")}
    raise kind(error.get("message") or kind.__name__, server=server, tool=tool, **extra)


def _unreadable(tool, wrong):
    text = "the result of %s cannot be read: %s" % (tool, wrong)
    if "set_int_max_str_digits" in text:
        text = "the result of %s has an integer of more digits than sys.get_int_max_str_digits() allows" % tool
    return text


def unwrap(result, server, tool, output_schema):
    """The value of a CallToolResult. Raises ToolError when the tool says that it failed."""
    if not isinstance(result, dict):
        raise ToolProtocolError("the result of %s is not an object" % tool, server=server, tool=tool)
    content = schemas.list_in(result, "content")
    if len(content) == len(result) == 1 and output_schema is None:
        return block_value(content[0])
    if result.get("isError"):
        raise ToolError(_error_text(content, tool), server=server, tool=tool, content=content)
    structured = result.get("structuredContent")
    if isinstance(output_schema, dict):
        _check(result, structured, server, tool, output_schema)
    if structured is not None:
        wrapped = is_wrapped(output_schema, tool) or _says_wrapped(result)
        if wrapped and isinstance(structured, dict) and list(structured) == ["result"]:
            return structured["result"]
        return structured
    values = [block_value(block) for block in content]
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def _check(result, structured, server, tool, output_schema):
    """A tool with an outputSchema must give structured content that fits it. The error's data is the whole result."""
    if "structuredContent" not in result:
        text = "%s answered without structuredContent, which its outputSchema promises" % tool
        raise ToolProtocolError(text, server=server, tool=tool, data=result)
    wrong = schemas.check(structured, output_schema, "structuredContent")
    if wrong:
        text = "the result of %s does not fit its outputSchema: %s" % (tool, wrong)
        raise ToolProtocolError(text, server=server, tool=tool, data=result)


def read_text(payload):
    """The same as unwrap() of read_answer() for an answer that consists of one text; None for others."""
    found = _match_one_text(payload) if type(payload) is bytes else None
    if found is None:
        return None
    try:
        return _text(found[1].decode("utf-8"))
    except ValueError:
        return None


def _says_wrapped(result):
    """Whether the result's _meta has FastMCP's other marker of a wrapped result."""
    return schemas.object_in(schemas.object_in(result, "_meta"), "fastmcp").get("wrap_result") is True


def _error_text(content, tool):
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    text = "\n".join(text for text in texts if isinstance(text, str) and text)
    return text or "%s failed and does not say why" % tool


def file_value(resource):
    """A File of a resource's content, or the content itself if it has no text and no bytes."""
    try:
        return _file(resource)
    except (KeyError, TypeError, AttributeError, ValueError, Base64Error):
        return resource


def block_value(block):
    """The value of a content block; a str is returned as it is."""
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    try:
        if kind == "text":
            return _text(block["text"])
        if kind in ("image", "audio"):
            made = Image if kind == "image" else Audio
            return made(_bytes(block["data"]), block.get("mimeType"))
        if kind == "resource":
            return _file(block["resource"])
        if kind == "resource_link":
            return Link(block)
    except (KeyError, TypeError, AttributeError, ValueError, Base64Error):
        pass
    return block


def _bytes(text):
    """Decodes base64 of either alphabet, with or without padding; refuses anything else."""
    text = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    if text.strip(_BASE64):
        raise ValueError("no base64")
    return a2b_base64(text + "=" * (-len(text) % 4))


def _text(text):
    """Decodes a text that is one JSON object or array; any other text, such as "007", is returned unchanged."""
    start = text.lstrip(" \t\r\n")[:1]
    if start in ("{", "["):
        try:
            return decode_text(text)
        except (ValueError, RecursionError):
            pass
    return text


def _file(resource):
    if isinstance(resource.get("text"), str):
        data = resource["text"].encode("utf-8")
    else:
        data = _bytes(resource["blob"])
    file = File(data, resource.get("mimeType"), resource.get("uri"))
    file.text = resource.get("text")
    return file
