'use strict';
const net = require('node:net');
const vm = require('node:vm');
const util = require('node:util');
const fs = require('node:fs');
globalThis.require = require;
const settings = JSON.parse(process.argv[2]);
const channel = new net.Socket({ fd: settings.channel, readable: true, writable: true });
let buffered = Buffer.alloc(0);
function send(type, id, body) {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(body.length, 0);
  header[4] = type;
  header.writeBigUInt64LE(id, 8);
  fs.writeSync(settings.channel, Buffer.concat([header, body]));
}
function run(id, code) {
  process.on('SIGINT', () => {});
  let result;
  try {
    const value = new vm.Script(code).runInThisContext({ breakOnSigint: true });
    result = { status: 'ok' };
    if (value !== undefined) result.value = { repr: util.inspect(value) };
  } catch (e) {
    result = { status: 'error', error: { type: String(e && e.name), message: String(e && e.message), traceback: String(e && e.stack) } };
  }
  send(0x41, id, Buffer.from(JSON.stringify(result)));
}
channel.on('data', (chunk) => {
  buffered = Buffer.concat([buffered, chunk]);
  while (buffered.length >= 16 && buffered.length >= 16 + buffered.readUInt32LE(0)) {
    const n = buffered.readUInt32LE(0), type = buffered[4], id = buffered.readBigUInt64LE(8);
    const body = buffered.subarray(16, 16 + n);
    buffered = buffered.subarray(16 + n);
    if (type === 1) run(id, body.toString().split('\0')[0]);
  }
});
channel.on('close', () => process.reallyExit(113));
