// The official TypeScript clients drive Cloister: npm @modelcontextprotocol/sdk 1.x, with the official servers behind it,
// and @modelcontextprotocol/client 2.x, in each way that it has to agree on a protocol version.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

const nodeDir = process.env.CLOISTER_NODE;
const require = createRequire(path.join(nodeDir, 'here.js'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const v2 = require('@modelcontextprotocol/client');
const { StdioClientTransport: StdioClientTransport2 } = require('@modelcontextprotocol/client/stdio');
const cloister = path.join(process.env.CLOISTER_BUILD, 'cloister');

const env = { PATH: process.env.PATH, HOME: process.env.CLOISTER_TEST_HOME ?? process.env.HOME, LANG: 'C.UTF-8' };
env.CLOISTER_IMAGE_STORE = path.join(env.HOME, 'images');
for (const name of ['LD_LIBRARY_PATH', 'ASAN_OPTIONS', 'UBSAN_OPTIONS']) {
  if (process.env[name]) env[name] = process.env[name];
}

const official = (name, ...args) => ({
  command: process.execPath,
  args: [path.join(nodeDir, 'node_modules/@modelcontextprotocol', name, 'dist/index.js'), ...args],
});

async function connect(folder, servers = {}) {
  const config = path.join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ mcpServers: servers }));
  const transport = new StdioClientTransport({ command: cloister, args: ['mcp', '--config', config], env, cwd: folder, stderr: 'inherit' });
  const client = new Client({ name: 'official', version: '1' });
  await client.connect(transport);
  const run = (code, args = {}, options = {}) =>
    client.callTool({ name: 'run_python', arguments: { code, ...args } }, undefined, { timeout: 60000, ...options });
  return { client, transport, run };
}

describe('the client alone', () => {
  let folder, client, run;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
    ({ client, run } = await connect(folder));
    await client.listTools(); // from here on the client checks results against outputSchema
  });
  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true });
  });

  test('names, version and instructions', () => {
    assert.equal(client.getServerVersion().name, 'cloister');
    assert.match(client.getInstructions(), /run_python/);
    assert.ok(client.getServerCapabilities().tools);
  });

  test('one tool with both schemas', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ['run_python']);
    assert.equal(tools[0].outputSchema.type, 'object');
  });

  test('integers that JavaScript cannot hold are text', async () => {
    const { value } = (await run('[9007199254740993, 1]')).structuredContent;
    assert.deepEqual(value, { repr: '[9007199254740993, 1]', json_text: '[9007199254740993,1]' });
    assert.equal((await run('9007199254740991')).structuredContent.value.json, Number.MAX_SAFE_INTEGER);
  });

  test('state lives from call to call', async () => {
    await run('x = 6 * 7');
    assert.equal((await run('x')).structuredContent.value.json, 42);
  });

  test('a call as a task', async () => {
    const stream = client.experimental.tasks.callToolStream(
      { name: 'run_python', arguments: { code: 'import time\ntime.sleep(1.5)\n6 * 7' } }, undefined, { task: { ttl: 60000 } });
    const seen = [];
    for await (const message of stream) seen.push(message);
    assert.equal(seen[0].type, 'taskCreated');
    assert.equal(seen.at(-1).type, 'result');
    assert.equal(seen.at(-1).result.structuredContent.value.json, 42);
    const { taskId } = seen[0].task;
    assert.equal((await client.experimental.tasks.getTask(taskId)).status, 'completed');
    assert.ok((await client.experimental.tasks.listTasks()).tasks.some((task) => task.taskId === taskId));
    await assert.rejects(client.experimental.tasks.cancelTask(taskId), /ended already/);
  });

  test('text and structuredContent each stand alone', async () => {
    const result = await run('print("out")\n1 + 1');
    const text = result.content.map((block) => block.text).join('');
    assert.match(text, /out/);
    assert.match(text, /2/);
    assert.equal(result.structuredContent.stdout, 'out\n');
    assert.equal(result.structuredContent.value.json, 2);
  });

  test('an error is isError, with its traceback in both channels', async () => {
    const result = await run('def f():\n    return undefined_name\nf()');
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /return undefined_name/);
    assert.match(result.structuredContent.error.traceback, /NameError/);
  });

  for (const [what, code, status] of [
    ['an exit', 'import sys; sys.exit(2)', 'exit'],
    ['a crash', 'import ctypes; ctypes.string_at(0)', 'killed'],
    ['a timeout', 'while True: pass', 'timeout'],
    ['a syntax error', 'def', 'error'],
    ['no output at all', 'x = 1', 'ok'],
    ['much output', 'print("y" * 200000)', 'ok'],
  ]) {
    test(`the result of ${what} fits the schema`, async () => {
      const result = await run(code, { session: what.replace(/ /g, '-'), timeout: 1 });
      assert.equal(result.structuredContent.status, status);
      assert.ok(result.content[0].text.length > 0);
    });
  }

  test('an unknown tool is refused', async () => {
    await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), /no_such_tool/);
  });

  test('without published prompts their list is empty', async () => {
    assert.deepEqual((await client.listPrompts()).prompts, []);
  });

  test('sessions run side by side', async () => {
    const results = await Promise.all([0, 1, 2, 3].map((i) => run(`import time\ntime.sleep(0.3)\n${i}`, { session: `s${i}` })));
    assert.deepEqual(results.map((result) => result.structuredContent.value.json), [0, 1, 2, 3]);
  });

  test('progress comes while a cell runs', async () => {
    const seen = [];
    await run('import time\ntime.sleep(6)', {}, { onprogress: (progress) => seen.push(progress.progress) });
    assert.ok(seen.length >= 1);
  });

  test('an aborted call is cancelled and the state kept', async () => {
    await run('y = 5', { session: 'abort' });
    const controller = new AbortController();
    const call = run('import time\ntime.sleep(60)', { session: 'abort' }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 500);
    await assert.rejects(call);
    assert.equal((await run('y', { session: 'abort' }, { timeout: 10000 })).structuredContent.value.json, 5);
  });

  test('ping', async () => {
    await client.ping();
  });
});

describe('resources of the client alone', () => {
  let folder, client, run;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
    ({ client, run } = await connect(folder));
  });
  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true });
  });

  test('a cut output is read whole', async () => {
    const { truncated } = (await run('print("y" * 30000)')).structuredContent;
    const { contents } = await client.readResource({ uri: truncated.resource });
    assert.equal(contents[0].text, 'y'.repeat(30000) + '\n');
    assert.ok((await client.listResources()).resources.some(({ uri }) => uri === truncated.resource));
    assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 5);
  });

  test('what is not there is said so', async () => {
    await assert.rejects(client.readResource({ uri: 'cloister://sessions/none/cells/1/stdout' }), { code: -32002 });
  });

  test('live output after setting a level', async () => {
    const { LoggingMessageNotificationSchema } = require('@modelcontextprotocol/sdk/types.js');
    const seen = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => seen.push(params.data.text));
    await client.setLoggingLevel('info');
    await run('print("live")');
    assert.equal(seen.join(''), 'live\n');
  });
});

describe('what the client is asked for', () => {
  const code = "str([await tools['trigger-elicitation-request'](), await tools['trigger-sampling-request'](prompt='hi')])";
  const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
  const asked = [];
  const elicited = (request) => {
    asked.push(request.params.message);
    return { action: 'accept', content: { name: 'Ada' } };
  };
  const sampled = () => ({ role: 'assistant', content: { type: 'text', text: 'forty-two' }, model: 'm' });
  const roots = () => ({ roots: [{ uri: 'file:///tmp/x' }] });

  const drive = async (client, transport) => {
    await client.connect(transport);
    const result = await client.callTool({ name: 'run_python', arguments: { code, timeout: 60 } });
    await client.close();
    assert.match(result.structuredContent.value.json, /Name: Ada.*forty-two/);
    assert.match(asked.pop(), /^everything: /);
  };

  const start = (Transport) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
    const config = path.join(folder, 'config.json');
    writeFileSync(config, JSON.stringify({ mcpServers: { everything: official('server-everything') } }));
    after(() => rmSync(folder, { recursive: true }));
    return new Transport({ command: cloister, args: ['mcp', '--config', config], env, cwd: folder, stderr: 'inherit' });
  };

  test('client 1', async () => {
    const types = require('@modelcontextprotocol/sdk/types.js');
    const client = new Client({ name: 'official', version: '1' }, { capabilities });
    client.setRequestHandler(types.ElicitRequestSchema, elicited);
    client.setRequestHandler(types.CreateMessageRequestSchema, sampled);
    client.setRequestHandler(types.ListRootsRequestSchema, roots);
    await drive(client, start(StdioClientTransport));
  });

  for (const mode of ['legacy', 'auto', { pin: '2026-07-28' }]) {
    test(`client 2, mode ${JSON.stringify(mode)}`, async () => {
      const client = new v2.Client({ name: 'official', version: '2' }, { capabilities, versionNegotiation: { mode } });
      client.setRequestHandler('elicitation/create', elicited);
      client.setRequestHandler('sampling/createMessage', sampled);
      client.setRequestHandler('roots/list', roots);
      await drive(client, start(StdioClientTransport2));
    });
  }
});

for (const [mode, era] of [['legacy', 'legacy'], ['auto', 'modern'], [{ pin: '2026-07-28' }, 'modern']]) {
  describe(`client 2, mode ${JSON.stringify(mode)}`, () => {
    let folder, client;

    const run = (code, args = {}, options = {}) =>
      client.callTool({ name: 'run_python', arguments: { code, ...args } }, { timeout: 60000, ...options });

    before(async () => {
      folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
      const config = path.join(folder, 'config.json');
      writeFileSync(config, '{}');
      const transport = new StdioClientTransport2({ command: cloister, args: ['mcp', '--config', config], env, cwd: folder, stderr: 'inherit' });
      client = new v2.Client({ name: 'official', version: '2' }, { versionNegotiation: { mode } });
      await client.connect(transport);
    });
    after(async () => {
      await client.close();
      rmSync(folder, { recursive: true });
    });

    test('the era', () => {
      assert.equal(client.getProtocolEra(), era);
      assert.match(client.getInstructions(), /run_python/);
      assert.ok(client.getServerCapabilities().tools);
    });

    test('one tool', async () => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name), ['run_python']);
    });

    test('calls, checked against the output schema', async () => {
      await run('x = 6 * 7');
      const result = await run('x');
      assert.equal(result.structuredContent.value.json, 42);
      assert.equal((await run('1/0')).isError, true);
    });

    test('an unknown tool is refused', async () => {
      await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), { code: -32602 });
    });

    test('progress', async () => {
      const seen = [];
      await run('import time\nfor i in range(3):\n    print("step", i)\n    time.sleep(1.5)', {}, { onprogress: (progress) => seen.push(progress) });
      assert.ok(seen.length >= 2);
      assert.match(seen[0].message, /last line: step \d/);
      assert.ok(seen[1].progress > seen[0].progress);
    });

    test('an aborted call is cancelled and the state kept', async () => {
      await run('y = 5', { session: 'abort' });
      const controller = new AbortController();
      const call = run('import time\ntime.sleep(60)', { session: 'abort' }, { signal: controller.signal });
      setTimeout(() => controller.abort(), 500);
      await assert.rejects(call);
      assert.equal((await run('y', { session: 'abort' }, { timeout: 10000 })).structuredContent.value.json, 5);
    });

    test('a cut output is read whole, a file too', async () => {
      const { truncated } = (await run('print("y" * 30000)')).structuredContent;
      const { contents } = await client.readResource({ uri: truncated.resource });
      assert.equal(contents[0].text, 'y'.repeat(30000) + '\n');
      const link = (await run('_ = open("/workspace/out/a.txt", "w").write("file")')).content.find(({ type }) => type === 'resource_link');
      assert.equal((await client.readResource({ uri: link.uri })).contents[0].text, 'file');
      const { resources } = await client.listResources();
      assert.deepEqual(resources.map(({ uri }) => uri).sort(), [truncated.resource, link.uri].sort());
    });

    test('what is not there is said so', async () => {
      await assert.rejects(client.readResource({ uri: 'cloister://sessions/none/cells/1/stdout' }), /no such output is kept/);
    });

    if (era === 'modern') {
      test('a subscription', async () => {
        const changed = new Promise((resolve) => client.setNotificationHandler('notifications/resources/list_changed', resolve));
        const subscription = await client.listen({ resourcesListChanged: true, promptsListChanged: true });
        assert.deepEqual(subscription.honoredFilter, { resourcesListChanged: true, promptsListChanged: true });
        await run('print("y" * 30000)', { session: 'subscribed' });
        await changed;
        await subscription.close();
        assert.equal(await subscription.closed, 'local');
      });
    }
  });
}

describe('with the official servers', () => {
  let folder, client, run;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
    ({ client, run } = await connect(folder, {
      everything: official('server-everything'),
      memory: { ...official('server-memory'), env: { MEMORY_FILE_PATH: path.join(folder, 'memory.jsonl') } },
      files: official('server-filesystem', folder),
    }));
  });
  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true });
  });

  const ok = async (code) => {
    const result = await run(code);
    assert.ok(!result.isError, result.content[0].text);
    return result.structuredContent;
  };

  test('server-everything: echo, fifty at once', async () => {
    const cell = await ok('import asyncio\nr = await asyncio.gather(*(mcp_everything.echo(message=str(i)) for i in range(50)))\nlen(set(r))');
    assert.equal(cell.value.json, 50);
    assert.equal(cell.tool_calls_total, 50);
  });

  test('server-everything: a name that is no identifier, a number', async () => {
    const cell = await ok('await tools["get-sum"](a=2, b=40)');
    assert.match(cell.value.json, /42/);
  });

  test('server-everything: structured content is unwrapped', async () => {
    const cell = await ok('w = await tools["get-structured-content"](location="Chicago")\nsorted(w)');
    assert.ok(cell.value.json.includes('temperature'));
  });

  test('server-everything: an argument of the wrong type is not sent', async () => {
    const cell = await ok('try:\n    await tools["get-sum"](a="two", b=1)\nexcept ToolArgumentError as e:\n    m = str(e)\nm');
    assert.match(cell.value.json, /a/);
    assert.equal(cell.tool_calls, undefined);
  });

  test('server-memory: a graph goes in and comes out', async () => {
    const cell = await ok(`
_ = await mcp_memory.create_entities(entities=[{"name": "Zoë", "entityType": "person", "observations": ["漢字"]}])
g = await mcp_memory.read_graph()
g["entities"][0]["observations"][0]`);
    assert.equal(cell.value.json, '漢字');
  });

  test('server-filesystem: written by the server, read by us', async () => {
    await ok(`await mcp_files.write_file(path=${JSON.stringify(path.join(folder, 'a.txt'))}, content="from the sandbox")`);
    assert.equal(readFileSync(path.join(folder, 'a.txt'), 'utf8'), 'from the sandbox');
  });

  test('server-filesystem: its refusal is a ToolError', async () => {
    const cell = await ok('try:\n    await mcp_files.read_text_file(path="/etc/passwd")\nexcept ToolError as e:\n    m = str(e)\nm');
    assert.match(cell.value.json, /denied|outside/i);
  });

  test('all are discovered', async () => {
    const cell = await ok('sorted({t["server"] for t in _discover()})');
    assert.deepEqual(cell.value.json, ['everything', 'files', 'memory']);
  });
});

describe('over HTTP', () => {
  let folder, server, url;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloister-test-'));
    writeFileSync(path.join(folder, 'config.json'), '{}');
    server = spawn(cloister, ['serve', '--listen', '127.0.0.1:0', '--config', path.join(folder, 'config.json')],
      { env, cwd: folder, stdio: ['ignore', 'inherit', 'pipe'] });
    const line = await new Promise((resolve) => server.stderr.once('data', (data) => resolve(String(data))));
    url = new URL(line.match(/http:\S+/)[0]);
  });
  after(async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill();
    await ended;
    rmSync(folder, { recursive: true });
  });

  for (const [name, make] of [
    ['Streamable HTTP', () => new (require('@modelcontextprotocol/sdk/client/streamableHttp.js').StreamableHTTPClientTransport)(url)],
    ['SSE', () => new (require('@modelcontextprotocol/sdk/client/sse.js').SSEClientTransport)(new URL('/sse', url))],
  ]) {
    test(`a client of 1.x: ${name}`, async () => {
      const client = new Client({ name: 'official', version: '1' });
      await client.connect(make());
      await client.listTools();
      const run = (code) => client.callTool({ name: 'run_python', arguments: { code, session: name.split(' ')[0] } });
      await run('x = 6 * 7');
      const seen = [];
      const result = await client.callTool({ name: 'run_python', arguments: { code: 'import time\nprint(1)\ntime.sleep(1.2)\nx', session: name.split(' ')[0] } },
        undefined, { onprogress: (progress) => seen.push(progress) });
      assert.equal(result.structuredContent.value.json, 42);
      assert.ok(seen.length > 0);
      await client.close();
    });
  }

  for (const mode of ['legacy', 'auto', { pin: '2026-07-28' }]) {
    test(`a client of 2.x: ${JSON.stringify(mode)}`, async () => {
      const client = new v2.Client({ name: 'official', version: '1' }, { versionNegotiation: { mode } });
      await client.connect(new v2.StreamableHTTPClientTransport(url));
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name), ['run_python']);
      const result = await client.callTool({ name: 'run_python', arguments: { code: '6 * 7', session: 'v2' } });
      assert.equal(result.structuredContent.value.json, 42);
      await client.close();
    });
  }
});
