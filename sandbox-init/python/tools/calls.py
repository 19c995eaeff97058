"""The objects `tools` and mcp_<server>, and the tools in them."""

from collections.abc import Mapping

from cloister import schema as schemas
from cloister import signature
from cloister.errors import ToolArgumentError, ToolNotFound, ToolProtocolError
from cloister.frames import CALL
from cloister.json_codec import MAX_ITEMS, Unfit, encode_guest, plain
from cloister.names import by_identifier, did_you_mean, identifier
from cloister.resources import MAX_BYTES, OFFERS, Offer
from cloister.results import Blank, read_answer, read_text, unwrap

MAX_WAITS = 12  # of 10 s each, for the server that has the tool; the broker's own timeout is shorter
_COMBINING = ("anyOf", "oneOf", "allOf", "$ref", "if", "dependentSchemas", "patternProperties")


def collect_arguments(entry, args, kwargs):
    """The arguments object of a call f(**kwargs), f({…}) or f(arguments={…})."""
    schema = entry.input_schema if isinstance(entry.input_schema, dict) else {}
    members = schemas.object_in(schema, "properties")
    given = dict(kwargs)
    if len(args) == 1 and isinstance(args[0], Mapping):
        given = {**args[0], **kwargs}
    elif args:
        raise _argument_error(entry, "arguments are given by name, or as one dict")
    elif list(given) == ["arguments"] and isinstance(given["arguments"], Mapping) and "arguments" not in members:
        given = dict(given["arguments"])
    names = by_identifier(members)
    closed = _is_closed(schema)
    arguments = {}
    for key, value in given.items():
        if isinstance(key, str) and key not in members and names.get(key, key) not in given:
            key = names.get(key, key)
        if value is None and key not in schemas.list_in(schema, "required") and (key in members or not closed):
            continue
        arguments[key] = value
    return arguments


def _is_closed(schema):
    """Whether an argument that is not among the properties is refused for its name."""
    if schema.get("patternProperties") or "$ref" in schema:
        return False
    if schema.get("additionalProperties") is False:
        return True
    closed = "additionalProperties" not in schema and not any(keyword in schema for keyword in _COMBINING)
    return closed and bool(schemas.object_in(schema, "properties"))


def check_names(entry, arguments):
    schema = entry.input_schema
    if isinstance(schema, dict) and _is_closed(schema):
        known = schemas.object_in(schema, "properties")
        for key in arguments:
            if key not in known:
                raise _argument_error(entry, 'unknown argument "%s"%s' % (key, did_you_mean(key, known)))


def check_values(entry, arguments, schema):
    wrong = schemas.check(arguments, schema) if isinstance(schema, dict) else None
    if wrong:
        raise _argument_error(entry, wrong)


def _argument_error(entry, wrong):
    line = signature.line(entry.name, entry.input_schema)
    text = "%s: %s%s It takes %s" % (entry.name, wrong, "" if wrong.endswith("?") else ".", line)
    return ToolArgumentError(text, server=entry.server, tool=entry.name)


def make_call(entry, args, kwargs):
    """The payload of a CALL. All errors in the arguments are raised here."""
    if entry.asks == "denied":  # whatever its arguments: the names of those by position are not known
        args = ()
    if not args:
        data = entry.fast_call.payload(kwargs)
        if data is not None and len(data) <= MAX_ITEMS:
            return data
    arguments = plain(collect_arguments(entry, args, kwargs))
    check_names(entry, arguments)
    check_values(entry, arguments, entry.input_schema)
    try:
        data = encode_guest({"server": entry.server, "tool": entry.name, "arguments": arguments})
    except Unfit as wrong:
        place = wrong.path.replace("['arguments']", "", 1)
        raise _argument_error(entry, "%s%s" % (wrong.reason, " in arguments%s" % place if place else "")) from None
    if len(data) > MAX_BYTES:
        text = "the arguments take %s bytes as JSON; a call can carry %s" % (
            format(len(data), ","),
            format(MAX_BYTES, ","),
        )
        raise ToolArgumentError("%s: %s" % (entry.name, text), server=entry.server, tool=entry.name)
    if len(data) > MAX_ITEMS and _count_values(data) > MAX_ITEMS:
        text = "the arguments have more than %s values; pass fewer, or text" % format(MAX_ITEMS, ",")
        raise ToolArgumentError("%s: %s" % (entry.name, text), server=entry.server, tool=entry.name)
    return data


def _count_values(data):
    """As the broker counts them: by what separates values. Strings are left out if that makes a difference."""
    found = _count_separators(data)
    if found > MAX_ITEMS:
        outside = data.replace(rb"\\", b"").replace(b'\\"', b"").split(b'"')[::2]
        found = _count_separators(b"".join(outside))
    return found


def _count_separators(data):
    return 1 + sum(map(data.count, (b",", b":", b"[", b"{")))


def _of_entry(member):
    """A property: what the tool's entry has; None while there is no entry."""
    return property(lambda tool: getattr(tool._entry(), member, None))


class Tool:
    """await tool(name=value, …) calls it; .sync(…) blocks; .raw(…) gives the whole CallToolResult."""

    def __init__(self, library, channel, key):
        self._library = library
        self._channel = channel
        self._key = key  # (server, name), or the name that was looked up while servers were starting
        self._found = None  # the Entry of the key
        self._seen = -1  # the state of the catalogue that _found is from

    def _entry(self):
        if self._seen != self._library.changes:
            self._look()
        return self._found

    def _look(self):
        seen = self._library.changes
        found = self._found = self._library.current().find(self._key)
        if found is not None:
            self._key = (found.server, found.name)
        self._seen = seen

    def _resolved(self, catalogue):
        entry = catalogue.find(self._key)
        if entry is None and isinstance(self._key, tuple) and self._key[0] in catalogue.servers:
            server = catalogue.servers[self._key[0]]
            entry = server.tools.get(server.names.get(self._key[1]))
        if entry is None:
            entry = catalogue.of_failed(self._key) or catalogue.of_denied(self._key)
        if entry is None:
            raise catalogue.not_found(self._key)
        self._key = (entry.server, entry.name)
        return entry

    async def _find(self):
        entry = self._entry()
        for _ in range(MAX_WAITS):
            if entry is not None or not self._library.awaits(self._key):
                break
            await self._library.settled_async()
            entry = self._entry()
        return entry or self._resolved(await self._library.settled_async())

    def _find_blocking(self):
        entry = self._entry()
        for _ in range(MAX_WAITS):
            if entry is not None or not self._library.awaits(self._key):
                break
            self._library.settled()
            entry = self._entry()
        return entry or self._resolved(self._library.settled())

    def _try_call(self, entry, args, kwargs):
        """As make_call(). None: the schema may be an old one, from before the server was restarted or replaced."""
        try:
            return make_call(entry, args, kwargs)
        except ToolArgumentError:
            if not self._library.may_doubt(entry.server):
                raise
        return None

    async def _call(self, args, kwargs, raw):
        entry = (self._found if self._seen == self._library.changes else self._entry()) or await self._find()
        payload = self._try_call(entry, args, kwargs)
        if payload is None:  # not in the handler: a second error would show the first one, too
            entry = self._resolved(await self._library.settled_async(True))
            payload = make_call(entry, args, kwargs)
        del args, kwargs  # they may be large
        answer = await self._channel.call_async(CALL, payload)
        if self._seen != self._library.changes:
            entry = self._entry() or entry
        return _value(entry, answer, raw)

    def _call_blocking(self, args, kwargs, raw):
        entry = self._find_blocking()
        payload = self._try_call(entry, args, kwargs)
        if payload is None:
            entry = self._resolved(self._library.settled(True))
            payload = make_call(entry, args, kwargs)
        answer = self._channel.call(CALL, payload)
        return _value(self._entry() or entry, answer, raw)

    def _start(self, args, kwargs, raw):
        coroutine = self._call(args, kwargs, raw)
        entry = self._found if self._seen == self._library.changes else self._entry()
        # For the warning about a coroutine that was never awaited.
        coroutine.__name__ = coroutine.__qualname__ = entry.fast_call.label if entry else 'tools["%s"]' % self._text_key()
        return coroutine

    def _text_key(self):
        return self._key if isinstance(self._key, str) else ".".join(self._key)

    def __call__(self, *args, **kwargs):
        return self._start(args, kwargs, False)

    def sync(self, *args, **kwargs):
        """Calls the tool and waits for the result, for threads and for code outside of async functions."""
        return self._call_blocking(args, kwargs, False)

    @property
    def raw(self):
        """await .raw(…) or .raw.sync(…): the whole CallToolResult as a dict, no exception when it is an error."""
        return Raw(self)

    @property
    def name(self):
        entry = self._entry()
        return self._text_key() if entry is None else entry.name

    __name__ = name

    server = _of_entry("server")
    description = _of_entry("description")
    input_schema = _of_entry("input_schema")
    output_schema = _of_entry("output_schema")

    @property
    def __doc__(self):
        entry = self._entry()
        if entry is None:
            return "A tool of a server that is starting, or of none."
        return _document(entry)

    @property
    def __signature__(self):
        return signature.inspectable(self.input_schema or {})

    def __eq__(self, other):
        if not isinstance(other, Tool):
            return NotImplemented
        return (self._entry() and self._key) == (other._entry() and other._key)

    def __hash__(self):
        return hash(self._text_key())

    def __repr__(self):
        entry = self._entry()
        if entry is None:
            return '<tool "%s", not known yet>' % self._text_key()
        line = signature.line(entry.name, entry.input_schema, entry.output_schema)
        return "<tool %s.%s>" % (entry.server, line)


class Raw:
    def __init__(self, tool):
        self._tool = tool

    def __call__(self, *args, **kwargs):
        return self._tool._start(args, kwargs, True)

    def sync(self, *args, **kwargs):
        return self._tool._call_blocking(args, kwargs, True)

    def __repr__(self):
        return "%r.raw" % self._tool


def _value(entry, answer, raw):
    if not raw and entry.output_schema is None:
        value = read_text(answer)
        if value is not None:
            return value
    try:
        result = read_answer(answer, entry.server, entry.name)
    except Blank as blank:
        return _blank_value(entry, blank.result, raw)
    if raw:
        return result
    return unwrap(result, entry.server, entry.name, entry.output_schema)


def _blank_value(entry, result, raw):
    """Of a call that was not sent, because a plan is being made."""
    global make_call
    from cloister.blanks import marking, watch

    make_call = marking(make_call)
    if raw:
        return watch(result)
    try:
        value = unwrap(result, entry.server, entry.name, entry.output_schema)
    except ToolProtocolError:  # a schema to which no simple value fits
        value = result.get("structuredContent")
    return watch(value)


def _document(entry):
    lines = [signature.line(entry.name, entry.input_schema, entry.output_schema), ""]
    if entry.description:
        lines += [entry.description.strip(), ""]
    for key, schema, required in signature.parameters(entry.input_schema):
        text = schema.get("description") if isinstance(schema, dict) else None
        kind = signature.type_text(schema, entry.input_schema)
        lines.append("%s: %s%s%s" % (key, kind, "" if required else ", optional", " – %s" % text if text else ""))
    lines += ["", 'Call: await tools["%s"](…), or .sync(…) outside of async code.' % entry.qualified]
    return "\n".join(lines)


class ServerTools:
    """The tools of one server: mcp_calendar.list_events(…), mcp_calendar["list-events"](…).

    Besides them, unless a tool has that name: await .resources(), .resource_templates(), .read_resource(uri), .prompts()
    and .get_prompt(name, …); help(mcp_calendar.resources) says what they return.
    """

    def __init__(self, library, channel, name):
        self._library = library
        self._channel = channel
        self._name = name

    def _server(self):
        return self._library.current().servers.get(self._name)

    def _make(self, name):
        return Tool(self._library, self._channel, (self._name, name))

    def _find(self, name, identified):
        for get in (self._library.current, self._library.refreshed):
            server = get().servers.get(self._name)
            if server is not None:
                exact = name if name in server.tools else server.names.get(name)
                if exact is not None:
                    return self._make(exact)
        if server is None or server.state in ("starting", "failed") or get().of_denied((self._name, name)):
            return self._make(name)
        known = list(server.names) if identified else list(server.tools)
        text = '%s has no tool "%s"%s' % (self._name, name, did_you_mean(name, known))
        raise ToolNotFound(text, server=self._name, tool=name)

    def __getattr__(self, name):
        if name.startswith("_"):
            server = self._server()
            if server is None or name not in server.names:
                raise AttributeError(name)
        if name in OFFERS and not self._has_tool(name):
            return Offer(self._channel, self._name, name)
        return self._find(name, True)

    def _has_tool(self, name):
        """Waits for a server that is starting."""
        self._settled()
        server = self._server()
        return server is not None and name in server.names

    def __getitem__(self, name):
        return self._find(name, False)

    def _settled(self):
        server = self._server()
        if server is not None and server.state == "starting":
            server = self._library.settled().servers.get(self._name)
        return {} if server is None else server.tools

    def __contains__(self, name):
        return name in self._settled()

    def __iter__(self):
        return iter(list(self._settled()))

    def __len__(self):
        return len(self._settled())

    def __dir__(self):
        server = self._server()
        return sorted({*server.names, *OFFERS}) if server is not None else []

    def _ipython_key_completions_(self):
        return list(self)

    def __repr__(self):
        server = self._server()
        if server is None:
            return "<server %s, gone>" % self._name
        about = server.error or ", ".join(server.tools) or server.state
        return "<server %s: %s>" % (self._name, about)


class Tools(Mapping):
    """All tools: tools["list-events"], tools["calendar.list-events"], tools.list_events.

    Listing the tools waits for servers that are starting, as _discover() does; looking up one name does not.
    """

    def __init__(self, library, channel):
        self._library = library
        self._channel = channel
        self._found = {}  # name -> its Tool, of names that the catalogue had

    def __getitem__(self, key):
        if isinstance(key, Tool):
            return key
        tool = self._found.get(key) if type(key) is str else None
        if tool is not None and tool._seen == self._library.changes:
            return tool
        for get in (self._library.current, self._library.refreshed):
            catalogue = get()
            entry = catalogue.find(key)
            if entry is not None:
                tool = self._found[key] = Tool(self._library, self._channel, (entry.server, entry.name))
                return tool
        if not self._library.is_settled() or catalogue.of_failed(key) or catalogue.of_denied(key):
            return Tool(self._library, self._channel, key)
        raise catalogue.not_found(key)

    def __getattr__(self, name):
        if name.startswith("_") and name not in self._library.current().names:
            raise AttributeError(name)
        for server in self._library.current().servers.values():
            if name in (server.name, identifier(server.name)) and name not in self:
                return ServerTools(self._library, self._channel, server.name)
        return self[name]

    def __contains__(self, key):
        try:
            return (self._library.current().find(key) or self._library.settled().find(key)) is not None
        except (ToolNotFound, TypeError):
            return False

    def __iter__(self):
        catalogue = self._library.settled()
        for entry in catalogue.entries:
            yield entry.name if len(catalogue.by_name[entry.name]) == 1 else entry.qualified

    def __len__(self):
        return len(self._library.settled().entries)

    def __dir__(self):
        return sorted({*self._library.current().names, "get", "items", "keys", "values"})

    def _ipython_key_completions_(self):
        return list(self)

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __repr__(self):
        servers = self._library.refreshed().servers.values()
        shown = "; ".join("%s: %s" % (s.name, s.error or ", ".join(s.tools) or s.state) for s in servers)
        return "<tools of %s>" % shown if shown else "<no tools>"
