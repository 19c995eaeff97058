"""The connection of the client to a server: start, requests, errors, end.

The protocol is that of the package `mcp`. A connection lives in one task, because `mcp` must leave its scopes in the task that
entered them; the tasks of callers only send requests over it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

try:
    from mcp import Client, MCPError, StdioServerParameters, stdio_client
    import httpx2
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, LoggingMessageNotificationParams
except ImportError as missing:
    raise ImportError(f"{missing}: the client of cloister needs the package mcp, 2.3 or later: pip install 'cloister[sdk]'") from None

T = TypeVar("T")
OnStream = Callable[[str, str], None]

REVISION = "2026-07-28"  # of MCP
SILENCE_SECONDS = 60.0  # the server reports progress every 5 s: docs/mcp.md
TEXT_MAX = 65536

log = logging.getLogger("cloister")


class SandboxError(RuntimeError):
    """Something other than the code failed. The classes below say what."""


class ServerNotFound(SandboxError):
    """The program could not be started, or nothing answers at the url."""


class ServerTooOld(SandboxError):
    """The server lacks what this client needs, or is another program."""


class ServerLost(SandboxError):
    """The server ended or answers no more. Variables and files of the session are lost with it."""


class CallRefused(SandboxError):
    """The server refused the call, and nothing was run."""


def check_sendable(arguments: Any) -> None:
    """Raises ValueError or TypeError for what JSON cannot have, because that would end the connection."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text with half of a surrogate pair cannot be sent: {error}") from None


class Server:
    """A connection to a server, and the listeners of its sessions by name."""

    def __init__(self, command: list[str], env: Mapping[str, str] | None, url: str | None, token: str | None) -> None:
        self.url, self.listeners = url, dict[str, OnStream]()
        self._command, self._env, self._token = command, env, token
        self._name, self._log_tail = command[0] if url is None else url, b""
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()

    async def open(self, tool: str, timeout: float) -> None:
        """Connects; returns when the server has answered and has the tool."""
        ready: asyncio.Future[None] = self._loop.create_future()
        self._task = asyncio.create_task(self._serve(tool, ready))
        try:
            if not (await asyncio.wait({ready}, timeout=timeout))[0]:
                raise ServerLost(f"{self._name}: no answer for {timeout:g} s at the start{self._last_words()}")
            ready.result()
        except BaseException:
            self._task.cancel()
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the connection, and the server if it is a child."""
        self._stop.set()
        if self._task:
            await asyncio.wait({self._task})

    async def _serve(self, tool: str, ready: asyncio.Future[None]) -> None:
        """The task of the connection. After the start, the requests report what fails."""
        failure: BaseException = SandboxError("the start was cancelled")
        try:
            async with self._transport() as transport, Client(transport, cache=None, logging_callback=self._on_log) as client:
                await self._check(client, tool)
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            failure = self.explain(error)
        finally:
            self._client = None
            if not ready.done():
                ready.set_exception(failure)
                ready.exception()

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        if self.url is not None:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http:
                yield streamable_http_client(self.url, http_client=http)
            return
        parameters = StdioServerParameters(command=self._command[0], args=self._command[1:], env={**os.environ, **(self._env or {})})
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._loop.add_reader(reader, self._read_log, reader)
        try:
            with os.fdopen(writer, "w") as errors:
                yield stdio_client(parameters, errlog=errors)
        finally:
            self._loop.remove_reader(reader)
            os.close(reader)

    def _read_log(self, reader: int) -> None:
        """Logs what the server writes to standard error, and keeps the end of it for messages."""
        text = os.read(reader, TEXT_MAX)
        if not text:
            self._loop.remove_reader(reader)
        self._log_tail = (self._log_tail + text)[-2000:]
        for line in text.decode(errors="replace").splitlines():
            log.info("%s", line)

    async def _check(self, client: Client, tool: str) -> None:
        """Refuses a server that is not Cloister, or lacks what this client uses."""
        if client.protocol_version < REVISION:
            # The client asks for less if a server that starts slowly has not answered its first request in 10 s.
            with contextlib.suppress(MCPError, RuntimeError, ValueError):
                await client.session.discover()
        info = client.server_info
        name = f"the server ({info.name} {info.version})" if info else "the server"
        if client.protocol_version < REVISION:
            raise ServerTooOld(f"{name} has MCP {client.protocol_version}, and {REVISION} is needed: update Cloister")
        tools = {t.name: t.input_schema.get("properties", {}) for t in (await client.list_tools()).tools}
        if tool not in tools or not {"code", "session", "timeout"} <= set(tools[tool]):
            raise ServerTooOld(f"{name} has no tool {tool} with code, session and timeout: it is not Cloister, too old, or its profile has another language")

    async def _on_log(self, params: LoggingMessageNotificationParams) -> None:
        data = params.data if isinstance(params.data, dict) else {}
        listener = self.listeners.get(str(data.get("session")))
        if listener and data.get("stream") in ("stdout", "stderr"):
            gap = f"[{data['skipped_bytes']} bytes are not shown here]\n" if data.get("skipped_bytes") else ""
            listener(data["stream"], gap + str(data.get("text", ""))[:TEXT_MAX])

    async def request(self, send: Callable[[Client, Any], Coroutine[Any, Any, T]]) -> T:
        """Awaits a request. Fails if the server is silent meanwhile, and reports each failure as a SandboxError."""
        client = self._client
        if self._stop.is_set():
            raise SandboxError("the sandbox is closed")
        if client is None:
            raise ServerLost(f"{self._name}: the server has ended{self._last_words()}")
        if asyncio.get_running_loop() is not self._loop:
            raise SandboxError("this AsyncSandbox was opened in another event loop: use it there, or use Sandbox")
        silent = 0.0

        async def heard(*_: object) -> None:
            nonlocal silent
            silent = 0.0

        task = asyncio.ensure_future(send(client, heard))
        try:
            # Counted in steps, so that a process that was stopped does not find its server silent.
            step = SILENCE_SECONDS / 12
            while not (await asyncio.wait({task}, timeout=step))[0]:
                silent += step
                if silent >= SILENCE_SECONDS:
                    raise ServerLost(f"{self._name}: no sign of life for {silent:g} s{self._last_words()}")
            return task.result()
        except Exception as error:
            raise self.explain(error) from None
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=10)

    def explain(self, error: BaseException) -> SandboxError:
        """Returns the error as a person can use it."""
        while isinstance(inner := getattr(error, "exceptions", None), tuple) and inner:  # groups of errors
            error = inner[0]
        if isinstance(error, SandboxError):
            return error
        if self._stop.is_set():
            return SandboxError("the sandbox was closed")
        if isinstance(error, OSError) and self.url is None and not self._client:
            return ServerNotFound(f"{self._name}: {error.strerror or error}: install Cloister, or pass program=")
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | OSError):
            return (ServerLost if self._client else ServerNotFound)(f"{self._name}: {error or type(error).__name__}")
        if isinstance(error, MCPError) and error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
            return ServerLost(f"{self._name}: the server has ended{self._last_words()}")
        if isinstance(error, MCPError):
            hint = " (is token= missing or wrong?)" if self.url and error.message == "Server returned an error response" else ""
            return (CallRefused if self._client else ServerNotFound)(f"{self._name}: {error.message}{hint}")
        return SandboxError(f"{self._name}: the answer is not one of Cloister: {type(error).__name__}: {str(error)[:500]}")

    def _last_words(self) -> str:
        text = self._log_tail.decode(errors="replace").strip()
        return f"; its last words: {text}" if text else ""
