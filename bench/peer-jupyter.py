"""A Jupyter kernel, by its own client: from its start to the first result of `1+1`, and each result after that.

    peer-jupyter.py CALLS       {"start_ns": N, "warm_ns": [N, ...]}
"""
import json
import sys
import time

from jupyter_client.manager import start_new_kernel


def result(client):
    client.execute("1+1", store_history=False)
    reply = None
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "execute_result":
            reply = message["content"]["data"]["text/plain"]
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle" and reply:
            client.get_shell_msg(timeout=60)
            assert reply == "2", reply
            return


begin = time.perf_counter_ns()
manager, client = start_new_kernel(kernel_name="python3")
result(client)
start = time.perf_counter_ns() - begin
warm = []
for _ in range(int(sys.argv[1])):
    begin = time.perf_counter_ns()
    result(client)
    warm.append(time.perf_counter_ns() - begin)
client.stop_channels()
manager.shutdown_kernel(now=True)
print(json.dumps({"start_ns": start, "warm_ns": warm}))
