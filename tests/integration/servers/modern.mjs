// A server of the official TypeScript SDK that speaks MCP 2026-07-28 and nothing older. CLOISTER_NODE: the packages.
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.env.CLOISTER_NODE, 'here.js'));
const { McpServer, inputRequired } = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');
const z = require('zod');

const text = (value) => ({ content: [{ type: 'text', text: value }] });

serveStdio(
    () => {
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
    },
    { legacy: 'reject' },
);
