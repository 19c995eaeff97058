'use strict';
/*
 * A second thread: SIGINT of init reaches it while the main thread runs code that does not end.
 *
 * It asks the main thread to end the cell by a message, which that handles in its event loop. If it does not within PATIENCE_MS, it runs
 * code: V8 is asked to end that (Runtime.terminateExecution), and the message is repeated. SIGURG, by which the broker repeats
 * its request, does the same.
 */

const { parentPort, workerData } = require('worker_threads');
const { Session } = require('inspector');
const { readdirSync, readFileSync } = require('fs');
const { GUARD, CELL, SEEN, EXIT, AGE, READY, ASKED, STOP, FREE, ENDING, INTERRUPT } = require('./interrupt-fields.js');

process.emitWarning = () => {}; // internals are used on purpose: Node gives threads no other access to signals
const { Signal } = require('internal/test/binding').internalBinding('signal_wrap');

const SIGINT = 2;
const SIGURG = 23; // WORKER_REMIND
const SIGKILL = 9;
const PATIENCE_MS = 10;
const CHILDREN_AFTER_MS = 150; // then the main thread waits for a process that it has started
const TICKS = 100; // a second has, in /proc/PID/stat

const fields = workerData;
const ages = new BigInt64Array(fields.buffer);
let number = 0;
let timer = null;
let isEnding = false;
let isAsked = false; // by a signal
let since = 0;
let target = 0; // the cell that must end

const session = new Session();
session.connectToMainThread();

function tell() {
  number = ((number & ~INTERRUPT) + 2) | (isAsked ? INTERRUPT : 0);
  parentPort.postMessage(number);
}

function onSignal() {
  isAsked = true;
  target = Atomics.load(fields, CELL);
  Atomics.store(fields, ASKED, target);
  if (timer === null && !isEnding) {
    since = Date.now();
    tell();
    timer = setTimeout(insist, PATIENCE_MS);
  }
}

function insist() {
  timer = null;
  if (Atomics.load(fields, SEEN) === number) {
    isAsked = false;
    return;
  }
  if (Date.now() - since > CHILDREN_AFTER_MS) {
    killChildren();
  }
  end();
}

function end() {
  if (isEnding) {
    return;
  }
  clearTimeout(timer);
  if (Atomics.compareExchange(fields, GUARD, FREE, ENDING) !== FREE) {
    timer = setTimeout(insist, 1);
    return;
  }
  isEnding = true;
  session.post('Runtime.terminateExecution', () => {
    isEnding = false;
    Atomics.compareExchange(fields, GUARD, ENDING, FREE);
    again();
  });
  // Where nothing ran after all, this is what V8 ends.
  tell();
  timer = setTimeout(watchChildren, CHILDREN_AFTER_MS);
}

function again() {
  clearTimeout(timer);
  tell();
  timer = setTimeout(insist, PATIENCE_MS);
}

/** V8 cannot end a system call: the main thread may wait for a process, as in execSync(). */
function watchChildren() {
  timer = null;
  if (isEnding) {
    killChildren();
    timer = setTimeout(watchChildren, CHILDREN_AFTER_MS);
  }
}

/** {parent, start} of a process; undefined if it has ended. */
function statOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const numbers = stat.slice(stat.lastIndexOf(')') + 2).split(' ').map(Number);
    return { parent: numbers[1], start: numbers[19] };
  } catch {
    return undefined;
  }
}

function isOver() {
  return target === 0 || Atomics.load(fields, CELL) !== target;
}

/** Kills the processes that the cell has started, and theirs: one that is left would keep a pipe open that is read to its end. Those of the
 * next cell stay. */
function killChildren() {
  if (isOver()) {
    return;
  }
  const from = statOf('self').start + (Number(ages[AGE]) / 1e9) * TICKS - 2;
  const young = new Map();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(name) : undefined;
    if (stat !== undefined && stat.start >= from) {
      young.set(Number(name), stat.parent);
    }
  }
  for (const pid of young.keys()) {
    let above = pid;
    for (let i = 0; i < young.size && above !== process.pid && above !== undefined; i++) {
      above = young.get(above);
    }
    if (above === process.pid && pid !== process.pid && !isOver()) {
      try {
        process.kill(pid, SIGKILL);
      } catch {
        // it has ended
      }
    }
  }
}

for (const signal of [SIGINT, SIGURG]) {
  const handle = new Signal();
  handle.onsignal = onSignal;
  handle.start(signal);
}

/** The code has called process.exit(): it waits, and does not continue. */
function onExit() {
  if (Atomics.exchange(fields, EXIT, 0) === 1) {
    isAsked = isAsked && Atomics.load(fields, SEEN) !== number;
    since = Date.now();
    target = Atomics.load(fields, CELL);
    end();
  }
}

Atomics.store(fields, READY, 1);
parentPort.on('message', (message) => {
  if (message === STOP) {
    session.disconnect();
    process.exit(); // of this thread
  }
  onExit();
});
onExit();
