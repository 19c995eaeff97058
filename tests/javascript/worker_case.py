"""A session of the worker for each class of tests, with a server that echoes. A test whose session ends gets another one with fresh()."""

import unittest

from worker_rig import Modules, Worker, tool_result

ECHO = {
    "name": "demo",
    "state": "ready",
    "tools": [
        {"name": "echo", "description": "Says it  again.", "inputSchema": {"type": "object", "properties": {"v": {}}}},
        {
            "name": "add-up",
            "inputSchema": {
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 0}, "unit": {"enum": ["m", "km"]}},
                "required": ["n"],
            },
        },
    ],
}


class WorkerTest(unittest.TestCase):
    SETTINGS = {}
    OPTIONS = ()  # of Node

    @classmethod
    def setUpClass(cls):
        cls.modules = Modules()
        cls.addClassCleanup(cls.modules.close)
        cls.worker = cls.start()
        cls.addClassCleanup(lambda: cls.worker.close())

    @classmethod
    def start(cls):
        worker = Worker(cls.modules, cls.OPTIONS, **cls.SETTINGS)
        worker.send("CATALOG", 1, {"servers": [ECHO]})

        def echo(number, call):
            worker.send("RETURN", number, tool_result(structured={"v": call["arguments"].get("v"), "tool": call["tool"]}))

        worker.on_call = echo
        return worker

    def fresh(self):
        type(self).worker.close()
        type(self).worker = self.start()

    def run_cell(self, code, status="ok", filename="", **how):
        result = self.worker.run(code, filename, **how)
        self.assertEqual(result.get("status"), status, result)
        return result

    def value(self, code, **how):
        result = self.run_cell(code, **how)
        return result["value"]["json"] if "value" in result else None

    def shown(self, code):
        return self.run_cell(code)["value"]["repr"]

    def error(self, code, **how):
        return self.run_cell(code, "error", **how)["error"]
