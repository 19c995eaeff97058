"""How latency grows: with tools, memory of a session and of the template, results, parallel calls.

Each curve is a list of points {x, and lines of it in milliseconds}; a point that could not be reached says why.
"""
import os
import shutil
import subprocess
import tempfile
import time

from measure import PYTHON, Cloister, Failure, Mcp, request, say, summary
from rows import TOOL_CALLS


def median(values):
    return summary(values)["median"]


def echo_server(bench, *arguments):
    return {"mcpServers": {"echo": {"command": PYTHON, "args": ["-I", bench.script("echo.py"), *arguments]}}}


def tools(bench, xs, calls):
    """One upstream server with a growing number of tools."""
    for x in xs:
        with Cloister(bench, echo_server(bench, str(x))) as server:
            _, age, _ = server.run("await tools['echo0'](message='x')")
            warm = server.burst_ok(calls, "1+1")
            _, _, took = server.run(TOOL_CALLS.format(tool=f"echo{x - 1}", count=calls))
            search = server.burst_ok(3, "len(_search('echo'))")
            fresh = server.burst_ok(3, "1+1", "fresh-%d")
            first = server.burst_ok(3, "len(_search('echo'))", "search-%d")
            yield {"x": x, "start to a tool's result": age / 1e6, "warm call": median(warm),
                   "tool call": median(took), "_search": median(search), "fresh session": median(fresh),
                   "fresh session, _search": median(first)}


def session_heap(bench, xs, calls):
    """A session that holds a growing amount of touched memory."""
    with Cloister(bench) as server:
        for x in xs:
            server.run(f"held = bytearray(b'x') * ({x} << 20); None", f"heap-{x}")
            yield {"x": x, "warm call": median(server.burst_ok(calls, "1+1", f"heap-{x}"))}


def template_heap(bench, xs, calls):
    """A template whose preloaded module holds memory, in MiB; each session is a copy of the template."""
    # Not below /tmp: a sandbox mounts its own there.
    place = tempfile.mkdtemp(prefix="cloister-bench-", dir="/var/tmp")
    venv, store = os.path.join(place, "venv"), os.path.join(place, "store")
    before = dict(bench.environment)
    bench.environment["CLOISTER_IMAGE_STORE"] = store
    try:
        yield from template_points(bench, xs, calls, venv)
    finally:
        bench.environment = before
        shutil.rmtree(place, ignore_errors=True)


def template_points(bench, xs, calls, venv):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True, capture_output=True)
    site = subprocess.run([os.path.join(venv, "bin", "python"), "-c",
                           "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          check=True, capture_output=True, text=True).stdout.strip()
    for x in xs:
        with open(os.path.join(site, f"bench_heap_{x}.py"), "w", encoding="utf-8") as f:
            f.write(f"held = bytearray(b'x') * ({x} << 20)\n")
    built = subprocess.run([bench.cloister, "image", "build", "--python", venv, "--name", "bench-heap", "-q"], capture_output=True, text=True, check=False, env=bench.environment)
    if built.returncode != 0:
        raise Failure(f"image build: {built.stderr.strip()[:300]}")
    for x in xs:
        with Cloister(bench, {"image": "bench-heap", "profile": "heap", "pool": 0,
                              "profiles": {"heap": {"preload": [f"bench_heap_{x}"]}}}) as server:
            server.run("1+1")
            time.sleep(0.3)
            fresh = [server.burst_ok(1, "1+1", "fresh-%d")[0] for _ in range(max(3, calls // 10))]
            yield {"x": x, "fresh session": median(fresh), "warm call": median(server.burst_ok(calls, "1+1"))}


def results(bench, xs, calls):
    """A tool's result of a growing size, called directly and from the sandbox."""
    with Cloister(bench, echo_server(bench)) as server, Mcp(bench, [PYTHON, "-I", bench.script("echo.py")]) as direct:
        server.run("1+1")
        for x in xs:
            count = max(2, min(calls, 64_000_000 // x // 4))
            alone = direct.burst(count, request("tools/call", {"name": "blob", "arguments": {"bytes": x}}))
            code = TOOL_CALLS.format(tool="blob", count=count).replace("message='x'", f"bytes={x}")
            _, _, took = server.run(code)
            yield {"x": x, "direct": median(alone), "tool call": median(took)}


def parallel(bench, xs, calls):
    """A growing number of parallel calls of one tool from one cell: the total time, and that divided by the number."""
    code = """import asyncio, time
_call = tools['echo']
_t = time.perf_counter_ns()
_all = await asyncio.gather(*(_call(message=str(i)) for i in range({x})))
_took = time.perf_counter_ns() - _t
assert _all == [str(i) for i in range({x})] or [str(v) for v in _all] == [str(i) for i in range({x})]
_took"""
    with Cloister(bench, echo_server(bench)) as server:
        server.run("await tools['echo'](message='x')")
        for x in xs:
            took = [server.run(code.replace("{x}", str(x)))[2] for _ in range(max(2, min(calls, 1000 // x)))]
            yield {"x": x, "a call": median(took) / x, "all of them": median(took)}


# name: (measure, points, points when quick, what x is, title)
ALL = {
    "tools": (tools, (10, 1000, 10000), (10, 100), "tools", "Tools of the upstream servers"),
    "session-heap": (session_heap, (1, 16, 64, 256), (1, 8), "MiB held by the session", "Memory of a session"),
    "template-heap": (template_heap, (1, 16, 64, 256), (1, 8), "MiB held by the template", "Memory of the template"),
    "results": (results, (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 64_000_000), (1_000, 100_000),
                "bytes of the result", "Size of a tool's result"),
    "parallel": (parallel, (1, 10, 100, 1000, 10000), (1, 10), "calls at once", "Parallel calls"),
}


def measure(bench, name, quick):
    function, points, few, axis, title = ALL[name]
    curve = {"title": title, "axis": axis, "points": []}
    say(f"growth: {name}")
    try:
        for point in function(bench, few if quick else points, 5 if quick else 50):
            curve["points"].append(point)
    except (Failure, OSError, ValueError, subprocess.SubprocessError) as error:
        done = len(curve["points"])
        curve["stopped"] = f"at {(few if quick else points)[done]}: {error}"
        say(f"growth: {name} stopped {curve['stopped']}")
    return curve
