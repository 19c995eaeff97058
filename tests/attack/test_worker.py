"""Classes 119 to 126: code that does not stop, and objects that a session leaves for the next one."""

import os

import harness
import rawmcp


class Stubborn(rawmcp.ServerCase):
    # No case ends by itself. {} runs after the interrupt was taken away.
    CASES = {
        "catches everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "ignores the signal": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "blocks the signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        "stays in C": "from itertools import repeat\nsum(repeat(1))",
        "joins a thread": "import threading\nt = threading.Thread(target=lambda: [None for _ in iter(int, 1)]); t.start()\nwhile True:\n    try: t.join()\n    except BaseException: pass",
        "a finalizer": "class A:\n    def __del__(self):\n        while True:\n            try:\n                while True: pass\n            except BaseException: pass\na = A()\ndel a",
        "at exit": "import atexit\ndef f():\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass\natexit.register(f)\natexit._run_exitfuncs()",
        "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    }

    def test_each_is_ended_and_said_to_be(self):
        """119, 120, 126. The control is a plain loop, which is interrupted and keeps its state."""
        self.ok("x = 1", session="control")
        calls = {name: self.server.start_call(code, session=name.replace(" ", "-"), timeout=1) for name, code in self.CASES.items()}
        for name, call in calls.items():
            cell = call.result(harness.PATIENCE)["structuredContent"]
            self.assertEqual((cell["status"], cell["state"] == "kept"), ("timeout", False), (name, cell))
        # Beside eight other sessions an emulated processor may be too slow to interrupt it within the time limit.
        cell = self.cell("while True: pass", session="control", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        self.assertEqual(self.value("x", session="control"), 1)
        # A session that was ended can be used again, from the start.
        self.assertEqual(self.value("1", session="stays-in-C"), 1)

    def test_nothing_is_left_for_another_session(self):
        """121. The control is the session itself."""
        leave = """
import builtins, json, os, socket, sys, threading, types
builtins.attack_mark = json.attack_mark = 1
sys.modules['attack_module'] = types.ModuleType('attack_module')
os.environ['ATTACK_MARK'] = '1'
for folder in ('/tmp', '/workspace', '/dev/shm'):
    with open(f'{folder}/attack-mark', 'w') as f: f.write('1')
os.chdir('/tmp')
thread = threading.Thread(target=threading.Event().wait, name='attack', daemon=True); thread.start()
attack_socket = socket.socket(socket.AF_UNIX); attack_socket.bind('\\0attack'); attack_socket.listen()
sys.setrecursionlimit(4321)
"""
        look = """
import builtins, json, os, socket, sys, threading
s = socket.socket(socket.AF_UNIX)
[hasattr(builtins, 'attack_mark'), hasattr(json, 'attack_mark'), 'attack_module' in sys.modules, 'ATTACK_MARK' in os.environ,
 *[os.path.exists(f'{f}/attack-mark') for f in ('/tmp', '/workspace', '/dev/shm')], os.getcwd() != '/workspace',
 any(t.name == 'attack' for t in threading.enumerate()), s.connect_ex('\\0attack') == 0, sys.getrecursionlimit() == 4321]
"""
        self.ok(leave, session="leaves")
        self.assertEqual(self.value(look, session="looks"), [False] * 11)
        self.assertEqual(self.value(look, session="leaves"), [True] * 11)

    def test_randomness_differs(self):
        """122. Two sessions of one template; within a session a copied state does repeat."""
        code = "import os, random, secrets, uuid, tempfile\n[random.random(), secrets.token_hex(8), str(uuid.uuid4()), os.urandom(8).hex(), next(tempfile._get_candidate_names())]"
        first, second = (self.value(code, session=name) for name in ("one", "two"))
        self.assertEqual([a for a, b in zip(first, second) if a == b], [])
        self.assertTrue(self.value("import random\nstate = random.getstate()\na = random.random()\nrandom.setstate(state)\na == random.random()"))

    def test_names_are_not_the_boundary(self):
        """123. Code has all of Python, and it helps nothing: the control is that each of these works."""
        code = """
import ctypes, gc, os, subprocess, sys
found = [eval('1 + 1') == 2, bool([c for c in ().__class__.__base__.__subclasses__()]), sys._getframe() is not None, len(gc.get_objects()) > 0,
         ctypes.CDLL(None).getpid() == os.getpid(), subprocess.run(['/bin/sh', '-c', 'exit 7']).returncode == 7]
refused = []
for path in ('/etc/shadow', '/proc/1/environ', '/proc/kcore'):
    fd = ctypes.CDLL(None).open(path.encode(), 0)
    refused.append(fd == -1)
[found, refused]
"""
        self.assertEqual(self.value(code), [[True] * 6, [True] * 3])

    def test_modules_in_writable_places(self):
        """124. Code can import these modules, but Cloister's part of the interpreter does not import them."""
        write = """
import os
for name in ('json', 'asyncio', 'cloister', 'selectors', 'sitecustomize', 'usercustomize', '_cloister', 'traceback', 'ast', 'attack_module'):
    for folder in ('/workspace', '/tmp'):
        with open(f'{folder}/{name}.py', 'w') as f: f.write("raise SystemExit('taken')")
with open('/workspace/evil.pth', 'w') as f: f.write("import os; os._exit(9)")
os.environ.update(PYTHONPATH='/workspace', LD_PRELOAD='/workspace/x.so', PYTHONSTARTUP='/workspace/json.py', PYTHONHOME='/workspace')
"""
        self.ok(write)
        self.assertEqual(self.cell("1/0")["error"]["type"], "ZeroDivisionError")
        self.assertEqual(self.value("await __import__('asyncio').sleep(0, {'a': [1]})"), {"a": [1]})
        self.assertEqual(self.cell("import attack_module")["status"], "exit")
        # Another session of the same template has none of these modules.
        self.assertEqual(self.value("import json, traceback\njson.dumps(1)", session="other"), "1")

    def test_a_session_ends_with_its_server(self):
        """125. Also when the monitor is killed. The control: the processes exist before that."""
        with rawmcp.RawServer("--config", os.path.join(self.class_dir, "config.json"), cwd=self.class_dir) as server:
            server.initialize()
            server.cell("import subprocess, os\nfor _ in range(3): subprocess.Popen(['sleep', '1000'], start_new_session=True)")
            left = harness.descendants(server.process.pid)
            self.assertEqual(list(left.values()).count("sleep"), 3)
            server.process.kill()
            server.process.wait()

            def ended():
                harness.reap()  # A pid namespace ends when its processes have been reaped, here by this subreaper.
                return not any(map(harness.alive, left))

            self.assertTrue(harness.wait_until(ended), {p: n for p, n in left.items() if harness.alive(p)})


if __name__ == "__main__":
    harness.main()
