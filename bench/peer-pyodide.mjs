// CPython in WebAssembly, in Node.js: an interpreter with json and asyncio, its first result of `1+1`, and each after
// that, all within one process.
//
//     peer-pyodide.mjs MODULE CALLS       {"fresh_ns": N, "warm_ns": [N, ...]}
import { pathToFileURL } from 'node:url';

const { loadPyodide } = await import(pathToFileURL(process.argv[2]));
const now = () => Number(process.hrtime.bigint());

async function result(python) {
  const value = await python.runPythonAsync('1+1');
  if (value !== 2) throw new Error(`1+1 is ${value}`);
}

let begin = now();
const python = await loadPyodide();
await python.runPythonAsync('import json, asyncio');
await result(python);
const fresh = now() - begin;
const warm = [];
for (let i = 0; i < Number(process.argv[3]); i++) {
  begin = now();
  await result(python);
  warm.push(now() - begin);
}
console.log(JSON.stringify({ fresh_ns: fresh, warm_ns: warm }));
