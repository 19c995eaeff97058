"""Sessions that stand still while a person decides (docs/standing-still.md): a server's question to a person who takes a while."""

import json
import threading
import time

import harness
import rawmcp
import test_asks

FORM = test_asks.FORM
ASK = f"mcp_faulty.ask(method='elicitation/create', params={FORM})"
SYNC = f"mcp_faulty.ask.sync(method='elicitation/create', params={FORM})"
ASK_JS = f"mcp_faulty.ask({{method: 'elicitation/create', params: {json.dumps(FORM)}}})"
ANSWER = test_asks.ANSWERS["elicitation/create"]
COUNTER = """
import threading, time
n, longest, ends = 0, 0, threading.Event()
def count():
    global n, longest
    before, done = time.monotonic(), False
    while not done:
        n += 1
        done, now = ends.is_set(), time.monotonic()  # it also measures when it is stopped here, and all has ended when it continues
        longest, before = max(longest, now - before), now
counter = threading.Thread(target=count, daemon=True)
counter.start()
"""
# A timer of the kernel that continues the process after one second.
CONTINUES = """
import ctypes, signal
class Time(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("every", "every_ns", "at", "at_ns")]
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_long), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
libc, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
made = libc.timer_create(1, ctypes.byref(Event(signal=signal.SIGCONT)), ctypes.byref(timer))
made = made or libc.timer_settime(timer, 0, ctypes.byref(Time(at=1)), None)
assert made == 0, ctypes.get_errno()
"""


class Case(test_asks.Legacy):
    """Cells whose session stands still until the test answers for the person."""

    SERVERS = {"faulty": test_asks.SERVERS["faulty"]}
    CONFIG = {"pool": 1, "profiles": {"js": {"language": "javascript", "agent": True}}}

    def setUp(self):
        super().setUp()
        self.asking = threading.Event()  # the person has the question
        self.answers = threading.Event()  # and answers
        self.addCleanup(self.answers.set)
        self.server.answers["elicitation/create"] = self.person

    def person(self, message):
        self.asking.set()
        self.answers.wait(harness.PATIENCE)
        return ANSWER

    def begin(self, code, **arguments):
        """Starts a cell. Returns once its session stands still."""
        call = self.server.start_call(code, session=self.session, **arguments)
        self.assertTrue(self.asking.wait(harness.PATIENCE))
        self.wait_running(state="held")
        return call

    def end(self, call, status="ok"):
        self.answers.set()
        cell = call.result(harness.PATIENCE)["structuredContent"]
        self.assertEqual(cell["status"], status, cell)
        return cell

    def told(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        return next(s for s in harness.message_of(done.stdout)[0]["sessions"] if s["name"] == self.session)

    def after(self, seconds, call, status="ok"):
        time.sleep(seconds)
        return self.end(call, status)


class Held(Case):
    def test_the_clock_of_event_loops(self):
        call = self.begin(f"""
import asyncio, time
loop, told = asyncio.get_running_loop(), []
by_loop, by_clock = loop.time(), time.monotonic()
loop.call_later(1.5, told.append, "timer")
sleeper = asyncio.create_task(asyncio.sleep(1.2, "slept"))
async with asyncio.timeout(2):
    answer, other = await asyncio.gather({ASK}, mcp_faulty.echo(n=1))
by_loop, by_clock = loop.time() - by_loop, time.monotonic() - by_clock
early = sleeper.done(), told == ["timer"]
[answer["result"]["action"], other, by_clock > 3, by_loop < by_clock - 2.5, *early, await asyncio.wait_for(sleeper, 1.8)]
""")
        value = self.after(3, call)["value"]["json"]
        self.assertEqual(value, ["accept", {"n": 1}, True, True, False, False, "slept"])
        # A loop that the code makes itself, and a thread that waits without one.
        self.asking.clear()
        self.answers.clear()
        call = self.begin(f"""
async def main():
    async with asyncio.timeout(1):
        return (await {ASK})["result"]["action"]
asyncio.run(main())
""", timeout=1)
        self.assertEqual(self.after(2, call)["value"]["json"], "accept")
        self.asking.clear()
        self.answers.clear()
        call = self.begin(f"""
async with asyncio.timeout(1):
    answer = await asyncio.to_thread(lambda: {SYNC}["result"]["action"])
answer
""")
        self.assertEqual(self.after(2, call)["value"]["json"], "accept")

    def test_nothing_runs(self):
        call = self.begin(f"{COUNTER}\nr = await {ASK}\nends.set()\ncounter.join()\n[n > 0, longest > 1.5]")
        time.sleep(1)  # it is stopped by now
        before = self.told()
        time.sleep(1)
        now = self.told()
        self.assertEqual((now["cpu_ms"], now["state"]), (before["cpu_ms"], "held"))
        # Files and code of the owner: busy, at once.
        began = time.monotonic()
        with self.assertRaisesRegex(Exception, "stands still while a person decides"):
            self.server.ask("resources/read", {"uri": f"cloister://sessions/{self.session}/files/x"})
        done = self.run_cloister("exec", self.session, "-c", "1", "--wait", "20", "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertIn("is busy", done.stderr.decode())
        self.assertLess(time.monotonic() - began, 8 * harness.SLOW)
        look = {"name": "run_python", "arguments": {"session": self.session, "wait": 0}}
        self.assertEqual(self.server.ask("tools/call", look)["structuredContent"]["status"], "running")
        # Other sessions run.
        self.assertEqual(self.value("6 * 7", session=self.session + "-2"), 42)
        self.assertEqual(self.end(call, "running")["status"], "running")
        look["arguments"]["wait"] = harness.PATIENCE
        self.assertEqual(self.server.ask("tools/call", look)["structuredContent"]["value"]["json"], [True, True])

    def test_an_interrupt(self):
        call = self.begin(f"kept = 1\nawait {ASK}")
        began = time.monotonic()
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0.1)\nkept + 1", interrupt=True), 2)
        self.assertLess(time.monotonic() - began, harness.PATIENCE)
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "cancelled")

    def test_the_end_of_the_session(self):
        call = self.begin(f"await {ASK}")
        done = self.run_cloister("sessions", "end", self.session, "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "killed")
        self.assertEqual(self.value("1 + 1"), 2)

    def test_code_that_continues_itself(self):
        call = self.begin(f"{CONTINUES}\n(await {ASK})['result']['action']")
        time.sleep(1.5)
        if harness.BOUNDED:
            # A control group does not let it.
            self.assertEqual(self.end(call)["value"]["json"], "accept")
            return
        cell = call.result(harness.PATIENCE)["structuredContent"]
        self.assertEqual(cell["status"], "killed", cell)
        self.assertIn("its code continued its own processes while a person was being asked", json.dumps(cell))

    @harness.needs_node
    def test_timers_of_javascript(self):
        call = self.begin(f"""
const told = [], began = performance.now();
setTimeout(() => told.push("late"), 1500);
setTimeout(() => told.push("later"), 2000);
const every = setInterval(() => told.push("each"), 900);
const answer = await {ASK_JS};
const passed = performance.now() - began, early = told.length;
await new Promise((resolve) => setTimeout(resolve, 1700));
clearInterval(every);
console.log(JSON.stringify([answer.result.action, passed > 2000, early, told]));
""", tool="run_javascript")
        action, has_passed, early, told = json.loads(self.after(2.2, call)["stdout"])
        self.assertEqual((action, has_passed, early), ("accept", True, 0))
        self.assertEqual(told[:2], ["each", "late"])


if __name__ == "__main__":
    harness.main()
