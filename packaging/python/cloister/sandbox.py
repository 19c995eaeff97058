"""A client of Cloister: runs code and commands, and moves files, in a session of its MCP server (docs/sdk.md).

An AsyncSandbox is one session of a server, and a branch is another session of the same server. A Sandbox runs an AsyncSandbox in an
event loop in its own thread, so that it can be used from any thread, and from code that has a running event loop.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import functools
import inspect
import json
import os
import queue
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from cloister import PROGRAM
from cloister.server import CallRefused, SandboxError, Server, check_sendable
from mcp.types import CallToolResult, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent

T = TypeVar("T")
P = ParamSpec("P")
Path = str | os.PathLike[str]
OnText = Callable[[str], object]

TOOLS = {"python": "run_python", "javascript": "run_javascript", "typescript": "run_javascript"}
START_SECONDS = 60.0
OUTPUT_MAX = 16 << 20  # what the server keeps of a stream
PENDING_MAX = 128  # pieces of output that wait for on_stdout and on_stderr
CHUNK = 1 << 20
FILE_MAX = 256 << 20
LIST_MAX = 10_000
BINARY = "application/octet-stream"
# Ends the interpreter and its copies, so that the server ends the session.
END_CODE = {"run_python": "import os; os.kill(-1, 9); os._exit(0)", "run_javascript": "process.exit()"}


@dataclass(frozen=True)
class Image:
    """A picture that the code showed."""
    data: bytes = field(repr=False)
    mime_type: str


@dataclass(frozen=True)
class CodeError:
    """The exception with which the code ended."""
    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class Result:
    """What the code did. `status` is ok, error, exit, timeout, cancelled, oom or killed."""
    status: str
    text: str  # what a model reads of the result
    stdout: str = ""  # whole, up to 16 MiB
    stderr: str = ""
    value: Any = None  # of the last expression, if JSON has all of it
    value_repr: str | None = None
    error: CodeError | None = None
    exit_code: int | None = None
    notice: str = ""  # what is unusual about the end or the state
    images: tuple[Image, ...] = ()
    tool_calls: tuple[dict[str, Any], ...] = ()
    data: dict[str, Any] = field(default_factory=dict, repr=False)  # structuredContent as it came: docs/mcp.md


@dataclass(frozen=True)
class CommandResult:
    """What a command did. `exit_code` is 124 after the timeout, and 137 if the sandbox ended."""
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class FileInfo:
    """An entry of a directory. `type` is file, directory, link or other."""
    name: str
    path: str
    type: str
    size: int
    modified: float


# The frame of the programs that run in the session; `a` are their arguments.
_FRAME = """
import base64, errno, itertools, json, os, stat, subprocess
from cloister import display
def answer(head, data=b""):
    display(json.dumps(head).encode() + b"\\n" + data, "application/octet-stream")
try:
%s
except OSError as error:
    answer({"error": [error.errno or errno.EIO, error.strerror or str(error)]})
"""
_GUEST = {
    "read": """
file = os.open(a[0], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
try:
    s = os.fstat(file)
    if not stat.S_ISREG(s.st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(s.st_mode) else errno.EINVAL, "not a regular file")
    answer([s.st_size, [s.st_dev, s.st_ino, s.st_mtime_ns]], os.pread(file, a[2], a[1]))
finally:
    os.close(file)
""",
    "write": """
path, part, data, offset, last = a
try:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(part, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(base64.b64decode(data))
    if last:
        os.replace(part, path)
except OSError:
    if os.path.exists(part):
        os.unlink(part)
    raise
answer([])
""",
    "list": """
rows = []
with os.scandir(a[0]) as entries:
    for e in itertools.islice(entries, a[1] + 1):
        s = e.stat(follow_symlinks=False)
        kind = "link" if e.is_symlink() else "directory" if stat.S_ISDIR(s.st_mode) else "file" if stat.S_ISREG(s.st_mode) else "other"
        rows.append([e.name, kind, s.st_size, s.st_mtime])
answer([], json.dumps(rows).encode())
""",
    "run": """
command, cwd, env = a
done = subprocess.run(command, shell=isinstance(command, str), cwd=cwd, env=env and {**os.environ, **env}, stdin=subprocess.DEVNULL)
answer([done.returncode])
""",
}


def _text(path: Path) -> str:
    """Returns the path as text, relative to /workspace unless it is absolute."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{path!r} is not a path: it must be text without NUL, and not empty")
    return text


@contextlib.contextmanager
def _checked(what: str) -> Iterator[None]:
    """Reports an answer that does not have the right form: code in the sandbox can forge those of the programs above."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise SandboxError(f"{what}: the answer has a wrong form: {type(error).__name__}: {str(error)[:200]}") from None


class AsyncFiles:
    """The files of a session. Paths are relative to /workspace, and are resolved in the sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def read(self, path: Path, *, max_bytes: int = FILE_MAX) -> bytes:
        """Returns the content of a file. Raises OSError as open() does."""
        name, data, first = _text(path), bytearray(), None
        while True:
            answer, part = await self._sandbox.guest("read", name, len(data), CHUNK)
            with _checked(name):
                size, now = int(answer[0]), answer[1]
            if size > max_bytes:
                raise SandboxError(f"{name}: {size} bytes, and max_bytes is {max_bytes}")
            # A file of /proc has content, but no size.
            if first not in (None, now) or len(part) != (min(CHUNK, size - len(data)) if size else min(CHUNK, len(part))):
                raise SandboxError(f"{name}: the file changed while it was read")
            first = now
            data += part
            if len(data) >= size:
                return bytes(data)

    async def write(self, path: Path, data: bytes | str) -> None:
        """Writes a file, whose directory is made if need be. The file appears when it is whole."""
        name, content = _text(path), data.encode() if isinstance(data, str) else bytes(memoryview(data))
        part = os.path.join(os.path.dirname(name), f".cloister-{secrets.token_hex(8)}.part")
        for offset in range(0, len(content) or 1, CHUNK):
            chunk = base64.b64encode(content[offset : offset + CHUNK])
            await self._sandbox.guest("write", name, part, chunk, offset, offset + CHUNK >= len(content))

    async def list(self, path: Path = ".") -> list[FileInfo]:
        """Returns the entries of a directory, sorted by name, 10,000 at most."""
        name = _text(path)
        _, rows = await self._sandbox.guest("list", name, LIST_MAX)
        with _checked(name):
            entries = [FileInfo(str(n), os.path.normpath(os.path.join(name, str(n))), str(t), int(s), float(m)) for n, t, s, m in json.loads(rows)]
            if any(entry.name in ("", ".", "..") or {"/", "\0"} & set(entry.name) for entry in entries):
                raise ValueError("a name that no file can have")
        if len(entries) > LIST_MAX:
            raise SandboxError(f"{name}: more than {LIST_MAX} entries")
        return sorted(entries, key=lambda entry: entry.name)


class AsyncCommands:
    """Programs of the sandbox's image."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def run(
        self, command: str | Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None, timeout: float | None = None,
        on_stdout: OnText | None = None, on_stderr: OnText | None = None,
    ) -> CommandResult:
        """Runs a command, by the shell if it is text, and returns its output. Nothing is on its standard input."""
        arguments = (command if isinstance(command, str) else [*command], cwd, env and dict(env))
        result, answer = await self._sandbox.guest_result("run", arguments, timeout, on_stdout, on_stderr)
        if answer:
            with _checked("the command"):
                return CommandResult(int(answer[0][0]), result.stdout, result.stderr)
        if result.error and result.status == "error":
            raise SandboxError(f"{command!r}: {result.error.type}: {result.error.message}")
        notice = f"cloister: {result.notice or result.status}\n"
        return CommandResult(124 if result.status == "timeout" else 137, result.stdout, result.stderr + notice)


class AsyncSandbox:
    """A session in a sandbox: variables and files that last from call to call.

    `profile` and `image` are names of the config and of the image store. Without `url` it starts `cloister mcp`, which ends with it;
    with `url` (and `token`) it uses a server that runs (`cloister serve`). `session` is the name of a session to continue, which then
    stays when the sandbox is closed. `config` is a config file, `program` the path of cloister, `env` are more variables for it.
    """

    def __init__(
        self, *, profile: str | None = None, image: str | None = None, language: str = "python", url: str | None = None, token: str | None = None,
        session: str | None = None, config: Path | None = None, program: Path | None = None, env: Mapping[str, str] | None = None,
        start_timeout: float = START_SECONDS,
    ) -> None:
        if language not in TOOLS:
            raise ValueError(f"language {language!r}: must be one of {', '.join(TOOLS)}")
        if url is not None and (image or config or program or env):
            raise ValueError("url: image, config, program and env belong to the server; profile= chooses among its profiles")
        self.files, self.commands = AsyncFiles(self), AsyncCommands(self)
        self.session = session or (f"sdk-{secrets.token_hex(8)}" if url is not None else "default")
        self._keeps_session, self._is_used, self._is_closed, self._owns_server = session is not None, False, False, True
        self._tool, self._profile, self._lock = TOOLS[language], profile if url is not None else None, asyncio.Lock()
        self._server: Server | None = None
        self._start_timeout, self._where = start_timeout, (env, url, token)
        path = program or (PROGRAM if os.path.exists(PROGRAM) else shutil.which("cloister") or "cloister")
        options = (("--config", config), ("--image", image), ("--profile", profile))
        self._command = [os.fspath(path), "mcp", "--log-format", "text", *(os.fspath(part) for pair in options if pair[1] is not None for part in pair if part)]

    async def open(self) -> AsyncSandbox:
        """Starts or reaches the server. `async with` does it."""
        if self._server or self._is_closed:
            raise SandboxError("the sandbox is closed" if self._is_closed else "the sandbox is open already")
        self._server = Server(self._command, *self._where)
        try:
            await self._server.open(self._tool, self._start_timeout)
        except BaseException:
            self._is_closed = True
            raise
        return self

    async def close(self) -> None:
        """Ends the session, and the server if this object has started it. A second call does nothing."""
        server, was_closed, self._is_closed = self._server, self._is_closed, True
        if was_closed or not server:
            return
        try:
            # A server that ends now takes its sessions with it.
            if self._is_used and not self._keeps_session and not (self._owns_server and server.url is None):
                end = {"code": END_CODE[self._tool], "session": self.session, "interrupt": True, "timeout": 5}
                with contextlib.suppress(SandboxError, asyncio.TimeoutError):
                    await asyncio.wait_for(server.request(lambda client, _: client.call_tool(self._tool, end)), 10)
        finally:
            if self._owns_server:
                await server.close()

    async def __aenter__(self) -> AsyncSandbox:
        return await self.open() if self._owns_server else self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def run_code(
        self, code: str, *, timeout: float | None = None, on_stdout: OnText | None = None, on_stderr: OnText | None = None,
        dependencies: Sequence[str] = (), restore: str | None = None, rollback: bool = False,
    ) -> Result:
        """Runs code and returns what it did; an exception of the code is `error` of the result.

        `timeout` is in seconds. `on_stdout` and `on_stderr` get the output while the code runs; those of an AsyncSandbox may be
        coroutine functions. Their exceptions interrupt the code and are raised here. `dependencies` are packages to add before,
        where the config allows it; `restore` is a checkpoint whose variables are restored before. With `rollback`, variables and
        files are as before if the code fails.
        """
        arguments = {"code": code, "timeout": timeout, "restore": restore, "dependencies": list(dependencies) or None}
        return (await self._call(arguments | {"on_error": "rollback" if rollback else None}, on_stdout, on_stderr))[0]

    async def checkpoint(self, name: str | None = None) -> str:
        """Keeps the variables as they are now under a name, and returns the name."""
        name = name or f"c-{secrets.token_hex(4)}"
        result, _ = await self._call({"checkpoint": name})
        if result.status != "ok" or not result.data.get("checkpoint"):
            raise SandboxError(f"no checkpoint was made: {result.notice or result.text}")
        return name

    async def restore(self, name: str) -> None:
        """Restores the variables of a checkpoint. Files stay as they are."""
        result, _ = await self._call({"restore": name})
        if result.status != "ok":
            raise SandboxError(f"checkpoint {name!r} was not restored: {result.notice or result.text}")

    async def branch(self, checkpoint: str | None = None) -> AsyncSandbox:
        """Returns a new session that begins with the variables and files of this one, or with the variables of a checkpoint."""
        copy = AsyncSandbox(session=f"b-{secrets.token_hex(8)}")
        copy._tool, copy._profile, copy._server = self._tool, self._profile, self._server
        copy._owns_server = copy._keeps_session = False
        if not self._is_used:  # so that there is a session to begin with
            await self._call({"code": ""})
        async with self._lock:
            result, _ = await copy._call({"from": f"{self.session}@{checkpoint}" if checkpoint else self.session, "code": ""})
        if result.status != "ok":
            raise SandboxError(f"no branch of session {self.session!r} was made: {result.notice or result.text}")
        return copy

    async def guest(self, program: str, *arguments: Any) -> tuple[Any, bytes]:
        """Runs one of the programs above in the session, and returns its answer. Raises its OSError."""
        result, answer = await self.guest_result(program, arguments)
        if answer is None:
            raise SandboxError(f"{arguments[0]}: {result.notice or result.text or result.status}")
        return answer

    async def guest_result(
        self, program: str, arguments: Sequence[Any], timeout: float | None = None, on_stdout: OnText | None = None, on_stderr: OnText | None = None
    ) -> tuple[Result, tuple[Any, bytes] | None]:
        """Runs one of the programs above. None replaces its answer if it did not come to that."""
        if self._tool != "run_python":
            raise SandboxError("files and commands need a session of Python")
        # An expression, which leaves no name in the session.
        code = f"(lambda g: exec({_FRAME % indent(_GUEST[program], '    ')!r}, g))({{'a': {list(arguments)!r}}})"
        result, content = await self._call({"code": code, "timeout": timeout}, on_stdout, on_stderr)
        raw = None
        for block in content:
            if isinstance(block, EmbeddedResource) and block.resource.mime_type == BINARY:
                raw = getattr(block.resource, "blob", None)
            elif isinstance(block, ResourceLink) and block.mime_type == BINARY:
                raw = getattr((await self._read(block.uri))[0], "blob", None)
        if raw is None:
            return result, None
        with _checked(program):
            head, _, data = base64.b64decode(raw).partition(b"\n")
            answer = json.loads(head)
            failure = (int(answer["error"][0]), str(answer["error"][1])[:1000]) if isinstance(answer, dict) else None
        if failure:
            raise OSError(*failure, str(arguments[0]))
        return result, (answer, data)

    async def _read(self, uri: str) -> Any:
        assert self._server
        return (await self._server.request(lambda client, _: client.read_resource(uri))).contents

    async def _whole(self, uri: str) -> str:
        """Reads an output that the result shows a part of."""
        parts, length = list[str](), 0
        while uri and length < OUTPUT_MAX:
            contents = await self._read(uri)
            parts.append(str(getattr(contents[0], "text", "")))
            length, uri = length + len(parts[-1]), str(contents[1].uri) if len(contents) > 1 and parts[-1] else ""
        return "".join(parts)

    async def _call(
        self, arguments: dict[str, Any], on_stdout: OnText | None = None, on_stderr: OnText | None = None
    ) -> tuple[Result, list[ContentBlock]]:
        """Calls the tool, passes its output on, and returns the result. The calls of a session run one after the other."""
        server = self._server
        if not server or self._is_closed:
            raise SandboxError("the sandbox is closed" if self._is_closed else "the sandbox is not open: use 'with', or open()")
        arguments = {name: value for name, value in arguments.items() if value is not None}
        arguments |= {"session": self.session} | ({"profile": self._profile} if self._profile else {})
        receivers = {name: receiver for name, receiver in (("stdout", on_stdout), ("stderr", on_stderr)) if receiver}
        check_sendable(arguments)
        meta: Any = {"io.modelcontextprotocol/logLevel": "info"} if receivers else None
        async with self._lock:
            self._is_used = True
            call = server.request(lambda client, heard: client.call_tool(self._tool, arguments, progress_callback=heard, meta=meta))
            answer = await (self._listen(server, call, receivers) if receivers else call)
            with _checked(self._tool):
                return await self._result(answer), answer.content

    async def _listen(self, server: Server, request: Coroutine[Any, Any, CallToolResult], receivers: dict[str, OnText]) -> CallToolResult:
        """Awaits the request, and calls the receivers with what is printed meanwhile."""
        pending: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()

        def take(stream: str, text: str) -> None:
            if stream in receivers and pending.qsize() < PENDING_MAX:
                pending.put_nowait((stream, text))

        server.listeners[self.session] = take
        call = asyncio.ensure_future(request)
        call.add_done_callback(lambda _: pending.put_nowait(None))
        try:
            while item := await pending.get():
                done = receivers[item[0]](item[1])
                if inspect.isawaitable(done):
                    await done
            return await call
        finally:
            server.listeners.pop(self.session, None)
            if not call.done():
                call.cancel()
                await asyncio.wait({call})

    async def _result(self, answer: CallToolResult) -> Result:
        """Makes a Result of the tool's answer."""
        text = "\n".join(block.text for block in answer.content if isinstance(block, TextContent))
        data = answer.structured_content
        if not isinstance(data, dict) or not isinstance(data.get("status"), str):
            raise CallRefused(f"{self._tool}: {text or 'the server answered without a result'}"[:2000])
        error, value, cut = data.get("error"), data.get("value") or {}, data.get("truncated") or {}
        if "receipt" not in data and data["status"] in ("error", "busy"):
            raise CallRefused(str((error or {}).get("message") or data.get("notice") or text))
        streams = {name: str(data.get(name, "")) for name in ("stdout", "stderr")}
        for uri in (str(cut.get("resource")), str(cut.get("stderr_resource"))):
            if (stream := uri.rpartition("/")[2]) in streams:
                with contextlib.suppress(CallRefused):  # if it was dropped meanwhile, the part stays
                    streams[stream] = await self._whole(uri)
        exact = value.get("json")
        with contextlib.suppress(ValueError):  # more digits than Python reads
            exact = json.loads(value.get("json_text", "null")) if exact is None else exact
        return Result(
            data["status"], text, **streams, value=exact, value_repr=value.get("repr"), exit_code=data.get("exit_code"), notice=str(data.get("notice", "")),
            error=CodeError(str(error.get("type")), str(error.get("message")), str(error.get("traceback", ""))) if error else None,
            images=tuple(Image(base64.b64decode(block.data), block.mime_type) for block in answer.content if isinstance(block, ImageContent)),
            tool_calls=tuple(data.get("tool_calls") or ()), data=data,
        )


class _Thread:
    """An event loop in its own thread, in which other threads run coroutines."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop, self._pid = asyncio.Event(), os.getpid()

    def start(self) -> None:
        self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
        self._thread = threading.Thread(target=self._main, args=(self._loop,), name="cloister", daemon=True)
        self._thread.start()

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._stop.wait())
            while tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begins a coroutine."""
        reason = "the sandbox is closed"
        if self._loop is None:
            reason = "the sandbox is not open: use 'with', or open()"
        elif os.getpid() != self._pid:
            reason = "this process is a fork of the one that opened the sandbox: open another one here"
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise SandboxError(reason)

    def stop(self) -> None:
        """Ends the thread, and with it all connections. Does nothing in a fork."""
        if self._loop is None or os.getpid() != self._pid:
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Makes a method that runs the coroutine function in the thread. The receivers of output run in the caller's own thread."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        receivers: dict[str, Any] = {name: kwargs[name] for name in ("on_stdout", "on_stderr") if kwargs.get(name)}
        pending: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()

        def take(name: str, text: str) -> None:
            if pending.qsize() < PENDING_MAX:
                pending.put((name, text))

        kwargs.update({name: functools.partial(take, name) for name in receivers})
        future = self._thread.submit(method(self._inner, *args, **kwargs))
        future.add_done_callback(lambda _: pending.put(None))
        try:
            while item := pending.get():
                receivers[item[0]](item[1])
            return future.result()  # type: ignore[no-any-return]
        except concurrent.futures.CancelledError:
            raise SandboxError("the sandbox was closed") from None
        finally:
            future.cancel()  # an exception here, such as KeyboardInterrupt, interrupts the code

    functools.update_wrapper(call, method)
    return call


class Files:
    """The files of a session, as AsyncFiles."""

    def __init__(self, thread: _Thread, inner: AsyncFiles) -> None:
        self._thread, self._inner = thread, inner

    read = _blocking(AsyncFiles.read)
    write = _blocking(AsyncFiles.write)
    list = _blocking(AsyncFiles.list)


class Commands:
    """Programs of the sandbox's image, as AsyncCommands."""

    def __init__(self, thread: _Thread, inner: AsyncCommands) -> None:
        self._thread, self._inner = thread, inner

    run = _blocking(AsyncCommands.run)


class Sandbox:
    """An AsyncSandbox for code without coroutines. It may be used by several threads, whose calls run one after the other."""

    def __init__(
        self, *, profile: str | None = None, image: str | None = None, language: str = "python", url: str | None = None, token: str | None = None,
        session: str | None = None, config: Path | None = None, program: Path | None = None, env: Mapping[str, str] | None = None,
        start_timeout: float = START_SECONDS,
    ) -> None:
        self._set(_Thread(), AsyncSandbox(
            profile=profile, image=image, language=language, url=url, token=token, session=session, config=config, program=program, env=env,
            start_timeout=start_timeout,
        ))

    def _set(self, thread: _Thread, inner: AsyncSandbox, root: Sandbox | None = None) -> None:
        self._thread, self._inner, self._root = thread, inner, root
        self.files, self.commands, self.session = Files(thread, inner.files), Commands(thread, inner.commands), inner.session

    run_code = _blocking(AsyncSandbox.run_code)
    checkpoint = _blocking(AsyncSandbox.checkpoint)
    restore = _blocking(AsyncSandbox.restore)
    _open, _close, _branch = _blocking(AsyncSandbox.open), _blocking(AsyncSandbox.close), _blocking(AsyncSandbox.branch)

    def open(self) -> Sandbox:
        """Starts or reaches the server. `with` does it."""
        if self._thread._loop is None:
            self._thread.start()
            self._end = weakref.finalize(self, self._thread.stop)
        try:
            self._open()
        except BaseException:
            if self._inner._is_closed:
                self._end()
            raise
        return self

    def branch(self, checkpoint: str | None = None) -> Sandbox:
        """Returns a new session that begins with the variables and files of this one, or with the variables of a checkpoint."""
        copy = Sandbox.__new__(Sandbox)
        copy._set(self._thread, self._branch(checkpoint), self)
        return copy

    def close(self) -> None:
        """Ends the session, and the server if this object has started it. A second call does nothing."""
        try:
            with contextlib.suppress(SandboxError):  # closed already, never opened, or a fork
                self._close()
        finally:
            if self._root is None and self._thread._loop is not None:
                self._end()

    def __enter__(self) -> Sandbox:
        return self if self._root else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
