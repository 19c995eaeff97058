"""The minimum time of a tool call that Python code awaits: a client over pipes that does only what is necessary.

    floor-await.py COUNT COMMAND [ARGUMENT]...      prints {"ns": [N, ...]}

JSON both ways by the json module, a future, and asyncio's own loop, which watches the pipe. No sandbox, no check of
the arguments, no threads, no other calls, no part that reads the answer except its id.
"""
import asyncio
import json
import os
import subprocess
import sys
import time


class Client:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.writes, self.reads = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.waiting, self.data, self.last = {}, b"", 0
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.reads, self.read)

    def read(self):
        data = os.read(self.reads, 65536)
        if not data:
            raise SystemExit("floor-await: the program ended")
        *lines, self.data = (self.data + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            future = self.waiting.pop(answer.get("id"), None)
            if future:
                future.set_result(answer)

    def close(self):
        self.loop.remove_reader(self.reads)
        self.process.stdin.close()
        self.process.wait()

    def send(self, **message):
        os.write(self.writes, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method, params):
        self.last += 1
        future = self.waiting[self.last] = self.loop.create_future()
        self.send(id=self.last, method=method, params=params)
        return (await future)["result"]

    async def call(self, name, **arguments):
        result = await self.request("tools/call", {"name": name, "arguments": arguments})
        return result["content"][0]["text"]


async def main():
    count, client = int(sys.argv[1]), Client(sys.argv[2:])
    await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                        "clientInfo": {"name": "bench", "version": "1"}})
    client.send(method="notifications/initialized")
    took = []
    for i in range(count + count // 5):
        begin = time.perf_counter_ns()
        text = await client.call("echo", message="x")
        if i >= count // 5:
            took.append(time.perf_counter_ns() - begin)
        if "x" not in text:
            raise SystemExit(f"floor-await: not an echo: {text}")
    print(json.dumps({"ns": took}))
    client.close()


asyncio.run(main())
