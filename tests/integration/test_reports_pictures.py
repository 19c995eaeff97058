"""Pictures: what leaves as image content is a whole, still PNG, JPEG, GIF or WebP of its type and within the limits; other ones are resources."""

import base64
import glob
import json
import os
import struct
import zlib

import harness
import rawmcp
import test_publish

CORPUS = os.path.join(harness.SOURCE, "tests/fuzz/corpus/pictures")
SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
# picture() names a type, as libraries' objects do.
PRELUDE = """
import base64
class picture:
    def __init__(self, data, kind="png"):
        self.data, self.kind = base64.b64decode(data), kind
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/" + self.kind: self.data}
"""


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows=None, more=b""):
    data = zlib.compress((b"\0" + b"\x40\x80\xc0" * width) * (height if rows is None else rows), 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return SIGNATURES["image/png"] + chunk(b"IHDR", header) + more + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def black(width, height):
    """A PNG of zeros, eight bytes a pixel. Its data is made of equal blocks, which takes less time than to compress it."""
    n, block = (8 * width + 1) * height, 1 << 20
    deflate = zlib.compressobj(1, wbits=-15)
    piece = deflate.compress(bytes(block)) + deflate.flush(zlib.Z_FULL_FLUSH)
    rest = zlib.compressobj(1, wbits=-15)
    data = b"\x78\x01" + piece * (n // block) + rest.compress(bytes(n % block)) + rest.flush() + struct.pack(">HH", n % 65521, 1)
    header = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
    return SIGNATURES["image/png"] + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def corpus(name):
    with open(os.path.join(CORPUS, name), "rb") as f:
        return f.read()


def code(data, kind="png"):
    return PRELUDE + f'picture("{base64.b64encode(data).decode()}", "{kind}")'


def size(data):
    return struct.unpack(">II", data[16:24])


class Pictures(rawmcp.ServerCase):
    """run_python."""

    def show(self, data, kind="png"):
        """The text, the images and the resource links of a cell that shows this picture."""
        result = self.call(code(data, kind))
        images = [(block["mimeType"], base64.b64decode(block["data"])) for block in result["content"] if block["type"] == "image"]
        for mime_type, image in images:
            self.assertTrue(image.startswith(SIGNATURES[mime_type]), mime_type)
        links = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
        return result["content"][0]["text"], images, links

    def original(self, uri):
        (item,) = self.server.ask("resources/read", {"uri": uri})["contents"]
        return item["mimeType"], base64.b64decode(item["blob"])

    def refused(self, data, why, kind="png", mime_type="image/png"):
        text, images, links = self.show(data, kind)
        self.assertEqual((images, len(links)), ([], 1), text)
        self.assertIn(f"image 1 is not shown: {why}: {links[0]}", text)
        self.assertEqual(self.original(links[0]), (mime_type, data))

    def test_right_ones_leave_as_they_are(self):
        for name in ("plain.png", "texts.png", "plain.jpg", "progressive.jpg", "plain.gif", "plain.webp", "lossless.webp"):
            with self.subTest(name):
                data = corpus("accept/" + name)
                text, images, _ = self.show(data, name.split(".")[-1].replace("jpg", "jpeg"))
                self.assertEqual([image for _, image in images], [data])
                self.assertNotIn("image 1 is", text)

    def test_the_type_is_that_of_the_bytes(self):
        for data, kind, right in ((png(3, 3), "jpeg", "image/png"), (corpus("accept/plain.jpg"), "png", "image/jpeg")):
            self.assertEqual(self.show(data, kind)[1], [(right, data)])

    def test_large_ones_are_scaled(self):
        for width, height, expected in ((9000, 20, (2000, 4)), (20, 9000, (4, 2000)), (2001, 1, (2000, 1)), (12000, 480, (2000, 80))):
            with self.subTest(width=width, height=height):
                data = png(width, height)
                text, images, _ = self.show(data)
                self.assertEqual([size(image) for _, image in images], [expected], text)
                self.assertIn(f"image 1 is shown with {expected[0]:,} x {expected[1]:,} pixels instead of {width:,} x {height:,}; the original: ", text)
                self.assertEqual(self.original(text.split("the original: ")[1].split()[0]), ("image/png", data))

    def test_the_first_frame_of_an_animation(self):
        for name in ("moving.gif", "loop.gif", "moving.png", "moving.webp"):
            with self.subTest(name):
                text, images, _ = self.show(corpus("accept/" + name), name.split(".")[-1])
                self.assertEqual([(kind, size(image)) for kind, image in images], [("image/png", (5, 6))])
                self.assertIn("image 1 is shown as its first frame; the original: cloister://", text)

    def test_cut_and_damaged_ones(self):
        whole = png(100, 1200)
        self.refused(whole[:-8], "PNG, cut", mime_type="image/png")
        self.refused(png(100, 1200, rows=412), "PNG, damaged after 412 of 1,200 rows")
        self.refused(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], "PNG, damaged after 0 of 1,200 rows")
        for name, kind in (("jpg", "JPEG"), ("gif", "GIF"), ("webp", "WebP")):
            text, images, links = self.show(corpus("reject/cut." + name), name.replace("jpg", "jpeg"))
            self.assertEqual((images, len(links)), ([], 1), text)
            self.assertIn(f"image 1 is not shown: {kind}, cut", text)

    def test_what_is_no_picture(self):
        self.refused(b"<html>404</html>", "it is not a PNG, JPEG, GIF or WebP", mime_type="application/octet-stream")
        self.refused(png(0, 0), "PNG of 0 x 0 pixels")
        text, images, links = self.show(b"")
        self.assertEqual((images, links), ([], []))
        self.assertIn("image 1 is not shown: it has no bytes", text)

    def test_bombs(self):
        self.refused(corpus("reject/huge.png"), "PNG of 30,000 x 30,000 pixels, too many to check")
        self.refused(black(7900, 7900), "it takes more than 0.2 s to check", mime_type="application/octet-stream")
        frames = corpus("accept/plain.gif")[:-1] + b",\0\0\0\0\1\0\1\0\0\2\2\x44\1\0" * 100_000 + b";"
        self.assertEqual([size(image) for _, image in self.show(frames, "gif")[1]], [(5, 6)])
        # The process serves the next picture.
        self.assertEqual(len(self.show(black(3, 3))[1]), 1)

    def test_several_and_their_numbers(self):
        text = self.call(code(png(3, 3)).replace("\npicture", "\ndisplay(picture(base64.b64encode(b'')))\ndisplay('text')\npicture"))["content"][0]["text"]
        self.assertIn("image 1 is not shown: it has no bytes", text)
        self.assertNotIn("image 2", text)

    def test_a_display_that_is_replaced_often(self):
        steps = code(png(3, 3)).replace("\npicture", "\np = picture") + "\nh = display(p, display_id=True)\nfor _ in range(100): h.update(p)"
        images = [one for one in self.call(steps)["content"] if one["type"] == "image"]
        self.assertEqual([base64.b64decode(one["data"]) for one in images], [png(3, 3)])

    def test_a_worker_that_ends(self):
        """The picture of a sandbox that ends before it was checked is not shown, or is right."""
        result = self.call(code(png(3, 3)).replace("\npicture", "\nimport os\ndisplay(picture") + ")\nos._exit(1)")
        self.assertIn(result["structuredContent"]["status"], ("exit", "killed"))
        self.assertEqual(self.call("1 + 1")["structuredContent"]["value"]["repr"], "2")


class Settings(rawmcp.ServerCase):
    """`pictures` of a profile."""

    CONFIG = {"pictures": {"side": 100, "bytes": 10000}}

    def test_side_and_bytes(self):
        images = [block for block in self.call(code(png(200, 50)))["content"] if block["type"] == "image"]
        self.assertEqual(size(base64.b64decode(images[0]["data"])), (100, 25))
        result = self.call(code(png(10, 10, more=chunk(b"tEXt", b"k\0" + bytes(20000)))))
        self.assertEqual([block["type"] for block in result["content"]], ["text", "resource_link"])
        self.assertIn("image 1 is not shown: PNG, larger than the limit in bytes: cloister://", result["content"][0]["text"])


def block(data):
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png", "annotations": {"priority": 1}}


class Published(rawmcp.ServerCase):
    """Published tools and prompts: there is no resource, so the original is embedded, without an image's type."""

    BLOCKS = [block(png(4, 4)), block(png(4, 4)[:-9]), block(png(3000, 3))]
    CONFIG = {
        "publish": {
            "tools": {"emits": {"description": "Emits", "code": "".join(f"emit({one!r})\n" for one in BLOCKS)}},
            "prompts": {"says": {"description": "Says", "code": repr([{"role": "user", "content": one} for one in BLOCKS])}},
        }
    }

    def check_shown(self, blocks):
        self.assertEqual(blocks[0], self.BLOCKS[0])
        self.assertEqual((size(base64.b64decode(blocks[1]["data"])), blocks[1]["annotations"]), ((2000, 2), {"priority": 1}))

    def test_a_tool(self):
        content = self.server.ask("tools/call", {"name": "emits", "arguments": {}})["content"]
        self.assertEqual([one["type"] for one in content], ["image", "text", "resource", "image"])
        self.check_shown([content[0], content[3]])
        self.assertEqual(content[1]["text"], "an image is not shown: PNG, cut")
        self.assertEqual((content[2]["resource"]["mimeType"], content[2]["resource"]["blob"]), ("application/octet-stream", self.BLOCKS[1]["data"]))

    def test_a_prompt(self):
        content = [message["content"] for message in self.server.ask("prompts/get", {"name": "says"})["messages"]]
        self.check_shown([content[0], content[2]])
        self.assertEqual(content[1], {"type": "text", "text": "an image is not shown: PNG, cut"})


# Blocks, and what leaves instead of them (None: as it is).
FILE = {"uri": "file:///p", "mimeType": "image/png", "blob": base64.b64encode(png(4, 4)).decode()}
CUT = {**FILE, "blob": base64.b64encode(png(4, 4)[:-9]).decode()}
WIDE = {**FILE, "blob": base64.b64encode(png(3000, 3)).decode()}
FILES = (  # resources, and the types that they leave with
    (FILE, "image/png"),
    ({**FILE, "mimeType": "Image/JPG; x=1"}, "image/png"),
    (CUT, "application/octet-stream"),
    ({**CUT, "mimeType": " image/png"}, "application/octet-stream"),
    (WIDE, "application/octet-stream"),
    ({**FILE, "mimeType": "image/bmp", "blob": base64.b64encode(b"BM" + bytes(50)).decode()}, "image/bmp"),
)
# Frames that no code of ours writes: two members of one name, of which a client may read the other one.
TWICE = '{"type": "text", "text": "x", "type": "image", "mimeType": "image/png", "data": "AAAA"}'
HOSTILE = """
run = emit.__self__
channel, number = run._channel, run._number
def end(payload):
    from cloister.frames import RESULT
    import time
    channel.send(RESULT, number, payload)
    time.sleep(600)
"""
SAMPLE = "(await sample([{'role': 'user', 'content': arguments['content']}], key='q'))['content']['text']"


class Blocks(harness.Case):
    """Images in questions to the client's model, in resources, and in frames that hostile code writes."""

    def setUp(self):
        super().setUp()
        embedded = "".join(f"emit({{'type': 'resource', 'resource': {one!r}}})\n" for one, _ in FILES)
        returned = repr([{"type": "resource", "resource": one} for one, _ in FILES])
        hostile = {
            "twice": f"{HOSTILE}\nfrom cloister.frames import DISPLAY\nchannel.send(DISPLAY, number, b'{{\"block\": ' + {TWICE.encode()!r} + b'}}')",
            "result": HOSTILE + f"end(b'{{\"status\": \"ok\", \"output\": {{\"content\": [' + {TWICE.encode()!r} + b']}}}}')",
            "asks": HOSTILE + "end(b'{\"status\": \"ok\", \"requests\": {\"q\": {\"method\": \"sampling/createMessage\", \"params\": {\"maxTokens\": 1, '"
                    f" b'\"messages\": [{{\"role\": \"user\", \"content\": ' + {TWICE.encode()!r} + b'}}]}}}}}}}}')",
        }
        other = json.dumps({"status": "ok", "output": {"content": [block(png(4, 4))], "messages": [{"role": "user", "content": block(png(4, 4)[:-9])}]}})
        published = {
            "tools": {
                "asks": {"description": "Asks", "code": SAMPLE},
                "emits": {"description": "Emits", "code": embedded},
                **{"hostile-" + name: {"description": "Lies", "code": code} for name, code in hostile.items()},
            },
            "prompts": {
                "says": {"description": "Says", "code": returned},
                "other": {"description": "Lies", "code": HOSTILE + f"end({other.encode()!r})"},
            },
            "resources": {
                "x://all": {"code": repr([one for one, _ in FILES])},
                "x://own": {"mimeType": "image/png", "code": repr([{"blob": one["blob"]} for one, _ in FILES])},
            },
        }
        self.client = test_publish.Client(self, True, {"sampling": {}}, published)

    def asked(self, content):
        """The message for the client's model, or the text of the failure."""
        result = self.client.call("asks", content=content)
        if result["resultType"] == "input_required":
            return result["inputRequests"]["q"]["params"]["messages"][0]["content"]
        self.assertTrue(result["isError"])
        return result["content"][0]["text"]

    def test_questions(self):
        good, cut, wide = (block(png(*size)[:end]) for *size, end in ((4, 4, None), (4, 4, -9), (3000, 3, None)))
        self.assertEqual(self.asked(good), good)
        self.assertEqual(self.asked({**good, "mimeType": "image/jpeg"}), good)
        text = {"type": "text", "text": "what is this?"}
        shown = self.asked([text, wide])
        self.assertEqual((shown[0], size(base64.b64decode(shown[1]["data"]))), (text, (2000, 2)))
        for content in (cut, [text, cut], {"type": "tool_result", "toolUseId": "1", "content": [good, cut]}):
            self.assertIn("an image cannot be sent: PNG, cut", self.asked(content))
        self.assertIn("an image cannot be sent: it has no bytes", self.asked({"type": "image", "mimeType": "image/png"}))
        self.assertIn("an image needs a mimeType", self.asked({"type": "image", "data": good["data"]}))
        # More than 32 have no check.
        self.assertEqual(self.asked([good] * 3), [good] * 3)
        self.assertIn("an image cannot be sent", self.asked([good] * 33))

    def test_resources(self):
        types = [kind for _, kind in FILES]
        content = self.client.call("emits")["content"]
        self.assertEqual([one["resource"]["mimeType"] for one in content if one["type"] == "resource"], types)
        self.assertEqual([one["text"] for one in content if one["type"] == "text"], ["an image is not shown: PNG, cut"] * 2)
        messages = self.client.ask("prompts/get", {"name": "says"})["messages"]
        self.assertEqual([one["content"]["resource"]["mimeType"] for one in messages], types)
        self.assertEqual([one["content"]["resource"]["blob"] for one in messages], [one["blob"] for one, _ in FILES])
        # A resource that is read is a file: what is whole keeps its type.
        whole = ["image/png" if one is WIDE else kind for one, kind in FILES]
        self.assertEqual([one["mimeType"] for one in self.client.ask("resources/read", {"uri": "x://all"})["contents"]], whole)
        own = [one["mimeType"] for one in self.client.ask("resources/read", {"uri": "x://own"})["contents"]]
        self.assertEqual(own, [*whole[:-1], "application/octet-stream"])

    def test_hostile_frames(self):
        for name in ("twice", "result", "asks"):
            with self.subTest(name):
                text = json.dumps(self.client.call("hostile-" + name))
                self.assertNotIn("AAAA", text)
        # The check of one image is not that of another one.
        (message,) = self.client.ask("prompts/get", {"name": "other"})["messages"]
        self.assertEqual(message["content"], {"type": "text", "text": "an image is not shown: PNG, cut"})


class Run(harness.Case):
    """`cloister run --out`."""

    def test_no_empty_file(self):
        shown = code(b"").replace("\npicture", "\ndisplay(picture") + ")\n" + code(png(9, 9)[:-9]).replace("\npicture", "\ndisplay(picture") + ")"
        done = self.run_cloister("run", "-c", shown, "--out", "made")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([os.path.basename(path) for path in glob.glob(self.path("made/*"))], ["display-2.png"])
        self.assertIn(b"cloister: picture display-1: it has no bytes", done.stderr)
        self.assertIn(b"cloister: picture display-2: PNG, cut", done.stderr)


if __name__ == "__main__":
    harness.main()
