"""Files and displays: /workspace between cells, /workspace/out to the client, `cloister run --in --out`, images."""

import base64
import os
import stat
import subprocess

import harness
import rawmcp

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
VENV = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")


def kinds(result):
    return [block["type"] for block in result["content"]]


class Displays(rawmcp.ServerCase):
    """display() in a cell becomes content."""

    def test_an_image_is_image_content(self):
        result = self.call(f"display({PNG!r})")
        self.assertEqual(kinds(result), ["text", "image"])
        self.assertEqual(result["content"][1]["mimeType"], "image/png")
        self.assertEqual(base64.b64decode(result["content"][1]["data"]), PNG)
        self.assertEqual(
            result["structuredContent"]["displays"], [{"mime_type": "image/png", "bytes": len(PNG)}]
        )
        self.assertIn("displayed: image/png", self.text(result))

    def test_an_image_that_a_cell_has_written(self):
        code = f"import pathlib\npathlib.Path('plot.png').write_bytes({PNG!r})\ndisplay(pathlib.Path('plot.png'))"
        self.assertEqual(kinds(self.call(code)), ["text", "image"])

    def test_text_stands_among_the_output(self):
        cell = self.ok("print(1)\ndisplay('two', {'three': 3})\nprint(4)")
        self.assertEqual(cell["stdout"], "1\ntwo\n{'three': 3}\n4\n")
        self.assertNotIn("displays", cell)

    def test_html_audio_and_others(self):
        result = self.call("""
class Table:
    def _repr_html_(self): return "<table>é</table>"
display(Table())
display(b"RIFF....WAVE")
display("<svg/>", mime="image/svg+xml")
""")
        self.assertEqual(kinds(result), ["text", "text", "audio", "resource"])
        self.assertEqual(result["content"][1]["text"], "<table>é</table>")
        self.assertEqual(result["content"][3]["resource"]["text"], "<svg/>")
        self.assertEqual(result["structuredContent"]["displays"][0]["text"], "<table>é</table>")

    def test_too_large_and_too_many(self):
        result = self.call(f"import os\ndisplay({PNG!r} + os.urandom(5_000_000))\nfor i in range(40): display({PNG!r})")
        self.assertIn("too large to show, kept as /workspace/out/large-1.png", self.text(result))
        self.assertIn("and 8 more, which were not kept", self.text(result))
        self.assertEqual(kinds(result).count("image"), 32)
        self.assertEqual(result["structuredContent"]["displays_total"], 40)
        self.assertEqual([file["path"] for file in result["structuredContent"]["files"]], ["large-1.png"])

    def whole(self, uri):
        (item,) = self.server.ask("resources/read", {"uri": uri})["contents"]
        return item["mimeType"], base64.b64decode(item["blob"]) if "blob" in item else item["text"]

    def test_a_display_over_its_budget_is_a_resource(self):
        for code, kind, length in (
            ('display("<p>" * 300_000, "text/html")', "text/html", 900_000),
            ('display(b"<p>" * 70_000, "text/html")', "text/html", 210_000),
            ("class H:\n    def _repr_html_(self): return '<p>' * 5000\nH()", "text/html", 15_000),
            ('display(b"%PDF-" + b"x" * 20_000)', "application/pdf", 20_005),
            ('display("<svg>" * 2001, "image/svg+xml")', "image/svg+xml", 10_005),
        ):
            with self.subTest(code):
                result = self.call(code)
                self.assertEqual(kinds(result), ["text", "resource_link"])
                link = result["content"][1]
                self.assertEqual((link["mimeType"], link["size"]), (kind, length))
                self.assertIn("all of it is the resource " + link["uri"], self.text(result))
                (display,) = result["structuredContent"]["displays"]
                self.assertEqual(display, {"mime_type": kind, "bytes": length, "resource": link["uri"]})
                self.assertLess(len(str(result)), 2000)
                self.assertEqual((self.whole(link["uri"])[0], len(self.whole(link["uri"])[1])), (kind, length))
                self.assertIn(link["uri"], [r["uri"] for r in self.server.ask("resources/list")["resources"]])

    def test_displays_share_the_budget(self):
        result = self.call('for i in range(20): display(f"<p>{i}" * 120, "text/html")\ndisplay("<b>", "text/html")')
        self.assertEqual(kinds(result), ["text"] + ["resource_link"] * 20 + ["text"])
        self.assertEqual(self.whole(result["content"][7]["uri"]), ("text/html", "<p>6" * 120))
        result = self.call('display("<p>é" * 2500, "text/html")')
        self.assertEqual(kinds(result), ["text", "text"])
        self.assertEqual(kinds(self.call('display("<p>é" * 2500, "text/html")', max_output=9999)), ["text", "resource_link"])

    def test_no_such_display(self):
        uri = f"cloister://sessions/{self.session}/cells/1/displays/"
        self.call('display("<p>" * 5000, "text/html")')
        self.assertEqual(self.whole(uri + "1")[0], "text/html")
        for end in "2", "0", "01", "1/x", "":
            with self.assertRaises(rawmcp.RpcError):
                self.whole(uri + end)

    def test_the_last_value_is_shown(self):
        rich = "class R:\n    def __repr__(self): return 'R'\n    def %s(self): return %r\nR()"
        result = self.call(rich % ("_repr_png_", PNG))
        self.assertEqual((kinds(result), result["structuredContent"]["value"]["repr"]), (["text", "image"], "R"))
        self.assertEqual(self.value(rich % ("_repr_markdown_", "# Title")), "# Title")
        # The text comes from its own repr(); the HTML is for people.
        self.assertEqual(kinds(self.call(rich % ("_repr_html_", "<b>"))), ["text", "resource_link"])
        result = self.call("from IPython.display import HTML, display\ndisplay(HTML('<i>'))\nHTML('<b>')")
        self.assertEqual([block["text"] for block in result["content"][1:]], ["<i>", "<b>"])
        cell = self.cell("class B:\n    def _repr_mimebundle_(self, **k): raise KeyboardInterrupt\nB()")
        self.assertEqual(cell["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(self.value("x = 1\nx"), 1)

    def test_a_progress_bar_is_its_last_state(self):
        """Printed in pieces, as tqdm does it. A result that was shortened names the whole output, as it was printed."""
        code = ("import sys\nfor i in range(301):\n    sys.stderr.write('\\r%3d%%|' % (i // 3) + '\u2588' * (i // 30) + ' ' * (10 - i // 30) + '| %d/300' % i)\n"
                "    sys.stderr.flush()\nprint(file=sys.stderr)\nprint('a\\r\\nb')")
        cell = self.ok(code)
        self.assertEqual(cell["stderr"], "100%|" + "\u2588" * 10 + "| 300/300\n")
        self.assertEqual(cell["stdout"], "a\r\nb\n")
        self.assertNotIn("truncated", cell)
        cell = self.ok(code + "\nprint('line\\n' * 1000, file=sys.stderr)", max_output=500)
        self.assertTrue(cell["stderr"].startswith("100%|"), cell["stderr"][:100])
        (item,) = self.server.ask("resources/read", {"uri": cell["truncated"]["resource"]})["contents"]
        self.assertTrue(item["text"].startswith("\r  0%|"), item["text"][:100])
        self.assertIn("\r 50%|", item["text"])

    def test_late_displays_go_to_the_next_cell(self):
        code = f"display({PNG!r})\n    open('/workspace/out/shown', 'w').close()"
        self.ok(f"import threading\ndef late():\n    {code}\nthreading.Timer(0.05, late).start()")
        self.assertTrue(harness.wait_until(lambda: self.written("shown")))
        self.assertEqual(kinds(self.call("1"))[:2], ["text", "image"])
        self.assertEqual(kinds(self.call("2")), ["text"])

    def test_what_cannot_be_shown_is_an_error_of_the_cell(self):
        cell = self.cell("display(b'abc')")
        self.assertEqual(cell["error"]["type"], "TypeError")
        self.assertIn('display(data, "image/png")', cell["error"]["message"])


class Files(rawmcp.ServerCase):
    """/workspace/out, and /workspace between cells."""

    def files(self, code, **arguments):
        return [file["path"] for file in self.ok(code, **arguments).get("files", [])]

    def test_workspace_is_kept_between_cells(self):
        self.ok("open('a.txt', 'w').write('one')\nimport os; os.makedirs('deep/er'); os.chdir('deep/er')")
        self.assertEqual(self.value("open('../../a.txt').read()"), "one")
        self.assertEqual(self.files("open('/workspace/out/b.csv', 'w').write('1')"), ["b.csv"])
        self.assertEqual(self.value("os.getcwd()"), "/workspace/deep/er")

    def test_files_are_there_after_a_timeout_that_kept_the_state(self):
        cell = self.cell("open('out/early.txt', 'w').write('x')\nimport time; time.sleep(60)", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "new"))
        self.assertEqual([file["path"] for file in cell["files"]], ["early.txt"])
        self.assertEqual(self.value("open('out/early.txt').read()"), "x")

    def test_resource_links(self):
        result = self.call("import os\nos.mkdir('out/sub')\nopen('out/sub/a b.csv', 'w').write('1,2')")
        self.assertEqual(kinds(result), ["text", "resource_link"])
        link = result["content"][1]
        self.assertEqual(link["name"], "a b.csv")
        self.assertEqual((link["mimeType"], link["size"]), ("text/csv", 3))
        self.assertEqual(link["uri"], f"cloister://sessions/{self.session}/files/sub/a%20b.csv")
        self.assertIn("files in /workspace/out: sub/a b.csv (3 bytes)", self.text(result))
        self.assertEqual(
            result["structuredContent"]["files"], [{"path": "sub/a b.csv", "size": 3, "mime_type": "text/csv"}]
        )

    def test_only_what_a_cell_made_or_changed(self):
        self.assertEqual(self.files("open('out/a', 'w').write('1'); open('out/b', 'w').write('1')"), ["a", "b"])
        self.assertEqual(self.files("1"), [])
        self.assertEqual(self.files("open('out/b', 'a').write('2')"), ["b"])
        self.assertEqual(self.files("import os; os.rename('out/a', 'out/c')"), ["c"])

    def test_a_reader_gets_the_file(self):
        data = bytes(range(256)) * 10000
        result = self.call("open('out/data.bin', 'wb').write(bytes(range(256)) * 10000)\nopen('out/t.txt', 'w').write('né')")
        uris = [block["uri"] for block in result["content"][1:]]
        read = [self.server.ask("resources/read", {"uri": uri})["contents"][0] for uri in uris]
        self.assertEqual(base64.b64decode(read[0]["blob"]), data)
        self.assertEqual(read[1]["text"], "né")
        with self.assertRaises(rawmcp.RpcError):
            self.server.ask("resources/read", {"uri": uris[0].replace("data.bin", "..%2Fa.txt")})

    def test_a_busy_session_answers_when_it_awaits(self):
        link = self.call("open('out/t.txt', 'w').write('x')")["content"][1]
        running = self.server.start_call("import asyncio\nawait asyncio.sleep(3)", session=self.session)
        self.assertEqual(self.server.ask("resources/read", {"uri": link["uri"]}, timeout=2.5)["contents"][0]["text"], "x")
        running.result(harness.PATIENCE)

    def test_hostile_names_and_kinds(self):
        cell = self.ok(r"""
import os
os.symlink("/etc/passwd", "out/link")
os.symlink("/etc", "out/folder")
os.mkfifo("out/fifo")
open("out/two\nlines", "w").close()
open(b"out/\xff", "w").close()
open("out/" + "x" * 200, "w").close()
os.makedirs("out/" + "d/" * 30)
open("out/real", "w").write("x")
""")
        self.assertEqual([file["path"] for file in cell["files"]], ["real", "x" * 200])
        self.assertEqual(cell["files_total"], 5)  # two files with invalid names, and one entry for those that lie too deep

    def test_very_many_files(self):
        code = """
made = 0
try:
    for made in range(100_000):
        open(f"out/{made:06}", "w").close()
except OSError as error:
    print(error)
"""
        cell = self.ok(code, wait=120)
        self.assertEqual(len(cell["files"]), 100)
        self.assertGreater(cell["files_total"], 9000)
        self.assertLess(self.ok("1")["duration_ms"], 5000)

    def test_a_link_in_place_of_out(self):
        self.assertEqual(self.files("import os\nos.rmdir('out'); os.symlink('/etc', 'out')"), [])


class Old(harness.Case):
    def test_an_old_client_gets_no_links(self):
        server = rawmcp.RawServer()
        self.addCleanup(server.close)
        server.initialize("2024-11-05")
        result = server.call("open('out/a', 'w').write('1')\ndisplay(b'RIFF....WAVE')")
        self.assertEqual(kinds(result), ["text", "resource"])


class Run(harness.Case):
    """cloister run --in FILE --out DIR"""

    def run_code(self, code, *args, **options):
        return self.run_cloister("run", "-c", code, *args, **options)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def ok(self, code, *args, **options):
        done = self.run_code(code, *args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_in_and_out(self):
        self.write("sales.csv", "1,2\n")
        self.write("odd", "x" * 3_000_000)
        code = """
import os
text = open("sales.csv").read() + str(len(open("d/renamed").read()))
os.makedirs("out/deep/er")
open("out/deep/er/result.txt", "w").write(text)
open("out/big", "wb").write(b"z" * 5_000_000)
open("out/empty", "w").close()
"""
        done = self.ok(code, "--in", "sales.csv", "--in", "odd=d/renamed", "--out", "made", "-v")
        self.assertEqual(self.read("made/deep/er/result.txt"), b"1,2\n3000000")
        self.assertEqual(self.read("made/big"), b"z" * 5_000_000)
        self.assertEqual(self.read("made/empty"), b"")
        self.assertIn(b"deep/er/result.txt", done.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("made/big")).st_mode) & 0o111, 0)
        self.assertEqual(os.stat(self.path("made/big")).st_uid, os.getuid())
        self.assertEqual(sorted(os.listdir(self.path("made"))), ["big", "deep", "empty"])

    def test_without_the_options_nothing_is_written(self):
        self.ok("open('out/a', 'w').write('1')")
        self.assertEqual(os.listdir(self.dir), [])

    def test_existing_files_are_replaced_and_links_not_followed(self):
        os.mkdir(self.path("made"))
        self.write("made/a", "old")
        self.write("victim", "precious")
        os.symlink(self.path("victim"), self.path("made/b"))
        self.ok("open('out/a', 'w').write('new'); open('out/b', 'w').write('b')", "--out", "made")
        self.assertEqual((self.read("made/a"), self.read("made/b"), self.read("victim")), (b"new", b"b", b"precious"))
        os.symlink("/var/tmp", self.path("made/d"))
        done = self.run_code("import os; os.mkdir('out/d'); open('out/d/x', 'w').write('1')", "--out", "made")
        self.assertEqual(done.returncode, 125)
        self.assertFalse(os.path.exists("/var/tmp/x"))

    def test_names_with_a_leading_dot_are_written_only_on_request(self):
        code = """
import os
os.makedirs("out/.git/deep"); os.mkdir("out/seen")
for name in (".git/config", ".git/deep/x", ".bashrc", "seen/.env", "seen/a.txt"):
    open("out/" + name, "w").write(name)
"""
        os.makedirs(self.path("made/.git"))
        self.write("made/.git/config", "precious")
        done = self.run_code(code, "--out", "made")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
        self.assertIn(b"a name with a leading dot is not written without --out-hidden", done.stderr)
        self.assertEqual(self.read("made/.git/config"), b"precious")
        self.assertEqual(self.read("made/seen/a.txt"), b"seen/a.txt")
        self.assertEqual((sorted(os.listdir(self.path("made"))), os.listdir(self.path("made/seen"))), ([".git", "seen"], ["a.txt"]))
        self.ok(code, "--out", "made", "--out-hidden")
        self.assertEqual((self.read("made/.git/config"), self.read("made/seen/.env")), (b".git/config", b"seen/.env"))
        done = self.run_code("1", "--out-hidden")
        self.assertEqual((done.returncode, done.stderr), (2, b"cloister: --out-hidden needs --out DIRECTORY\n"))

    def test_displays_are_kept_or_reported(self):
        code = f"display({PNG!r})\nclass H:\n    def _repr_html_(self): return '<b>bold</b>'\ndisplay(H())"
        done = self.ok(code)
        self.assertIn(b"image/png was displayed; --out DIRECTORY keeps it", done.stderr)
        self.assertIn(b"text/html was displayed; --out DIRECTORY keeps it", done.stderr)
        self.assertEqual(done.stdout, b"")
        self.ok(code, "--out", "made")
        self.assertEqual(self.read("made/display-1.png"), PNG)
        self.assertEqual(self.read("made/display-2.html"), b"<b>bold</b>")

    def test_after_an_exception_and_a_timeout(self):
        done = self.run_code("open('out/a', 'w').write('1'); 1/0", "--out", "made")
        self.assertEqual((done.returncode, self.read("made/a")), (1, b"1"))
        done = self.run_code("open('out/b', 'w').write('2')\nimport time; time.sleep(60)", "--out", "made", "--timeout", "1")
        self.assertEqual((done.returncode, self.read("made/b")), (124, b"2"))

    def test_lost_with_the_sandbox(self):
        done = self.run_code("import os; open('out/a', 'w').write('1'); os._exit(3)", "--out", "made")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"the files in /workspace/out are lost with the sandbox", done.stderr)
        self.assertEqual(os.listdir(self.path("made")), [])

    def test_hostile_out(self):
        code = r"""
import os
os.symlink("/etc/passwd", "out/link")
os.mkfifo("out/fifo")
open("out/two\nlines", "w").close()
open("out/real", "w").write("x")
"""
        done = self.run_code(code, "--out", "made")
        self.assertEqual(os.listdir(self.path("made")), ["real"])
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"left out", done.stderr)

    def test_a_file_that_grows_while_it_is_read(self):
        code = """
import threading, time
file = open("out/growing", "wb")
file.write(b"x" * 6_000_000); file.flush()
def grow():
    while True:
        file.write(b"y"); file.flush(); time.sleep(0.0002)
threading.Thread(target=grow, daemon=True).start()
open("out/still", "w").write("1")
time.sleep(0.1)
"""
        done = self.run_code(code, "--out", "made")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn(b"changed while it was read", done.stderr)
        self.assertEqual(os.listdir(self.path("made")), ["still"])

    def test_mistakes(self):
        self.write("file", "")
        self.write("sparse", "")
        os.truncate(self.path("sparse"), 1 << 40)
        for args, why in (
            (["--in", "none"], b"--in none: No such file"),
            (["--in", "file=../x"], b"cannot be a name below /workspace"),
            (["--in", "sparse"], b"--in sparse: more than 4 GiB"),
            (["--out", "none/deep"], b"--out none/deep: No such file"),
            (["--out", "file"], b"--out file: Not a directory"),
        ):
            done = self.run_code("1", *args)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
            self.assertIn(why, done.stderr)

    def test_no_room_for_an_input(self):
        config = self.config(limits={"workspace": "1M"})
        self.write("large", "x" * 3_000_000)
        done = self.run_code("1", "--config", config, "--in", "large")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"No space left", done.stderr)

    if harness.ROOT:

        def test_a_directory_of_another_user(self):
            os.mkdir(self.path("theirs"), 0o755)
            os.chown(self.path("theirs"), 4242, 4242)
            self.ok("open('out/a', 'w').write('1')", "--out", "theirs")
            self.assertEqual(self.read("theirs/a"), b"1")

    else:

        def test_a_directory_of_another_user(self):
            done = self.run_code("1", "--out", "/etc")
            self.assertEqual(done.returncode, 125)
            self.assertIn(b"--out /etc: write there: Permission denied", done.stderr)

    def test_process_substitution(self):
        done = subprocess.run(
            ["bash", "-c", f"{harness.CLOISTER} run -c 'print(open(\"n\").read())' --in <(echo piped)=n"],
            env=harness.environment(), capture_output=True, timeout=60, cwd=self.dir, check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (0, b"piped\n\n"), done.stderr)


@harness.once
class Libraries(harness.Case):
    """matplotlib, Pillow and pandas themselves."""

    def run_code(self, code):
        done = self.run_cloister("run", "--python", VENV, "-c", code, "--out", "made", timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_figures_images_and_tables(self):
        done = self.run_code("""
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]); plt.show()
plt.plot([3, 2, 1]); plt.title("second")
figure, axes = plt.subplots()
display(figure)
import pandas, PIL.Image
display(pandas.DataFrame({"a": [1, 2]}))
display("<b>", "text/html")
display(PIL.Image.new("RGB", (3, 2)))
display(PIL.Image.new("F", (3, 2)))
print(plt.get_fignums(), plt.get_backend().lower())
""")
        self.assertEqual(done.stdout, b"DataFrame: 2 rows \xc3\x97 1 columns\n\n|  | a |\n| --- | --- |\n| 0 | 1 |\n| 1 | 2 |\n[1, 2] agg\n")
        names = sorted(os.listdir(self.path("made")))
        # shown, displayed, a page, two images, and the figure that was still open
        self.assertEqual(names, [f"display-{i}.{'html' if i == 3 else 'png'}" for i in range(1, 7)])
        for name in names[:2] + names[3:]:
            with open(self.path("made/" + name), "rb") as f:
                self.assertEqual(f.read(8), PNG[:8])


if __name__ == "__main__":
    harness.main()
