'use strict';
/*
 * Frames to and from the broker (docs/rpc.md), and the calls that wait for an answer.
 *
 * Theory of operation. libuv reads the socket into one buffer and calls onRead(). Frames are delivered there; code that waits for an
 * answer continues in a microtask after that. A frame is written at once, except that those of one turn are gathered up to QUEUED_MAX
 * bytes. What the socket does not take is left to libuv, which sends it while the loop turns: so a sender reads, too.
 *
 * The interrupt thread may end whatever code runs in this thread, except while `guard` is held (interrupts.js). All that changes the
 * state of the channel happens while it is held; bytes that come while it cannot be had are kept for the next time.
 */

const net = require('net');
const fs = require('fs');
const kept = require('./intrinsics.js');
const { RETURN, DROP } = require('./frames.js');

const { alloc, byteLength, writeUtf8, utf8, setBytes, Bytes, push, shift, exit, nextTick, process } = kept;
const { writeSync } = fs;
const write = kept.uncurried(net.Socket.prototype.write);
const ref = kept.uncurried(net.Socket.prototype.ref);
const unref = kept.uncurried(net.Socket.prototype.unref);

const HEADER = 16;
const QUEUED_MAX = 512; // as the Python worker: while more calls are made, the broker sends these on
const READ = 64 * 1024;
const PAYLOAD_MAX = 64 * 1024 * 1024;
const IN_MEMFD = 1;
const LOST = 113; // FRAME_EXIT_LOST
const TWO_32 = 4294967296;
const never = new Int32Array(new SharedArrayBuffer(4));

function lose() {
  exit(LOST);
}

function readNumber(from, at) {
  return from[at] + from[at + 1] * 256 + from[at + 2] * 65536 + from[at + 3] * 16777216;
}

function writeNumber(to, at, number) {
  to[at] = number;
  to[at + 1] = number >>> 8;
  to[at + 2] = number >>> 16;
  to[at + 3] = number >>> 24;
}

/** A frame as bytes. payload: a string, or bytes. */
function encode(type, id, payload) {
  const isText = typeof payload === 'string';
  const length = isText ? byteLength(payload) : payload.length;
  const frame = alloc(HEADER + length);
  writeNumber(frame, 0, length);
  frame[4] = type;
  frame[5] = frame[6] = frame[7] = 0;
  writeNumber(frame, 8, id >>> 0);
  writeNumber(frame, 12, (id - (id >>> 0)) / TWO_32);
  if (isText) {
    writeUtf8(frame, payload, HEADER, length);
  } else {
    setBytes(frame, payload, HEADER);
  }
  return frame;
}

class Channel {
  /** on: type of a frame -> function(id, bytes of the payload), except RETURN. guard: {enter(), leave()}. after: called when the
   * frames that have come are delivered, and guard is not held. */
  constructor(fd, on, guard, after) {
    this._fd = fd;
    this._on = on;
    this._guard = guard;
    this._after = after;
    this._next = 1;
    this._waiting = new kept.Map(); // id -> {resolve, run}
    this._late = []; // bytes that came while the guard could not be had
    this._frame = null; // a frame of which a part has come
    this._filled = 0;
    this._head = new Bytes(HEADER);
    this._queue = [];
    this._queued = 0;
    this._backlog = 0; // writes that libuv has not finished
    this._isHeld = true; // whether the channel alone keeps the loop alive
    this._flush = () => this.flush();
    this._written = () => {
      this._backlog--;
    };
    const buffer = new Bytes(READ);
    this._socket = new net.Socket({
      fd,
      readable: true,
      writable: true,
      onread: { buffer, callback: (n) => this._receive(buffer, n) },
    });
    this._socket.on('end', lose);
    this._socket.on('error', lose);
    this._socket.on('close', lose);
  }

  /* ---- reading ---- */

  _receive(buffer, n) {
    if (!this._guard.enter()) {
      const copy = new Bytes(n);
      setBytes(copy, new Bytes(buffer.buffer, 0, n), 0);
      push(this._late, copy);
      return;
    }
    this._takeLate();
    this._take(buffer, n);
    this._guard.leave();
    this._after();
  }

  /** Delivers what came while the guard could not be had. With the guard held. */
  takeLate() {
    this._takeLate();
  }

  _takeLate() {
    while (this._late.length > 0) {
      const bytes = shift(this._late);
      this._take(bytes, bytes.length);
    }
  }

  _take(bytes, n) {
    let at = 0;
    while (at < n) {
      if (this._frame === null) {
        at = this._takeHead(bytes, at, n);
      } else {
        const missing = this._frame.length - this._filled;
        const some = missing < n - at ? missing : n - at;
        setBytes(this._frame, new Bytes(bytes.buffer, bytes.byteOffset + at, some), this._filled);
        this._filled += some;
        at += some;
      }
      if (this._frame !== null && this._filled === this._frame.length) {
        const payload = this._frame;
        this._frame = null;
        this._filled = 0;
        this._deliver(payload);
      }
    }
  }

  /** Copies bytes of a header. When it is whole, there is room for the payload. */
  _takeHead(bytes, from, n) {
    let at = from;
    while (at < n && this._filled < HEADER) {
      this._head[this._filled++] = bytes[at++];
    }
    if (this._filled === HEADER) {
      const length = this._head[5] & IN_MEMFD ? 0 : readNumber(this._head, 0);
      if (length > PAYLOAD_MAX) {
        lose();
      }
      this._filled = 0;
      this._frame = alloc(length);
    }
    return at;
  }

  _deliver(payload) {
    const type = this._head[4];
    const id = readNumber(this._head, 8) + readNumber(this._head, 12) * TWO_32;
    if (type !== RETURN) {
      const handler = this._on[type];
      if (handler !== undefined) {
        handler(id, payload);
      }
      return;
    }
    const waiter = this._waiting.get(id);
    this._waiting.delete(id);
    this._hold();
    if (this._head[5] & IN_MEMFD) {
      // Node cannot receive a descriptor.
      this.send(DROP, id, '{"lost":true}');
    }
    if (waiter !== undefined) {
      waiter.resolve(this._head[5] & IN_MEMFD ? null : utf8(payload, 0, payload.length));
    }
  }

  /* ---- writing ---- */

  /** Sends a frame now. */
  send(type, id, payload) {
    const frame = encode(type, id, payload);
    this.flush();
    this._put(frame);
  }

  _put(frame) {
    let sent = 0;
    if (this._backlog === 0) {
      try {
        sent = writeSync(this._fd, frame, 0, frame.length);
      } catch (error) {
        if (error.code !== 'EAGAIN') {
          lose();
        }
      }
    }
    if (sent < frame.length) {
      this._backlog++;
      write(this._socket, sent > 0 ? new Bytes(frame.buffer, frame.byteOffset + sent, frame.length - sent) : frame, this._written);
    }
  }

  _enqueue(frame) {
    if (this._queue.length === 0) {
      nextTick.call(process, this._flush);
    }
    push(this._queue, frame);
    this._queued += frame.length;
    if (this._queued > QUEUED_MAX) {
      this.flush();
    }
  }

  flush() {
    const queue = this._queue;
    if (queue.length === 0) {
      return;
    }
    const total = this._queued;
    this._queue = [];
    this._queued = 0;
    if (queue.length === 1) {
      this._put(queue[0]);
      return;
    }
    const all = alloc(total);
    for (let i = 0, at = 0; i < queue.length; i++) {
      setBytes(all, queue[i], at);
      at += queue[i].length;
    }
    this._put(all);
  }

  /* ---- calls ---- */

  /** Sends a frame that is answered. run: of the cell that asks. Returns a promise of the text of the RETURN, null if that was lost. */
  call(type, payload, run) {
    const id = this._next++;
    const frame = encode(type, id, payload);
    const promise = new kept.Promise((resolve) => this._waiting.set(id, { resolve, run }));
    this._hold();
    this._enqueue(frame);
    return promise;
  }

  /** As call(), and waits for the answer: nothing else of the session runs meanwhile. Returns null if it was lost, or if the thread of
   * interrupts is about to end this code. */
  callNow(type, payload, run) {
    const id = this._next++;
    const buffer = new Bytes(READ);
    let answer;
    this._waiting.set(id, { resolve: (text) => { answer = text; }, run });
    this.send(type, id, payload);
    while (answer === undefined) {
      let n = 0;
      try {
        n = kept.readSync(this._fd, buffer, 0, READ, null);
      } catch (error) {
        if (error.code !== 'EAGAIN') {
          lose();
        }
        kept.wait(never, 0, 0, 1);
        continue;
      }
      if (n === 0) {
        lose();
      }
      if (!this._guard.enter()) {
        const copy = new Bytes(n);
        setBytes(copy, new Bytes(buffer.buffer, 0, n), 0);
        push(this._late, copy);
        return null;
      }
      this._takeLate();
      this._take(buffer, n);
      this._guard.leave();
    }
    return answer;
  }

  /** The calls of a cell that was ended get no answer: its code does not continue. */
  dropCalls(run) {
    this._waiting.forEach((waiter, id) => {
      if (waiter.run === run) {
        this._waiting.delete(id);
        this.send(DROP, id, '{}');
      }
    });
    this._hold();
  }

  /** Whether the channel alone keeps the event loop alive. A call that waits always does. */
  holdLoop(does) {
    this._isHeld = does;
    this._hold();
  }

  _hold() {
    (this._isHeld || this._waiting.size > 0 ? ref : unref)(this._socket);
  }
}

module.exports = { Channel };
