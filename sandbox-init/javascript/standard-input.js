'use strict';
/* process.stdin of `cloister run`, and fs.readFileSync(0): the broker reads the caller's input when the code does. */

const fs = require('fs');
const { syncBuiltinESMExports } = require('module');

const { Readable } = require('stream');
const { READ } = require('./frames.js');
const kept = require('./intrinsics.js');

const PIECE = 64 * 1024; // READ_MAX of the broker

class Input extends Readable {
  constructor(channel, ours, isTerminal) {
    super({ highWaterMark: PIECE });
    this.fd = 0;
    if (isTerminal) {
      this.isTTY = true;
    }
    this._channel = channel;
    this._ours = ours;
  }

  _read() {
    this._channel.call(READ, `{"length":${PIECE}}`, this._ours.run).then((payload) => {
      const answer = kept.parse(payload);
      if (!answer.ok) {
        this.destroy(new Error(answer.error?.message ?? 'the standard input cannot be read'));
      } else {
        this.push(answer.result ? Buffer.from(answer.result, 'base64') : null);
      }
    });
  }
}

const { readFileSync, readSync } = fs;
let source = null; // {channel, ours}

/** The next bytes; none at the end. */
function readNow(length) {
  const payload = source.channel.callNow(READ, `{"length":${Math.max(1, Math.min(length, PIECE))}}`, source.ours.run);
  const answer = payload === null ? { ok: true } : kept.parse(payload);
  if (!answer.ok) {
    throw new Error(answer.error?.message ?? 'the standard input cannot be read');
  }
  return Buffer.from(answer.result ?? '', 'base64');
}

/** Lets the functions of fs that wait read the input as descriptor 0, which is /dev/null here. */
function readByDescriptor(channel, ours) {
  const isFirst = source === null;
  source = { channel, ours };
  if (!isFirst) {
    return;
  }
  fs.readFileSync = function (file, options) {
    if (file !== 0 && file !== '/dev/stdin') {
      return readFileSync.apply(this, arguments);
    }
    const parts = [];
    for (let part = readNow(PIECE); part.length > 0; part = readNow(PIECE)) {
      parts.push(part);
    }
    const encoding = typeof options === 'string' ? options : options?.encoding;
    const whole = Buffer.concat(parts);
    return encoding && encoding !== 'buffer' ? whole.toString(encoding) : whole;
  };
  fs.readSync = function (fd, buffer, offset, length) {
    if (fd !== 0) {
      return readSync.apply(this, arguments);
    }
    const given = typeof offset === 'object' && offset !== null ? offset : { offset, length };
    const from = given.offset ?? 0;
    const most = given.length ?? buffer.byteLength - from;
    return most === 0 ? 0 : readNow(most).copy(Buffer.from(buffer.buffer, buffer.byteOffset, buffer.byteLength), from);
  };
  syncBuiltinESMExports();
}

module.exports = { Input, readByDescriptor };
