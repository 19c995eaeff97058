"""Tools of agents that use cloister.llm_sandbox: the examples of llm-sandbox for LangChain, LangGraph and LlamaIndex, with one import changed and a
model that answers from a list. Fetches these packages from PyPI: suite `slow`."""

import os
import subprocess
import venv

import harness

PACKAGES = ("mcp>=2.3,<3", "langchain>=1.5,<2", "langgraph>=1.2,<2", "llama-index-core>=0.14.25,<0.15", "nest_asyncio")
TOOL = '''
from cloister.llm_sandbox import SandboxSession

def run_code(lang: str, code: str, libraries: list | None = None) -> str:
    """Runs code in a sandbox.

    :param lang: the language
    :param code: the code
    :param libraries: packages that it needs
    :return: what it has printed
    """
    with SandboxSession(lang=lang, verbose=False) as session:
        return session.run(code, libraries).stdout

CALL = {"lang": "python", "code": "import math\\nprint(math.factorial(20))"}
'''
LANGCHAIN = TOOL + '''
import asyncio, warnings
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent

class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self

def model():
    return Model(messages=iter([AIMessage(content="", tool_calls=[{"name": "run_code", "args": CALL, "id": "1"}]), AIMessage(content="done")]))

warnings.simplefilter("ignore")
question = {"messages": [{"role": "user", "content": "20!"}]}
for make in (create_agent, create_react_agent):
    agents = [make(model=model(), tools=[tool(run_code)]) for _ in range(2)]
    for answer in (agents[0].invoke(question), asyncio.run(agents[1].ainvoke(question))):
        print([message.content for message in answer["messages"]])
'''
LLAMAINDEX = TOOL + '''
import asyncio, nest_asyncio
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool

nest_asyncio.apply()

def answer(messages, **_):
    call = ToolCallBlock(tool_call_id="1", tool_name="run_code", tool_kwargs=CALL)
    asked = messages[-1].role != MessageRole.TOOL
    return ChatMessage(role="assistant", blocks=[call if asked else TextBlock(text="done")])

async def main():
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(fn=run_code)], llm=MockFunctionCallingLLM(response_generator=answer), streaming=False)
    done = await agent.run("20!")
    print([call.tool_output.content for call in done.tool_calls], done)

asyncio.run(main())
'''


class Agents(harness.Case):
    def setUp(self):
        super().setUp()
        venv.create(self.path("venv"), with_pip=True)
        self.python = self.path("venv/bin/python")
        done = subprocess.run([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], capture_output=True, text=True,
                              timeout=1800, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def output(self, program):
        env = harness.environment(PYTHONPATH=os.path.join(harness.SOURCE, "packaging", "python"))
        env["PATH"] = f"{harness.BUILD}:{env['PATH']}"
        done = subprocess.run([self.python, "-B", "-c", program], env=env, cwd=self.dir, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return done.stdout

    def test_examples(self):
        self.assertEqual(self.output(LANGCHAIN), "['20!', '', '2432902008176640000\\n', 'done']\n" * 4)
        self.assertEqual(self.output(LLAMAINDEX), "['2432902008176640000\\n'] done\n")


if __name__ == "__main__":
    harness.main()
