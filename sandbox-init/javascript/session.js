'use strict';
/*
 * The main loop of a worker: runs cells, sends their results.
 *
 * A cell ends in one of these ways; the first one counts:
 *
 *     its code ran to the end, or threw             settle()
 *     a script: and the event loop is empty         onEmpty()
 *     an exception that nothing caught              onUncaught()
 *     SIGINT, or process.exit()                     onMessage(): nothing of the code continues
 *     nothing can settle the promise it awaits      onEmpty()
 *
 * Between cells timers and servers of earlier cells go on, because the event loop turns.
 */

const kept = require('./intrinsics.js');
const frames = require('./frames.js');
const { Channel } = require('./channel.js');
const { Interrupts } = require('./interrupts.js');
const { Installer, Modules } = require('./modules.js');
const { Cells, ENDED } = require('./cells.js');
const compiler = require('./compiler.js');
const machine = require('./machine.js');
const streams = require('./streams.js');
const timers = require('./timers.js');
const { Files } = require('./files.js');
const { Displays } = require('./display.js');
const { Scripts, takeSecrets } = require('./script.js');
const { Namespace } = require('./namespace.js');
const { describeValue, describeShortly } = require('./values.js');
const { addSource, describe } = require('./tracebacks.js');

const { utf8, lastIndexOf, slice, startsWith, stringify, push, shift, then } = kept;
const PREPARE_MS = 5;
const REST_MS = 30000;
const WATCH_MS = 20; // between two looks at what keeps the loop alive
const COMPLAINTS_MAX = 100; // about code in the background, between two cells
const WORKSPACE = '/workspace';
const NEVER_SETTLES = 'the code awaits a promise that nothing can settle any more: no timer, call or input is left';
const INTERRUPTED = '{"type":"Interrupted","message":"","traceback":"Interrupted\\n"}';
const LAST_WORDS = '{"status":"error","error":{"type":"Error","message":"the result could not be described","traceback":"Error\\n"}}';

function errorOf(message) {
  return `{"status":"error","error":{"type":"Error","message":${stringify(message)},"traceback":${stringify(`Error: ${message}\n`)}}}`;
}

class Session {
  constructor(settings) {
    this._waiting = []; // {number, payload, kind}
    this._needs = null; // {number, payload} of the last NEED
    this._installer = null;
    this._current = null;
    this._rested = 0; // what _answered was at the last _rest()
    this._complaints = 0;
    this._answered = 0; // the last cell that has a result
    this._isEarly = false; // an interrupt came before the cell that it is for
    this._backgroundExit = false;
    this._interrupts = new Interrupts((isInterrupt) => this._onMessage(isInterrupt));
    this._modules = new Modules(settings.directory ?? WORKSPACE);
    this._cells = new Cells(this._modules);
    this._files = new Files(settings.directory ?? WORKSPACE);
    this._channel = new Channel(settings.channel, this._handlers(), this._interrupts, () => this._turn());
    this._displays = new Displays(this._channel, this._files);
    this._scripts = new Scripts(this._channel, this._files, this._cells.ours);
    this._namespace = new Namespace(this._channel, this._cells.ours, this._displays);
    this._namespace.define('install', (...words) => this._installPackages(words));
    streams.install();
    timers.install();
    machine.install(settings, () => this._cells.ours.run);
    this._modules.addNames(globalThis);
    this._exit = (code) => this._onExit(code);
    process.on('uncaughtException', (error) => this._onUncaught(error, 'uncaughtException'));
    process.on('unhandledRejection', (reason) => this._onUncaught(reason, 'unhandledRejection'));
    process.on('beforeExit', () => {
      const { number } = this._current ?? {};
      try {
        this._onEmpty();
      } catch {
        this._giveUp(number);
      }
    });
  }

  _handlers() {
    const cell = (kind) => (number, payload) => push(this._waiting, { __proto__: null, number, payload, kind });
    const handlers = {
      __proto__: null,
      [frames.EXEC]: cell(frames.EXEC),
      [frames.CHECK]: cell(frames.CHECK),
      [frames.PROBE]: cell(frames.PROBE),
      [frames.CATALOG]: (version, payload) => this._namespace.onCatalogue(version, payload),
      [frames.NEED]: (number, payload) => {
        this._needs = { __proto__: null, number, payload };
      },
      [frames.SCRIPT]: (number, payload) => this._scripts.onFrame(payload),
      [frames.SECRETS]: (number, payload) => takeSecrets(payload),
      [frames.HOLD]: (number) => this._stand(number),
      [frames.HELD]: () => this._stand(0),
      [frames.KEEP]: (number) => this._channel.send(frames.KEPT, number, '{"why":"failed"}'),
    };
    for (const kind of [frames.FETCH, frames.PUT]) {
      handlers[kind] = (number, payload) => this._channel.send(frames.DATA, number, this._files.answer(kind, payload));
    }
    return handlers;
  }

  /** The session is about to stand still, as the HOLD of this number says; 0: it continues. */
  _stand(number) {
    try {
      (number !== 0 ? timers.stop : timers.go)();
    } catch {
      // the code has changed what Node itself uses
    }
    if (number !== 0) {
      // After the callbacks of this turn of the event loop, and those that they have set.
      kept.setImmediate(() => kept.setImmediate(() => this._settle(number)));
    }
  }

  /** An interrupt that comes now withdraws the question: nothing is sent then. */
  _settle(number) {
    if (this._interrupts.enter()) {
      this._channel.send(frames.SETTLED, number, '{}');
      this._interrupts.leave();
    }
  }

  /** Does what takes long at its first use, unless a cell comes before. */
  prepareLater() {
    const prepare = () => {
      this._namespace.loadTools();
      compiler.prepare();
      this._rehearse();
    };
    kept.setTimeout(prepare, PREPARE_MS).unref();
    kept.setInterval(() => this._rest(), REST_MS).unref();
  }

  /** Called now and then: gives memory back if no cell has run since the last time. */
  _rest() {
    if (this._current === null && this._rested === this._answered) {
      this._interrupts.stop();
    }
    this._rested = this._answered;
  }

  /** Runs the functions of a first cell once, so that V8 has compiled them when it comes. Nothing is sent. */
  _rehearse() {
    if (this._current !== null || this._waiting.length > 0) {
      return;
    }
    try {
      this._namespace.prepare('');
      const { value } = this._cells.run(0, '1 + 1', '<cell 0>');
      this._displays.value(value);
      describeValue(value);
      this._files.changed();
    } catch {
      // code of an earlier cell has changed what these use
    }
  }

  /* ---- the run of a cell ---- */

  _turn() {
    while (this._current === null && this._waiting.length > 0) {
      const next = shift(this._waiting);
      try {
        this._begin(next);
      } catch {
        this._giveUp(next.number); // the code has changed what Node itself uses
      }
    }
  }

  /** There is a result in any case. */
  _giveUp(number) {
    this._interrupts.end();
    this._interrupts.release();
    this._channel.holdLoop(true);
    this._current = null;
    if (this._answered !== number) {
      this._answered = number;
      this._channel.send(frames.RESULT, number, LAST_WORDS);
    }
  }

  _begin({ number, payload, kind }) {
    const text = utf8(payload, 0, payload.length);
    const end = lastIndexOf(text, '\0');
    const source = slice(text, 0, end);
    if (kind !== frames.EXEC) {
      this._reply(number, kind === frames.PROBE ? require('./prompt.js').answer(source) : errorOf('only Python code can be checked before it runs'));
      return;
    }
    const name = slice(text, end + 1) || `<cell ${number}>`;
    const isScript = !startsWith(name, '<cell ');
    const cell = { __proto__: null, number, isScript, isPython: false, outcome: null, exit: null, watch: null, constants: [] };
    const needs = this._needs !== null && this._needs.number === number ? this._needs.payload : null;
    this._needs = null;
    this._current = cell;
    if (this._isEarly) {
      this._isEarly = false;
      this._stop(cell);
      return;
    }
    process.exit = this._exit;
    this._complaints = 0;
    this._interrupts.begin(number);
    this._displays.begin(number);
    // Before the first cell there is nothing yet that an interrupt would have to keep: its thread starts beside it.
    this._interrupts.start(this._answered !== 0);
    if (needs === null || !this._provide(cell, needs, source, name)) {
      this._run(cell, source, name);
    }
  }

  _packages() {
    this._installer ??= new Installer(this._channel, this._modules);
    return this._installer;
  }

  _installPackages(words) {
    return this._packages().install(words, this._cells.ours.run);
  }

  /** Has the packages installed that the call names, and runs the cell then. Returns false if there is nothing to wait for. */
  _provide(cell, payload, source, name) {
    const { dependencies } = kept.parse(utf8(payload, 0, payload.length));
    const promise = this._packages().provide(dependencies, cell.number);
    if (promise === null) {
      return false;
    }
    const done = (error) => {
      if (cell !== this._current || cell.outcome !== null) {
        return;
      }
      if (error === null) {
        this._run(cell, source, name);
      } else {
        this._fail(cell, error);
      }
    };
    then(promise, done, done);
    return true;
  }

  _run(cell, source, name) {
    try {
      this._scripts.begin(source, name, cell);
      this._namespace.prepare(source);
      const { promise, value, constants } = cell.isPython ? this._runPython(source) : this._runCode(cell, source, name);
      cell.constants = constants;
      if (promise === null) {
        this._settle(cell, { __proto__: null, value, error: null, failed: false });
        return;
      }
      this._channel.holdLoop(false);
      if (!cell.isScript) {
        this._interrupts.hold();
        this._watch(cell);
      }
      const ok = (result) => this._settle(cell, { __proto__: null, value: result, error: null, failed: false });
      then(promise, ok, (error) => this._fail(cell, error));
    } catch (error) {
      this._fail(cell, error);
    }
  }

  _runCode(cell, source, name) {
    const unique = addSource(name, source);
    return this._cells[cell.isScript ? 'runScript' : 'run'](cell.number, source, unique, name);
  }

  _runPython(source) {
    return { __proto__: null, promise: require('./pyodide.js').run(source, this._namespace.loadTools().values, this._cells.ours.load), value: undefined, constants: [] };
  }

  /**
   * Without anything that could wake it, the code would wait for ever. libuv knows, and tells by beforeExit. But V8 may end what handles
   * that, and the process with it: so the loop is kept alive while Node lists something else that does the same.
   */
  _watch(cell) {
    cell.watch = kept.setTimeout(() => {
      if (cell.exit === null) {
        this._interrupts.releaseIfAlone();
      }
      this._watch(cell);
    }, WATCH_MS).unref();
  }

  _fail(cell, error) {
    this._settle(cell, { __proto__: null, value: undefined, error, failed: true });
  }

  _settle(cell, outcome) {
    if (cell !== this._current || cell.outcome !== null) {
      return;
    }
    cell.outcome = outcome;
    if (cell.isScript && !outcome.failed) {
      this._channel.holdLoop(false); // onEmpty() follows
    } else {
      this._finish(cell);
    }
  }

  _onEmpty() {
    const cell = this._current;
    if (cell === null) {
      return;
    }
    if (cell.exit !== null || this._interrupts.isFor()) {
      this._channel.holdLoop(true); // the message of the other thread is about to come
    } else if (cell.outcome === null) {
      this._fail(cell, new Error(NEVER_SETTLES));
    } else {
      this._finish(cell);
    }
  }

  _onUncaught(error, event) {
    if (error === ENDED || process.listenerCount(event) > 1) {
      return; // the code handles it
    }
    const cell = this._current;
    if (cell === null) {
      if (++this._complaints > COMPLAINTS_MAX) {
        return;
      }
      streams.complain(`cloister: an error in the background: ${describeShortly(error?.stack ?? error)}\n`);
    } else if (cell.outcome === null || cell.isScript) {
      cell.outcome = null;
      this._fail(cell, error);
    }
  }

  /* ---- its end ---- */

  /** Describes what the code has done, which may run code of the guest: an interrupt may end that. */
  _finish(cell) {
    const { value, error, failed } = cell.outcome;
    let described;
    try {
      if (failed) {
        described = `{"status":"error","error":${describe(error)}}`;
      } else if (cell.isPython) {
        described = `{"status":"ok","value":{"repr":${stringify(slice(value, 0, 80))},"json":${value}}}`;
      } else if (cell.isScript) {
        described = this._scripts.end();
      } else {
        const shown = value === undefined ? '' : this._displays.value(value) ?? `,"value":${describeValue(value)}`;
        described = `{"status":"ok"${shown}}`;
        this._cells.keepConstants(cell.constants);
        this._namespace.setLast(value);
      }
    } catch {
      described = LAST_WORDS;
    }
    if (cell !== this._current || !this._interrupts.enter()) {
      return; // it was interrupted meanwhile, or is about to be
    }
    this._complete(cell, described);
    this._interrupts.leave();
    this._turn();
  }

  /** With the guard held. Nothing of the cell's code continues. */
  _stop(cell) {
    if (!this._interrupts.enter()) {
      return;
    }
    this._cells.end(cell.number);
    this._channel.dropCalls(cell.number);
    machine.endThreads(cell.number);
    timers.clear();
    if (cell.exit === null) {
      this._complete(cell, `{"status":"interrupted","error":${INTERRUPTED}}`);
    } else {
      this._complete(cell, cell.exit === 0 ? '{"status":"ok"}' : `{"status":"exit","exit_code":${cell.exit}}`);
    }
    this._interrupts.leave();
  }

  _complete(cell, described) {
    this._interrupts.end();
    this._displays.end();
    timers.forget();
    this._current = null;
    this._channel.holdLoop(true);
    if (cell.watch !== null) {
      kept.clearTimeout(cell.watch);
      this._interrupts.release();
    }
    this._reply(cell.number, described);
  }

  _reply(number, described) {
    let files = '';
    try {
      files = this._files.changed();
    } catch {
      // the guest uses all descriptors or all memory
    }
    this._answered = number;
    this._channel.send(frames.RESULT, number, files === '' ? described : `${slice(described, 0, described.length - 1)},${files}}`);
  }

  /** Called in the event loop, when the other thread has ended code, or when the running cell must end. */
  _onMessage(isInterrupt) {
    if (!this._pump()) {
      return;
    }
    const cell = this._current;
    const isFor = isInterrupt ? this._interrupts.isFor() : false;
    if (cell !== null && (isFor !== false || cell.exit !== null)) {
      this._stop(cell);
    } else if (isFor === null) {
      // The cell may be in the socket. It is read before the event loop has turned twice.
      this._isEarly = true;
      kept.setImmediate(() => kept.setImmediate(() => {
        this._isEarly = false;
      }));
    }
    if (this._backgroundExit) {
      this._backgroundExit = false;
      streams.complain('cloister: code in the background called process.exit()\n');
    }
    this._turn();
  }

  /** Takes what came while the other thread was ending code. */
  _pump() {
    if (!this._interrupts.enter()) {
      return false;
    }
    this._channel.takeLate();
    this._interrupts.leave();
    return true;
  }

  /** process.exit() ends the code that calls it, and the cell; the session continues. */
  _onExit(code) {
    const cell = this._current;
    if (cell === null) {
      this._backgroundExit = true;
    } else {
      cell.exit = this._scripts.exitCode(code, cell.isScript);
    }
    this._interrupts.endCaller();
  }
}

module.exports = { Session };
