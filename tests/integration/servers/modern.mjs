// A server of the official TypeScript SDK that speaks only MCP 2026-07-28. CLOISTER_NODE: the folder of the packages. If PORT is set,
// it serves HTTP on that port, otherwise stdio.
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.env.CLOISTER_NODE, 'here.js'));
const { McpServer, createMcpHandler, inputRequired } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');
const z = require('zod');

const text = (value) => ({ content: [{ type: 'text', text: value }] });

function make() {
    const server = new McpServer(
        { name: 'modern', version: '1' },
        { capabilities: { tools: { listChanged: true } }, instructions: 'Modern, and nothing else.' },
    );
    server.registerTool(
        'add',
        {
            description: 'a + b',
            inputSchema: z.object({ a: z.number(), b: z.number() }),
            outputSchema: z.object({ sum: z.number() }),
        },
        async ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }),
    );
    server.registerTool('deploy', { description: 'Asks first.', inputSchema: z.object({}) }, async () =>
        inputRequired({
            inputRequests: {
                confirm: inputRequired.elicit({ message: 'Sure?', requestedSchema: z.object({ yes: z.boolean() }) }),
            },
        }),
    );
    server.registerTool('grow', { description: 'Another tool appears.', inputSchema: z.object({}) }, async () => {
        server.registerTool('later', { description: 'Came later.', inputSchema: z.object({}) }, async () => text('late'));
        return text('grown');
    });
    return server;
}

async function answer(handler, request, response) {
    const { method, headers } = request;
    const url = `http://${headers.host}${request.url}`;
    const body = method === 'POST' ? Buffer.concat(await request.toArray()) : undefined;
    const said = await handler.fetch(new Request(url, { method, headers, body }));
    response.writeHead(said.status, Object.fromEntries(said.headers));
    response.flushHeaders();
    for await (const chunk of said.body ?? []) response.write(chunk);
    response.end();
}

if (process.env.PORT) {
    const handler = createMcpHandler(make, { legacy: 'reject' });
    http.createServer((request, response) => {
        console.log(request.method, request.headers['mcp-method']);
        answer(handler, request, response).catch((error) => response.destroy(error));
    }).listen(Number(process.env.PORT), '127.0.0.1');
} else {
    serveStdio(make, { legacy: 'reject' });
}
