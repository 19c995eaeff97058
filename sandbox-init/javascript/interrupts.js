'use strict';
/*
 * The interrupt of a cell, in the main thread; interrupt-thread.js is the other side.
 *
 * Both share an array of numbers. GUARD says who may act: FREE, OURS (Cloister's own code changes its state, and must not be ended in the
 * middle) or ENDING (the thread has asked V8 to end what runs). A change to ENDING or OURS is made only from FREE.
 */

const { Worker } = require('worker_threads');
const kept = require('./intrinsics.js');
const { GUARD, CELL, SEEN, EXIT, NEVER, AGE, STOP, FREE, OURS, BYTES, READY, ASKED, INTERRUPT } = require('./interrupt-fields.js');

const { load, store, compareExchange, monotonic, wait } = kept;
const on = kept.uncurried(Worker.prototype.on);
const ref = kept.uncurried(Worker.prototype.ref);
const unref = kept.uncurried(Worker.prototype.unref);
const postMessage = kept.uncurried(Worker.prototype.postMessage);

// V8 reserves 512 MiB of code for a thread that names no size.
const LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, codeRangeSizeMb: 8, stackSizeMb: 1 };

const START_MS = 1000;

class Interrupts {
  /** onMessage: called in the event loop, perhaps repeatedly, with whether the cell that isFor() names must end. Otherwise code that called
   * endCaller() has ended. */
  constructor(onMessage) {
    const memory = new SharedArrayBuffer(BYTES);
    this._fields = new Int32Array(memory);
    this._ages = new BigInt64Array(memory);
    this._onMessage = onMessage;
    this._origin = monotonic() - BigInt(Math.round(process.uptime() * 1e9));
    this._thread = null;
    this._isStarted = false;
    this._cell = 0;
    // Until the thread handles signals. If code blocks this thread meanwhile, the broker's reminder reaches the other one.
    process.on('SIGINT', () => {
      if (load(this._fields, READY) === 0) {
        store(this._fields, ASKED, this._cell);
        onMessage(true);
      }
    });
  }

  /** Whether the interrupt is for the cell that runs; null: it came while none ran. */
  isFor() {
    const asked = load(this._fields, ASKED);
    return asked === 0 ? null : asked === this._cell;
  }

  /** Starts the thread if there is none. waits: an interrupt finds it ready when this returns. It keeps neither the loop nor the process alive. If code has changed what Node needs for it, the
   * session has none: the broker ends what does not end by itself, and the state is lost. */
  start(waits) {
    if (!this._isStarted) {
      this._begin();
    }
    for (let i = 0; waits && i < START_MS && this._thread !== null && load(this._fields, READY) === 0; i++) {
      wait(this._fields, NEVER, 0, 1);
    }
  }

  _begin() {
    this._isStarted = true;
    store(this._fields, SEEN, 0);
    try {
      const thread = new Worker(__dirname + '/interrupt-thread.js', {
        workerData: this._fields,
        execArgv: ['--expose-internals'],
        resourceLimits: LIMITS,
        env: {},
      });
      on(thread, 'message', (number) => thread === this._thread && this._receive(number));
      on(thread, 'error', () => thread === this._thread && kept.exit(1));
      unref(thread);
      this._thread = thread;
    } catch {
      // see above
    }
  }

  /** Ends the thread, which takes half of the memory of an idle session. Only while no cell runs. */
  stop() {
    if (this._thread !== null) {
      store(this._fields, READY, 0);
      postMessage(this._thread, STOP);
      this._thread = null;
      this._isStarted = false;
    }
  }

  /** Keeps the loop alive until release(), whatever code V8 ends: only a handle of Node itself does that. */
  hold() {
    if (this._thread !== null) {
      ref(this._thread);
    }
  }

  release() {
    if (this._thread !== null) {
      unref(this._thread);
    }
  }

  /** The same, unless Node says that something else keeps the loop alive, or the other thread is about to end code. */
  releaseIfAlone() {
    if (this.isFor()) {
      return;
    }
    this.release();
    if (kept.activeResources().length > 0) {
      this.hold();
    }
  }

  _receive(number) {
    store(this._fields, SEEN, number);
    this._onMessage((number & INTERRUPT) !== 0);
  }

  /** Whether Cloister's own code may act now. Otherwise the thread ends what runs, and onStop() is called after that. */
  enter() {
    return compareExchange(this._fields, GUARD, FREE, OURS) === FREE;
  }

  leave() {
    compareExchange(this._fields, GUARD, OURS, FREE);
  }

  begin(number) {
    this._ages[AGE] = monotonic() - this._origin;
    this._cell = number % 0x7fffffff || 1;
    store(this._fields, CELL, this._cell);
  }

  end() {
    this._cell = 0;
    store(this._fields, CELL, 0);
  }

  /** Ends the code that calls this, which does not continue, whatever it catches. */
  endCaller() {
    this.start();
    store(this._fields, EXIT, 1);
    if (this._thread === null) {
      kept.exit(1);
    }
    postMessage(this._thread, 0);
    for (;;) {
      wait(this._fields, NEVER, 0, 1);
    }
  }
}

module.exports = { Interrupts };
