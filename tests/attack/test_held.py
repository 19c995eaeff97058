"""Class 154: code runs in a session that stands still while a person decides, or moves the decision."""

import os
import sys
import threading
import time

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "attack"))
import test_asks  # noqa: E402
from test_leftovers import TIMERS  # noqa: E402
from test_rpc import CHANNEL  # noqa: E402

ASK = f"(await mcp_faulty.ask(method='elicitation/create', params={test_asks.FORM}))['result']['action']"
HELD = 0.8  # s until the person answers
# note() marks each hundredth of a second in which code runs, in a file that all processes have.
NOTE = """
import os, signal, time
marks, began, last = os.open("/tmp/marks", os.O_RDWR | os.O_CREAT | os.O_TRUNC), time.monotonic(), -1
def note():
    global last
    at = int((time.monotonic() - began) * 100)
    if at != last:
        last = at
        os.pwrite(marks, b"x", at)
def spin():
    while True: note()
"""
RESULT = f"""
asked = time.monotonic() - began
answer = {ASK}
answered = time.monotonic() - began
[answer, asked, answered, [i for i, c in enumerate(os.pread(marks, 10000, 0)) if c]]
"""
ATTACKS = {
    "computes": "for _ in range(4):\n    if os.fork() == 0: spin()\n",
    "continues others": """
for _ in range(8):
    if os.fork() == 0:
        while True:
            note()
            os.kill(-1, signal.SIGCONT)
""",
    "forks": """
for _ in range(2):
    if os.fork() == 0:
        while True:
            note()
            if os.fork() != 0: os._exit(0)
""",
    "timers": TIMERS + "if os.fork() == 0:\n    timers()\n    spin()\n",
    "threads": TIMERS + """
import threading
if os.fork() == 0:
    threading.Thread(target=lambda: [timers(), spin()]).start()
    libc.syscall(60, 0)
""",
    # The broker reads the pipe: it can be written again, and the kernel sends the signal that the code has chosen.
    "pipe": """
import fcntl
if os.fork() == 0:
    signal.signal(signal.SIGCONT, lambda *_: note())
    fcntl.fcntl(1, 10, signal.SIGCONT)
    fcntl.fcntl(1, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    while True:
        note()
        try: os.write(1, b"x" * 4096)
        except BlockingIOError: pass
""",
    # The child of vfork() runs while its parent cannot be stopped.
    "vfork": """
import subprocess
if os.fork() == 0:
    while True:
        note()
        subprocess.run(["/bin/true"], check=False)
""",
    # Tasks that call without end: the event loop does not settle.
    "calls": """
import asyncio
async def calls():
    while True:
        note()
        await mcp_faulty.echo(n=1)
for _ in range(20): asyncio.ensure_future(calls())
""",
    # It answers each HOLD that it may get before it gets it: a violation.
    "settles early": CHANNEL + "channel.sendall(frame(0x4d, 1 << 40, {}))\n",
}
ENDS = ("its code continued its own processes while a person was being asked", "SETTLED without a HOLD")


class Held(test_asks.Legacy):
    SERVERS = {"faulty": test_asks.SERVERS["faulty"]}
    CONFIG = {"pool": 0}

    def test_what_tries_to_run(self):
        def person(message):
            time.sleep(HELD)
            return test_asks.ANSWERS["elicitation/create"]

        self.server.answers["elicitation/create"] = person
        for name, code in {"control": "", **ATTACKS}.items():
            with self.subTest(name):
                cell = self.cell(NOTE + code + "time.sleep(0.2)\n" + RESULT, session=name.replace(" ", "-"), timeout=30)
                if cell["status"] == "killed" and name != "control":
                    self.assertTrue(any(end in str(cell) for end in ENDS), cell)
                    self.assertTrue(name == "settles early" or not harness.BOUNDED, cell)
                    continue
                self.assertEqual(cell["status"], "ok", cell)
                answer, asked, answered, marks = cell["value"]["json"]
                self.assertEqual(answer, "accept")
                self.assertGreater(answered - asked, HELD - 0.05)
                # The longest time in which nothing ran: 200 ms to settle and the stop come before it.
                at = [asked * 100, *(m for m in marks if asked * 100 < m < answered * 100), answered * 100]
                quiet = max(b - a for a, b in zip(at, at[1:]))
                self.assertGreater(quiet, HELD * 100 - 35 * harness.SLOW, (asked, answered, marks))
                self.assertTrue(name == "control" or marks)
                self.server.ask("tools/call", {"name": "run_python", "arguments": {"session": name.replace(" ", "-"), "code": "1", "reset": True}})

    def test_a_session_beside_it(self):
        """A session that stands still does not delay another one."""
        asking, answers = threading.Event(), threading.Event()

        def person(message):
            asking.set()
            answers.wait(harness.PATIENCE)
            return test_asks.ANSWERS["elicitation/create"]

        self.addCleanup(answers.set)
        self.server.answers["elicitation/create"] = person
        call = self.server.start_call(NOTE + ATTACKS["computes"] + RESULT, session="stands")
        self.assertTrue(asking.wait(harness.PATIENCE))
        for _ in range(20):
            self.assertEqual(self.value("1 + 1", session="beside"), 2)
        answers.set()
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "ok")


if __name__ == "__main__":
    harness.main()
