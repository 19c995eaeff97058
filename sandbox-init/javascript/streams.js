'use strict';
/*
 * process.stdout and process.stderr: what is written has left when write() returns, and a result can follow it. They cannot be ended,
 * because the next cell needs them.
 */

const fs = require('fs');
const { Writable } = require('stream');
const kept = require('./intrinsics.js');

const { writeSync } = fs;
const { wait } = kept;
const never = new Int32Array(new SharedArrayBuffer(4));

/** Waits while the pipe is full, also if the code has made it non-blocking. */
function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at, bytes.length - at);
    } catch (error) {
      if (error.code !== 'EAGAIN') {
        throw error;
      }
      wait(never, 0, 0, 1);
    }
  }
}

class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = fd;
    this._type = 'pipe';
    this._isStdio = true;
  }

  _write(chunk, encoding, done) {
    try {
      writeAll(this.fd, chunk);
    } catch (error) {
      // The code has closed the descriptor: its output is lost, as that of any program.
    }
    done();
  }

  end(...given) {
    const done = given.find((one) => typeof one === 'function');
    if (given.length > 0 && given[0] !== done && given[0] != null) {
      this.write(...given.filter((one) => typeof one === 'string' || one instanceof Uint8Array));
    }
    if (done !== undefined) {
      process.nextTick(done);
    }
    return this;
  }

  destroy() {
    return this;
  }

  destroySoon() {}
}

function install() {
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    const stream = new Output(fd);
    Object.defineProperty(process, name, { value: stream, writable: true, enumerable: true, configurable: true });
  }
}

/** A line of ours among the errors. */
function complain(text) {
  try {
    writeAll(2, kept.bufferFrom(text, 'utf8'));
  } catch {
    // closed
  }
}

module.exports = { install, complain };
