"""A notebook's cells with pandas, matplotlib, plotly, Pillow and tqdm, run by the official client: which blocks each result has.

The packages come from PyPI: by hand, suite `slow`.
"""

import asyncio
import base64
import json
import os
import shutil
import tempfile

from mcp import Client, StdioServerParameters

import harness

PNG = b"\x89PNG\r\n\x1a\n"
CELLS = {
    "table": """
import pandas as pd, matplotlib.pyplot as plt, plotly.graph_objects as go
from IPython.display import HTML, display
from PIL import Image
from tqdm import tqdm
df = pd.DataFrame({"month": pd.date_range("2026-01-01", periods=12, freq="MS"), "sold": range(12)})
df.head(2)""",
    "progress": "total = 0\nfor n in tqdm(range(300), desc='adding'):\n    total += n\ntotal",
    "shown": "fig, ax = plt.subplots()\n_ = ax.plot(df['month'], df['sold'])\nplt.show()",
    "axes": "df.plot(x='month', y='sold')",
    "picture": "Image.new('RGB', (40, 30), 'red')",
    "plotly": "go.Figure(go.Bar(x=df['month'], y=df['sold']))",
    "html": "display(HTML('<b>bold</b>'))\ndf.groupby(df.month.dt.quarter).sold.sum()",
    "end": "[len(df), total]",
}


class Notebook(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.store = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.store, ignore_errors=True)
        os.chmod(cls.store, 0o755)

    def test_each_cell(self):
        env = harness.environment(CLOISTER_IMAGE_STORE=f"{self.store}/images")
        done = self.run_cloister("image", "build", "--quiet", "--name", "notebook", "--with", "pandas,matplotlib,plotly,pillow,tqdm", env=env, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = asyncio.run(self.drive(StdioServerParameters(command=harness.CLOISTER, args=["mcp", "--config", self.config(), "--image", "notebook"],
                                                               env=env, cwd=self.dir)))
        text = {name: result.content[0].text for name, result in results.items()}
        for name, result in results.items():
            self.assertEqual(result.structured_content["status"], "ok", (name, text[name]))
        self.assertIn("DataFrame: 2 rows × 2 columns", text["table"])
        self.assertIn("| 1 | 2026-02-01 00:00:00 | 1 |", text["table"])
        self.assertEqual(results["progress"].structured_content["value"]["json"], 44850)
        self.assertIn("adding: 100%", text["progress"])
        for name in ("shown", "axes", "picture"):
            (image,) = [block for block in results[name].content if block.type == "image"]
            self.assertEqual((image.mime_type, base64.b64decode(image.data)[:8]), ("image/png", PNG), name)
        # Too large for a block: both of plotly's forms are resources, whole.
        self.assertEqual(set(self.read), {"application/vnd.plotly.v1+json", "text/html"})
        self.assertEqual(json.loads(self.read["application/vnd.plotly.v1+json"])["data"][0]["type"], "bar")
        self.assertIn("plotly", self.read["text/html"].lower())
        self.assertEqual([block.text for block in results["html"].content[1:]], ["<b>bold</b>"])
        self.assertIn("| 4 | 30 |", text["html"])
        self.assertEqual(results["end"].structured_content["value"]["json"], [12, 44850])

    async def drive(self, server):
        results, self.read = {}, {}
        async with asyncio.timeout(300), Client(server, mode="auto") as client:
            for name, code in CELLS.items():
                results[name] = await client.call_tool("run_python", {"code": code, "session": "notebook", "timeout": 120})
            for block in results["plotly"].content:
                if block.type == "resource_link":
                    (part,) = (await client.read_resource(block.uri)).contents
                    self.read[block.mime_type] = part.text if hasattr(part, "text") else base64.b64decode(part.blob).decode()
        return results


if __name__ == "__main__":
    harness.main()
