"""Calls the tool `echo` of a server over Streamable HTTP with the official Python client: client-http.py URL COUNT.

Prints {"ns": [...]}.
"""
import asyncio
import json
import sys
import time

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, count):
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        took = []
        for _ in range(20 + count):
            start = time.perf_counter_ns()
            await session.call_tool("echo", {"message": "x"})
            took.append(time.perf_counter_ns() - start)
        print(json.dumps({"ns": took[20:]}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
