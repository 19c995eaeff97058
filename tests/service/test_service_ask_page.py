"""The pages of questions (docs/questions.md, "On a page") in Chromium without a screen: a person types the token, reads, and clicks."""

import base64
import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import harness
from test_ask_page import ALICE, BOB, CAUGHT, CLOSED, SEND, Asking
from test_service_browser import Browser

HOSTILE = """try:
    r = (await mcp_mail.send(to='</pre><script>document.title="owned"</script><img src=x onerror="document.title=1">', text='x' * 400))['ok']
except ToolError as e:
    r = str(e)
r"""
PLAN = "import asyncio\nawait asyncio.gather(*(mcp_mail.send(to=f'{i}@b', text='hello') for i in range(12)))\n1"
SHOWN = "document.querySelector('pre') != null"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class AskPage(Asking):
    wait = 60

    def setUp(self):
        port = free_port()
        self.base, self.listen = f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"
        super().setUp()

    def browse(self, page):
        browser = Browser(self.base + page)
        self.addCleanup(browser.close)
        self.assertTrue(browser.until("document.querySelector('input[name=token]') != null"))
        return browser

    def type_token(self, browser, token):
        """As a person: the field has the focus, and Enter sends the form."""
        self.assertEqual(browser.value("document.activeElement.name"), "token")
        browser.ask("Input.insertText", text=token)
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")

    def click(self, browser, word):
        place = browser.value(f"(() => {{ const b = document.querySelector('button[value={word}]'); b.scrollIntoView(); const r = b.getBoundingClientRect();"
                              "return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            browser.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def finish(self, headers, events):
        """The structured result of a call; a slow machine may have answered "running" first."""
        while (done := next(m["result"]["structuredContent"] for _, m in events if m and "result" in m))["status"] == "running":
            events = self.call(headers, None, session=done["session"], wait=60)
        return done

    def says(self, browser, text):
        self.assertTrue(browser.until(f"document.body?.innerText.includes({text!r})"), browser.value("document.body.innerText"))

    def keep_picture(self, browser, name, width=900):
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=700, deviceScaleFactor=1, mobile=width < 500)
        wide = browser.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        picture = browser.ask("Page.captureScreenshot", format="png")["data"]
        if "CLOISTER_TEST_PICTURES" in os.environ:
            with open(os.path.join(os.environ["CLOISTER_TEST_PICTURES"], f"ask-{name}.png"), "wb") as f:
                f.write(base64.b64decode(picture))
        self.assertTrue(wide, "the page is wider than its window")

    def test_answers(self):
        alice = self.session("alice", {})
        for word, value in (("once", True), ("no", "a person answered no")):
            events = self.call(alice, CAUGHT, wait=60)
            page = self.told(events)
            browser = self.browse(page)
            self.keep_picture(browser, "token")
            self.type_token(browser, BOB)
            self.says(browser, CLOSED)
            self.keep_picture(browser, "wrong")
            self.assertEqual(browser.value("document.querySelectorAll('pre, button[name=answer]').length"), 0)
            self.type_token(browser, ALICE)
            self.assertTrue(browser.until(SHOWN))
            # The style is the page's, and the token is in no address and not on the page.
            self.assertEqual(browser.value("getComputedStyle(document.querySelector('pre')).whiteSpaceCollapse"), "preserve")
            self.assertEqual(browser.value("getComputedStyle(document.querySelector('pre')).overflowWrap"), "anywhere")
            self.assertNotIn(ALICE, browser.value("location.href + document.documentElement.outerHTML"))
            self.keep_picture(browser, "question")
            self.keep_picture(browser, "question-narrow", 360)
            self.click(browser, word)
            self.says(browser, f"Your answer was taken: {word}.")
            self.keep_picture(browser, "taken")
            result = self.finish(alice, events)["value"]["json"]
            self.assertTrue(result is value or value in str(result), result)
            # Back, and once more: the question has ended.
            browser.ask("Page.navigate", url=self.base + page)
            self.assertTrue(browser.until("document.activeElement?.name == 'token'"))
            self.type_token(browser, ALICE)
            self.says(browser, CLOSED)
            asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
            self.assertTrue(asked)
            self.assertFalse([url for url in asked if ALICE in url or "?" in url])
        self.assertEqual([d for d in self.decisions() if d[1] in ("once", "no")], [("page", "once"), ("page", "no")])

    def test_text_of_code_and_other_sites(self):
        alice = self.session("alice", {})
        events = self.call(alice, HOSTILE, wait=60)
        page = self.told(events)
        browser = self.browse(page)
        self.type_token(browser, ALICE)
        self.assertTrue(browser.until(SHOWN))
        self.assertIn("<script>document.title", browser.value("document.querySelector('pre').innerText.replace(/\\s*\\n *\\| /g, '')"))
        self.assertEqual(browser.value("[document.title, document.images.length, document.scripts.length]"), ["Cloister", 0, 0])
        self.keep_picture(browser, "hostile")
        # Neither scripts nor forms that lead elsewhere work in the page, and no other page can have it in a frame.
        for script in ("const s = document.createElement('script'); s.textContent = 'document.title = \"owned\"'; document.head.append(s);",
                       "const f = document.createElement('iframe'); f.src = location.href; document.body.append(f);"):
            browser.value(f"new Promise((done) => {{ {script} setTimeout(done, 200); }})")
        self.assertEqual(browser.value("document.title"), "Cloister")
        self.assertEqual(browser.value("document.querySelector('iframe').contentDocument?.body?.innerText || ''"), "")
        # A form of another site has another Origin, also with all the fields.
        fields = json.dumps(self.shown(page))
        other = Browser(f"http://localhost:{self.address[1]}/ask/x")
        self.addCleanup(other.close)
        self.assertTrue(other.until("document.querySelector('form') != null"))
        other.ask("Page.setBypassCSP", enabled=True)
        other.ask("Page.reload")
        self.assertTrue(other.until("document.querySelector('form') != null"))
        other.value(f"""(() => {{ const f = document.createElement('form'); f.method = 'post'; f.action = {self.base + page!r};
            for (const [k, v] of Object.entries({{...{fields}, answer: 'once'}})) {{
                const i = document.createElement('input'); i.name = k; i.value = v; f.append(i); }}
            document.body.append(f); f.submit(); }})()""")
        self.says(other, "the form must come from this page (ask.page)")
        self.assertEqual(self.decisions(), [])
        self.click(browser, "no")
        self.says(browser, "Your answer was taken: no.")
        self.assertIn("a person answered no", self.finish(alice, events)["value"]["json"])

    def test_plan(self):
        alice = self.session("alice", {})
        events = self.call(alice, PLAN, wait=60, plan=True)
        browser = self.browse(self.told(events))
        self.type_token(browser, ALICE)
        self.assertTrue(browser.until(SHOWN))
        self.assertIn("about a plan", browser.value("document.querySelector('pre').innerText"))
        self.assertEqual(browser.value("[...document.querySelectorAll('button')].map((b) => b.value)"), ["once", "no"])
        self.keep_picture(browser, "plan")
        self.click(browser, "once")
        self.says(browser, "Your answer was taken: once.")
        done = self.finish(alice, events)
        self.assertEqual((done["value"]["json"], done["plan"]["made"]), (1, 12))

    def test_reload(self):
        """The key is removed, and then changed, while a page is open."""
        alice = self.session("alice", {})
        for change, text in ((None, "questions are not answered on pages here (ask.page)"),
                             ("https://d.example", "the form must come from this page (ask.page)")):
            events = self.call(alice, CAUGHT, wait=60)
            browser = self.browse(self.told(events))
            self.type_token(browser, ALICE)
            self.assertTrue(browser.until(SHOWN))
            self.reload(by=["page"], page=change) if change else self.reload(page=None)
            self.click(browser, "once")
            self.says(browser, text)
            self.assertEqual(len(browser.value("document.body.innerText").strip().splitlines()), 1)
            self.keep_picture(browser, "reload")
            self.assertEqual([d for d in self.decisions() if d[0] == "page"], [])
            self.reload(by=None, page=self.base)
            self.call(alice, None, interrupt=True)


if __name__ == "__main__":
    unittest.main()
