"""A session of the real worker for each test, with a server that echoes."""

import unittest

import worker_rig
from worker_rig import RETURN, tool_result

ECHO = {
    "name": "demo",
    "state": "ready",
    "tools": [
        {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {"v": {}}}},
        {"name": "add-up", "inputSchema": {"type": "object"}},
        {"name": "print", "inputSchema": {"type": "object"}},
    ],
}


@unittest.skipUnless(worker_rig.STUB and worker_rig.find_libpython(), "needs the built worker and a libpython")
class WorkerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.template = worker_rig.Template()
        assert cls.template.first_word == "ready", cls.template.first_word

    @classmethod
    def tearDownClass(cls):
        cls.template.close()

    def setUp(self):
        self.worker = self.template.session()
        self.addCleanup(self.worker.close)
        self.worker.on_call = self.echo
        self.worker.catalogue(ECHO)

    def echo(self, number, call):
        arguments = call["arguments"]
        self.worker.send(RETURN, number, tool_result(structured={"v": arguments.get("v"), "tool": call["tool"]}))

    def run_cell(self, code, status="ok", **how):
        result = self.worker.run(code, **how)
        self.assertEqual(result.get("status"), status, result)
        return result

    def value(self, code, **how):
        result = self.run_cell(code, **how)
        return result["value"]["json"] if "value" in result else None

    def error(self, code, status="error", **how):
        return self.run_cell(code, status, **how)["error"]
