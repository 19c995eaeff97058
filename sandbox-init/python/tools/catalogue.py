"""The latest catalogue of tools from the broker; decoded on first use."""

from cloister import aio
from cloister.errors import ToolError, ToolNotFound
from cloister.fast_call import FastCall
from cloister.frames import QUERY
from cloister.json_codec import decode, decode_nearest, encode_own
from cloister.names import by_identifier, did_you_mean, identifier

WAIT_MS = 10_000  # for servers that are starting
QUERY_MAX = 2000  # characters of a search


class Entry:
    """One tool of one server."""

    __slots__ = ("server", "name", "description", "input_schema", "output_schema", "annotations", "asks", "fast_call")

    def __init__(self, server, tool):
        self.server = server
        self.name = tool["name"]
        self.description = tool.get("description") or tool.get("title") or ""
        self.input_schema = tool.get("inputSchema")
        self.output_schema = tool.get("outputSchema")
        self.annotations = tool.get("annotations")
        self.asks = tool.get("asks")  # a person: "always", "sometimes", or None; "denied": rules deny each call

    def __getattr__(self, name):
        """fast_call is created at the first call."""
        if name != "fast_call":
            raise AttributeError(name)
        self.fast_call = FastCall(self)
        return self.fast_call

    @property
    def qualified(self):
        return "%s.%s" % (self.server, self.name)


class Server:
    """tools: name -> Entry; names: identifier -> name."""

    def __init__(self, described):
        self.name = described["name"]
        self.state = described.get("state")
        self.error = described.get("error")
        self.instructions = described.get("instructions")
        tools = [Entry(self.name, tool) for tool in described.get("tools") or ()]
        self.tools = {entry.name: entry for entry in tools}
        self.denied = described.get("denied") or ()
        self.names = by_identifier(self.tools)


class Catalogue:
    def __init__(self, described):
        self.servers = {}
        self.has_rules = described.get("rules") is True
        for server in described.get("servers") or ():
            if server.get("state") != "disabled":
                self.servers[server["name"]] = Server(server)
        self.entries = [entry for server in self.servers.values() for entry in server.tools.values()]
        self.by_name = {}
        for entry in self.entries:
            self.by_name.setdefault(entry.name, []).append(entry)
        self.by_qualified = {}
        for entry in self.entries:
            self.by_qualified.setdefault(entry.qualified, []).append(entry)
        unique = [name for name, entries in self.by_name.items() if len(entries) == 1]
        # An identifier that tools of several servers share refers to none of them.
        taken = {identifier(name) for name in self.by_name} - {identifier(name) for name in unique}
        self.names = {
            text: self.by_name[name][0]
            for text, name in by_identifier(self.by_name).items()
            if len(self.by_name[name]) == 1 and (text not in taken or text == name)
        }

        self._denied = self._find_denied()

    def _find_denied(self):
        """The Entry, without a schema, of each tool that is not listed because rules deny each call: by all its names."""
        denied = {}
        for server in self.servers.values():
            for name in server.denied:
                entry = Entry(server.name, {"name": name, "asks": "denied"})
                for key in (entry.qualified, name, identifier(name), (server.name, name), (server.name, identifier(name))):
                    denied.setdefault(key, entry)
        return denied

    def starting(self):
        return [server.name for server in self.servers.values() if server.state == "starting"]

    def failed(self):
        return [server for server in self.servers.values() if server.state == "failed"]

    def find(self, key):
        """The Entry of tools[key], or None. Raises ToolNotFound when the name is ambiguous."""
        if isinstance(key, tuple) and len(key) == 2:
            server = self.servers.get(key[0])
            return None if server is None else server.tools.get(key[1])
        if not isinstance(key, str):
            raise TypeError("a tool's name is a string, not %s" % type(key).__qualname__)
        for table in (self.by_qualified, self.by_name):
            found = table.get(key)
            if found and len(found) > 1:
                raise ToolNotFound(self._ambiguous(key, found), tool=key)
            if found:
                return found[0]
        return self.names.get(key)

    def of_failed(self, key):
        """The Entry of the key if its server has failed, else None. Only a call shows whether the server works again."""
        if isinstance(key, str):
            names = [server.name for server in self.failed() if key.startswith(server.name + ".")]
            if not names:
                return None
            name = max(names, key=len)
            key = (name, key[len(name) + 1 :])
        server = self.servers.get(key[0])
        return Entry(key[0], {"name": key[1]}) if server is not None and server.state == "failed" else None

    def of_denied(self, key):
        """The Entry of a tool that rules always deny, else None. A call of it shows why."""
        return self._denied.get(key)

    @staticmethod
    def _ambiguous(key, found):
        if len({entry.qualified for entry in found}) == len(found):
            ways = " or ".join('tools["%s"]' % entry.qualified for entry in found)
        else:
            ways = " or ".join('tools["%s", "%s"]' % (entry.server, entry.name) for entry in found)
        servers = " and ".join(entry.server for entry in found)
        return '"%s" is a tool of %s: use %s' % (key, servers, ways)

    def not_found(self, key):
        """The error for a name that find() does not know."""
        name = ".".join(key) if isinstance(key, tuple) else key
        known = list(self.by_name) + list(self.by_qualified)
        text = 'there is no tool "%s"%s' % (name, did_you_mean(name, known))
        server = name.partition(".")[0]
        for other in self.failed():
            if not self.entries or other.name == server:
                text += "; the server %s is not available: %s" % (other.name, other.error)
        return ToolNotFound(text, tool=name)


class Library:
    """The current catalogue, kept up to date by the broker."""

    def __init__(self, channel):
        self._channel = channel
        self.forget()
        self._asking = None  # the task that asks the broker; all tasks that wait share it
        self._doubted = set()  # servers with a cached catalogue only, which were waited for once
        self.on_change = None

    def forget(self):
        self._raw = None
        self._version = -1
        self._read = None
        self.changes = 0  # how often it has changed

    def on_frame(self, version, payload):
        if payload is None or version < self._version:
            return
        self._version = version
        self._raw = payload
        self._read = None
        self.changes += 1
        if self.on_change is not None:
            self.on_change()

    def current(self):
        """Never waits. The catalogue is empty until the broker has sent one."""
        if self._read is None:
            try:
                self._read = Catalogue(decode_nearest(self._raw)) if self._raw else Catalogue({})
            except (ValueError, KeyError, TypeError, AttributeError):
                self._read = Catalogue({})
        return self._read

    def is_settled(self):
        return self._raw is not None and not self.current().starting()

    def awaits(self, key):
        """Whether a key names a server that is starting, which is worth a longer wait."""
        starting = self.current().starting()
        if isinstance(key, tuple):
            return key[0] in starting
        return any(key.startswith(name + ".") for name in starting)

    def may_doubt(self, name):
        """Whether the server's tools come from a cache and may be out of date. True only once for each server."""
        server = self.current().servers.get(name)
        if server is None or server.state != "cached" or name in self._doubted:
            return False
        self._doubted.add(name)
        return True

    def refreshed(self):
        """Reads the frames that have arrived, and returns the current catalogue."""
        self._channel.pump()
        return self.current()

    def settled(self, anyway=False):
        """Blocks until no server is starting, for at most 10 s. anyway: also waits for servers whose tools come from
        a cache."""
        self._channel.pump()
        if anyway or not self.is_settled():
            self._take(self._channel.call(QUERY, self._query()))
        return self.current()

    def search(self, text, limit):
        """Blocks until the broker, which has one index for all sessions, has found the tools that match: a list of
        Entry. Waits for servers that are starting, as settled() does. The catalogue is not decoded for it."""
        text = text[:QUERY_MAX].encode("utf-8", "replace").decode()
        query = {"what": "search", "q": text, "limit": min(limit, 1_000_000), "wait_ms": WAIT_MS}
        payload = self._channel.call(QUERY, encode_own(query))
        try:
            answer = decode_nearest(payload.encode() if type(payload) is str else payload)
            if answer["ok"]:
                return [Entry(found["server"], found["tool"]) for found in answer["result"]["tools"]]
            message = answer["error"]["message"]
        except (ValueError, KeyError, TypeError, AttributeError):
            message = "the tools could not be searched"
        raise ToolError(message)

    def decisions(self, calls):
        """What the rules say of calls, {"server", "tool", "arguments"?}: a list of {"effects", "rule"?, "why"?}; [] without
        rules. Without arguments the effects are those that any can have. Blocks until the broker has answered."""
        return [self._decision(call) for call in calls] if self.current().has_rules else []

    def _decision(self, call):
        try:
            payload = self._channel.call(QUERY, encode_own({"what": "rules", "calls": [call]}))
            return decode_nearest(payload.encode() if type(payload) is str else payload)["result"]["calls"][0]
        except (ValueError, LookupError, TypeError, AttributeError):
            return {}

    async def settled_async(self, anyway=False):
        """The same for a coroutine. Tasks that wait at once share one query, because the broker limits the number of
        pending queries."""
        if anyway or not self.is_settled():
            loop = aio.load().get_running_loop()
            if self._asking is None or self._asking.done() or self._asking.get_loop() is not loop:
                self._asking = loop.create_task(self._ask())
            await aio.load().shield(self._asking)
        return self.current()

    async def _ask(self):
        self._take(await self._channel.call_async(QUERY, self._query()))

    @staticmethod
    def _query():
        return encode_own({"what": "catalogue", "wait_ms": WAIT_MS})

    def _take(self, payload):
        """An answer may contain the catalogue; usually a CATALOG frame has arrived before."""
        try:
            result = decode(payload)["result"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if isinstance(result, dict) and "servers" in result:
            self.on_frame(result.get("version", self._version), encode_own(result))
