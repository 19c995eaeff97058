'use strict';
/* Knows the timers that the running cell has started, so that those of a cell that is interrupted do not fire. */

const timers = require('timers');
const { promisify } = require('util');
const { syncBuiltinESMExports } = require('module');
const kept = require('./intrinsics.js');

const PRUNED_AT = 1000; // timers that are remembered before those that have fired are forgotten

let started = new kept.Set();
let most = PRUNED_AT;

function remember(timer) {
  started.add(timer);
  if (started.size > most) {
    started.forEach((one) => {
      if (one._destroyed) {
        started.delete(one);
      }
    });
    most = Math.max(PRUNED_AT, started.size * 2);
  }
  return timer;
}

function wrap(name) {
  const start = timers[name];
  const wrapped = { [name]: (...given) => remember(kept.apply(start, undefined, given)) }[name];
  if (start[promisify.custom]) {
    Object.defineProperty(wrapped, promisify.custom, { enumerable: true, get: () => start[promisify.custom] });
  }
  timers[name] = globalThis[name] = wrapped;
}

function install() {
  wrap('setTimeout');
  wrap('setInterval');
  syncBuiltinESMExports();
}

/** The cell ends, and its timers go on. */
function forget() {
  if (started.size > 0) {
    started = new kept.Set();
    most = PRUNED_AT;
  }
}

/** The cell is interrupted. */
function clear() {
  started.forEach((timer) => kept.clearTimeout(timer));
  forget();
}

module.exports = { install, forget, clear };
