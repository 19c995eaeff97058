"""The parts of faulty.py that send requests to the client, run tasks, and offer resources and prompts."""

import json
import threading

from faulty_wire import answer, notify, refuse, send, send_text, text_result


class _Any(dict):
    """Accepts and drops answers that no call waits for."""

    def pop(self, id):
        return [threading.Event(), None], None


class Asks:
    def tool_state(self, id, arguments):
        """Requests this many times to be called again with its state; then returns the ids and states of these calls."""
        self.states.append([id, self.params.get("requestState"), self.params["arguments"], "inputResponses" in self.params])
        if len(self.states) <= arguments["times"]:
            state = "%d \"é\\u2028\\/" % len(self.states)
            answer(id, {"resultType": "input_required", "requestState": state, **arguments.get("more", {})})
        else:
            answer(id, text_result("", resultType="complete", structuredContent={"states": self.states}))

    def tool_job(self, id, arguments):
        """Runs only as a task."""
        if "task" not in self.params:
            refuse(id, -32601, "this tool must run as a task")
            return
        if arguments.get("plain"):
            answer(id, text_result("not a task"))
            return
        now = "2026-01-01T00:00:00Z"
        task = {"taskId": "task \"7\"", "status": "working", "createdAt": now, "lastUpdatedAt": now, "ttl": None, "pollInterval": 1}
        self.job, self.polls = arguments, 0
        if arguments.get("late"):
            threading.Timer(arguments["late"], answer, (id, {"task": task})).start()
        else:
            answer(id, {"task": {**task, **arguments.get("with", {})}})

    def tool_modern_job(self, id, arguments):
        """Runs as a task of the modern extension."""
        self.job, self.polls = arguments, 0
        answer(id, {"resultType": "task", "taskId": "m", "status": "working", "ttlMs": None, "pollIntervalMs": 1})

    def on_task(self, id, method, params):
        """Answers requests about the task of tool_job() or tool_modern_job()."""
        task = params["taskId"]
        self.tasks.append([method, task, *([params["inputResponses"]] if "inputResponses" in params else [])])
        if method == "tasks/cancel":
            answer(id, {"resultType": "complete", "taskId": task, "status": "cancelled"})
        elif method == "tasks/update":
            self.job["ask"] = None
            answer(id, {"resultType": "complete"})
        elif method == "tasks/get":
            self.polls += 1
            working = self.polls <= self.job.get("polls", 0) or self.job.get("hangs")
            status = self.job.get("status", "completed")
            shown = {"resultType": "complete", "taskId": task, "status": "working" if working else status, "statusMessage": f"poll {self.polls}"}
            if task == "m" and self.job.get("ask"):
                shown.update(status="input_required", inputRequests=self.job["ask"])
            elif task == "m" and not working and status == "completed":
                shown["result"] = text_result("", structuredContent={"job": self.job, "tasks": self.tasks})
            elif task == "m" and not working and status == "failed":
                shown["error"] = {"code": -32050, "message": "the modern task has failed", "data": 7}
            answer(id, shown)
        elif self.job.get("fails"):
            refuse(id, -32603, "the task has failed")
        elif not self.job.get("hangs"):
            answer(id, text_result("", structuredContent={"job": self.job, "tasks": self.tasks}))

    def tool_jobs(self, id, arguments):
        answer(id, text_result("", structuredContent={"tasks": self.tasks, "cancelled": self.cancelled}))

    def tool_ask(self, id, arguments):
        """Sends the client a request and returns its answer."""

        def ask():
            event = [threading.Event(), None]
            self.asked["q"] = (event, None)
            send({"jsonrpc": "2.0", "id": "q", "method": arguments["method"], "params": arguments.get("params", {})})
            event[0].wait(10)
            answer(id, text_result("", structuredContent=event[1]))

        threading.Thread(target=ask, daemon=True).start()

    def tool_ask_often(self, id, arguments):
        """Sends the same request this many times, one after the other or all before any later message; returns the answers in order."""
        events = [threading.Event() for _ in range(arguments["times"])]
        asked = [[event, None] for event in events]

        def send_one(i):
            self.asked[f"q{i}"] = (asked[i], None)
            send({"jsonrpc": "2.0", "id": f"q{i}", "method": arguments["method"], "params": arguments.get("params", {})})

        def ask():
            for i, event in enumerate(events):
                if not arguments.get("at_once"):
                    send_one(i)
                event.wait(10)
            answers = [a and (a.get("result") or a["error"]["message"]) for _, a in asked]
            answer(id, text_result("", structuredContent={"answers": answers}))

        if arguments.get("at_once"):
            for i in range(arguments["times"]):
                send_one(i)
        threading.Thread(target=ask, daemon=True).start()

    def tool_ask_and_withdraw(self, id, arguments):
        """Sends a request, cancels it, and does not wait for the client's answer."""
        self.asked["w"] = ([threading.Event(), None], None)
        send({"jsonrpc": "2.0", "id": "w", "method": arguments["method"], "params": arguments["params"]})
        notify("notifications/cancelled", requestId="w")
        answer(id, text_result("withdrawn"))

    def tool_ask_late(self, id, arguments):
        """Sends a request after its own answer; `late` returns the client's answer to it."""

        def ask():
            event = [threading.Event(), None]
            self.asked["late"] = (event, None)
            send({"jsonrpc": "2.0", "id": "late", "method": arguments["method"], "params": arguments["params"]})
            event[0].wait(10)
            self.late = event[1]

        self.late = None
        answer(id, text_result("answered"))
        threading.Thread(target=ask, daemon=True).start()

    def tool_late(self, id, arguments):
        answer(id, text_result("", structuredContent={"late": self.late}))

    def tool_ask_and_flood(self, id, arguments):
        """Sends this many requests and log messages without reading, then the answer."""
        line = json.dumps({"jsonrpc": "2.0", "id": "f", "method": arguments["method"], "params": arguments["params"]})
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "x" * 1000}})
        self.asked = _Any()
        for _ in range(arguments["times"]):
            send_text(line + "\n" + note)
        answer(id, text_result("flooded"))

    def tool_input(self, id, arguments):
        """Sends these input requests (modern), and returns the client's answers."""
        if "inputResponses" in self.params or "requestState" in self.params and not arguments["requests"]:
            got = {"responses": self.params.get("inputResponses"), "state": self.params.get("requestState")}
            answer(id, text_result("", resultType="complete", structuredContent=got))
        else:
            answer(id, {"resultType": "input_required", "inputRequests": arguments["requests"], "requestState": "s\u2028"})

    def tool_need_url(self, id, arguments):
        """Requires that a URL is opened first."""
        refuse(id, -32042, "open it first", elicitations=[{"mode": "url", "elicitationId": "e", "message": "sign in", "url": arguments["url"]}])

    def tool_opened(self, id, arguments):
        """Notifies the client that pages are completed, once for each time an id is listed."""
        for page in arguments["ids"]:
            notify("notifications/elicitation/complete", elicitationId=page)
        answer(id, text_result("told"))

    def tool_roots_seen(self, id, arguments):
        """Returns the answers to the requests for roots after changes of the roots."""
        answer(id, text_result("", structuredContent={"seen": self.roots_seen, "changes": self.roots_changes}))

    def on_roots_changed(self):
        def ask():
            event = [threading.Event(), None]
            self.asked["roots"] = (event, None)
            send({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
            event[0].wait(10)
            self.roots_seen.append(event[1] and event[1].get("result"))

        self.roots_changes += 1
        threading.Thread(target=ask, daemon=True).start()

    def tool_talk(self, id, arguments):
        """Sends progress and log messages, then the answer."""
        token = self.params.get("_meta", {}).get("progressToken")
        for done in arguments.get("progress", []):
            notify("notifications/progress", progressToken=token, **done)
        for message in arguments.get("messages", []):
            notify("notifications/message", **message)
        if not arguments.get("hangs"):
            answer(id, text_result("", structuredContent={"levels": self.levels, "meta": self.params.get("_meta", {})}))

    def tool_capabilities(self, id, arguments):
        """Returns the capabilities that the client declared."""
        answer(id, text_result("", structuredContent={"capabilities": self.capabilities}))

    # ---- resources and prompts -----------------------------------------------------------------------------------

    def on_offer(self, id, method, params):
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at < self.options.offer_pages - 1 else {}
        if method == "resources/list":
            answer(id, {"resources": [{"uri": f"test://r/{at}", "name": f"r{at}"}], **more})
        elif method == "resources/templates/list":
            answer(id, {"resourceTemplates": [{"uriTemplate": "test://r/{n}", "name": "r"}]})
        elif method == "prompts/list":
            answer(id, {"prompts": [{"name": "p"}] if params.get("cursor") is None else "none"})
        elif method == "prompts/get":
            content = {"type": "text", "text": json.dumps(params.get("arguments"))}
            answer(id, {"messages": [{"role": "user", "content": content}]})
        elif params.get("uri") == "test://odd":
            answer(id, {"contents": 7})
        elif params.get("uri") == "test://big":
            answer(id, {"contents": [{"uri": "test://big", "text": "x" * (20 << 20)}]})
        elif params.get("uri") == "test://bytes":
            answer(id, {"contents": [{"uri": "test://bytes", "blob": "AAEC"}, {"uri": "test://words", "text": "words"}]})
        elif params.get("uri", "").startswith("test://r/"):
            answer(id, {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "content of " + params["uri"]}]})
        else:
            refuse(id, -32002, "Resource not found", uri=params.get("uri"))
