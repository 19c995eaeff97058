"""The sessions of llm-sandbox, run by Cloister: change `from llm_sandbox import …` to `from cloister.llm_sandbox import …` (docs/sdk.md)."""

from __future__ import annotations

import base64
import enum
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, TypeVar

from cloister.sandbox import OnText, Result, Sandbox
from cloister.server import SandboxError

__all__ = [
    "ArtifactSandboxSession", "ConsoleOutput", "ExecutionResult", "FileType", "InteractiveSandboxSession", "LanguageNotSupportedError", "NotOpenSessionError",
    "PlotOutput", "SandboxBackend", "SandboxError", "SandboxSession", "SandboxTimeoutError", "SupportedLanguage", "create_session",
]

WORKDIR = "/sandbox"  # there; here it is /workspace
START = "start"
S = TypeVar("S", bound="SandboxSession")
# Options that choose or show a container, of which there is none, and what holds in any case.
IGNORED = {"client", "commit_container", "enable_plotting", "history_size", "kernel_type", "keep_template", "skip_environment_setup", "stream", "verbose"}
HOLDS = {"cap_drop": None, "detach": None, "network_mode": ("none",), "privileged": (False,), "read_only": None, "security_opt": None, "tty": None}


class SandboxTimeoutError(SandboxError, TimeoutError):
    """The code reached its timeout."""


class NotOpenSessionError(SandboxError):
    """The session was not opened, or is closed."""


class LanguageNotSupportedError(SandboxError):
    """Cloister does not run this language."""


class SupportedLanguage(str, enum.Enum):
    """The languages that run here."""

    PYTHON = "python"
    JAVASCRIPT = "javascript"


class SandboxBackend(str, enum.Enum):
    """The backends of llm-sandbox. Each stands for Cloister."""

    DOCKER, KUBERNETES, PODMAN, MICROMAMBA = "docker", "kubernetes", "podman", "micromamba"


class FileType(enum.Enum):
    """The types of plots."""

    PNG, JPEG, GIF, WEBP = "png", "jpeg", "gif", "webp"


@dataclass(frozen=True)
class PlotOutput:
    """A picture that the code showed."""

    format: FileType
    content_base64: str
    width: int | None = None
    height: int | None = None
    dpi: int | None = None


@dataclass(frozen=True)
class ConsoleOutput:
    """What code or a command has printed, and its exit code."""

    exit_code: int = 0
    stderr: str = ""
    stdout: str = ""

    @property
    def text(self) -> str:
        """The old name of stdout."""
        return self.stdout

    def success(self) -> bool:
        """Returns whether the exit code is 0."""
        return self.exit_code == 0

    def to_json(self, include_plots: bool = False) -> str:
        """Returns the result as JSON."""
        members = asdict(self) | ({"plots": [asdict(p) | {"format": p.format.value} for p in getattr(self, "plots", ())]})
        return json.dumps({name: value for name, value in members.items() if name != "plots" or include_plots}, indent=2)


@dataclass(frozen=True)
class ExecutionResult(ConsoleOutput):
    """A ConsoleOutput with the plots of the code."""

    plots: list[PlotOutput] = field(default_factory=list)


class SandboxSession:
    """A sandbox whose files last while it is open; each run() of Python begins with new variables.

    Options of Cloister's Sandbox (`profile`, `url`, `token`, `config`, `program`, `env`) are taken too. `image` is a name of Cloister's image store.
    `backend` and options that only choose a container are ignored; others that Cloister cannot keep are refused.
    """

    _fresh = True

    def __init__(
        self, backend: str | None = None, image: str | None = None, *, lang: str = "python", libraries: Sequence[str] | None = None, workdir: str | None = WORKDIR,
        runtime_configs: dict[str, Any] | None = None, execution_timeout: float | None = None, default_timeout: float | None = None,
        profile: str | None = None, url: str | None = None, token: str | None = None, config: str | None = None, program: str | None = None,
        env: dict[str, str] | None = None, **others: Any,
    ) -> None:
        self.lang = str(getattr(lang, "value", lang)).lower()
        if self.lang not in [language.value for language in SupportedLanguage]:
            raise LanguageNotSupportedError(f"lang {self.lang!r}: Cloister runs {', '.join(language.value for language in SupportedLanguage)}")
        for name in sorted(set(others) - IGNORED):
            if others[name] not in (None, False):
                raise ValueError(f"{name} has no meaning here: see the table of docs/sdk.md")
        for name, value in (runtime_configs or {}).items():
            if name not in HOLDS or (HOLDS[name] or (value,)).count(value) == 0:
                raise ValueError(f"runtime_configs: {name} has no meaning here: set limits or network of a profile in the config, and pass profile=")
        self._workdir, self._timeout, self._libraries, self._runs = workdir or WORKDIR, execution_timeout or default_timeout, list(libraries or ()), 0
        self._options: dict[str, Any] = {"image": image, "profile": profile, "url": url, "token": token, "config": config, "program": program, "env": env}
        self._sandbox: Sandbox | None = None

    @property
    def is_open(self) -> bool:
        """Whether the session is open."""
        return self._sandbox is not None

    def open(self) -> None:
        """Starts the sandbox. `with` does it."""
        if self._sandbox:
            return
        sandbox = Sandbox(language=self.lang, **self._options)
        sandbox.open()
        try:
            if self._start:
                sandbox.checkpoint(self._start)
            self._sandbox = sandbox
            self.install(self._libraries)
        except BaseException:
            self._sandbox = None
            sandbox.close()
            raise

    def close(self) -> None:
        """Ends the sandbox. A second call does nothing; open() starts another one."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox:
            sandbox.close()

    def __enter__(self: S) -> S:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(
        self, code: str, libraries: Sequence[str] | None = None, timeout: float | None = None, *, clear_plots: bool = False,
        on_stdout: OnText | None = None, on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Adds the libraries, runs the code, and returns its output. Raises SandboxTimeoutError at the timeout."""
        self.install(libraries)
        self._runs += 1
        result = self._open.run_code(code, timeout=timeout or self._timeout, restore=self._start, on_stdout=on_stdout, on_stderr=on_stderr)
        if result.status == "timeout":
            raise SandboxTimeoutError(result.notice.partition(";")[0])
        return self._output(result)

    def install(self, libraries: Sequence[str] | None = None) -> None:
        """Adds packages, where `packages` of the config allows it."""
        if libraries:
            result = self._open.run_code("", dependencies=list(libraries), restore=self._start)
            if result.error:
                raise SandboxError(f"{', '.join(libraries)}: {result.error.message}")
            if self._start:
                self._open.checkpoint(self._start)

    def execute_command(self, command: str, workdir: str | None = None) -> ConsoleOutput:
        """Runs a command by the shell."""
        if not command:
            raise ValueError("the command is empty")
        done = self._open.commands.run(command, cwd=self._inside(workdir) if workdir else None, timeout=self._timeout)
        return ConsoleOutput(done.exit_code, done.stderr, done.stdout)

    def execute_commands(self, commands: Sequence[str | tuple[str, str | None]], workdir: str | None = None) -> ConsoleOutput:
        """Runs commands until one fails; returns the output of the last one that ran."""
        output = ConsoleOutput()
        for command in commands:
            text, place = (command, workdir) if isinstance(command, str) else command
            output = self.execute_command(text, place)
            if output.exit_code:
                break
        return output

    def copy_to_runtime(self, src: str | os.PathLike[str], dest: str) -> None:
        """Copies a file, or a directory without its links, from the host into the sandbox."""
        source, target = Path(src), PurePosixPath(self._inside(dest + Path(src).name if dest.endswith("/") and not Path(src).is_dir() else dest))
        if not source.is_dir():
            return self._open.files.write(str(target), source.read_bytes())
        for path in sorted(source.rglob("*")):
            if path.is_file() and not path.is_symlink():
                self._open.files.write(str(target / path.relative_to(source)), path.read_bytes())

    def copy_from_runtime(self, src: str, dest: str | os.PathLike[str]) -> None:
        """Copies a file from the sandbox to the host."""
        data = self._open.files.read(self._inside(src))
        target = Path(dest)
        target = target / PurePosixPath(src).name if target.is_dir() else target
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    @property
    def _start(self) -> str | None:
        """The checkpoint from which each run() begins."""
        return START if self._fresh and self.lang == "python" else None

    @property
    def _open(self) -> Sandbox:
        if not self._sandbox:
            raise NotOpenSessionError("the session is not open: use 'with', or open()")
        return self._sandbox

    def _inside(self, path: str) -> str:
        """Returns a path below the working directory as one relative to /workspace."""
        return os.path.relpath(path, self._workdir) if PurePosixPath(path).is_relative_to(self._workdir) else path

    def _output(self, result: Result) -> ExecutionResult:
        """Returns the result as a process would have ended."""
        code = {"ok": 0, "exit": result.exit_code or 0, "oom": 137, "killed": 137, "cancelled": 130}.get(result.status, 1)
        stderr = result.stderr + (result.error.traceback or result.error.message if result.error else "")
        if code == 137:
            stderr += f"cloister: {result.notice}\n"
        plots = [PlotOutput(FileType(i.mime_type.rpartition("/")[2]), base64.b64encode(i.data).decode()) for i in result.images]
        return ExecutionResult(code, stderr, result.stdout, plots)


class ArtifactSandboxSession(SandboxSession):
    """A SandboxSession. The plots of a run are `plots` of its result, in both."""


class InteractiveSandboxSession(SandboxSession):
    """A SandboxSession whose variables last from run to run. The value of the last expression is printed, as IPython does it."""

    _fresh = False

    def __init__(self, *, lang: str = "python", timeout: float | None = 300.0, max_memory: str | None = None, **options: Any) -> None:
        if max_memory not in (None, "1GB"):  # 1GB is the default there
            raise ValueError("max_memory has no meaning here: set limits.memory of a profile in the config, and pass profile=")
        super().__init__(lang=lang, execution_timeout=timeout, **options)

    def _output(self, result: Result) -> ExecutionResult:
        output = super()._output(result)
        shown = "" if result.value_repr is None else f"Out[{self._runs}]: {result.value_repr}\n"
        return ExecutionResult(output.exit_code, output.stderr, output.stdout + shown, output.plots)


create_session = SandboxSession
