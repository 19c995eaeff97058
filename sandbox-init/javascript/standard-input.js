'use strict';
/* process.stdin of `cloister run`: the broker reads the caller's input when the code does. */

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

module.exports = { Input };
