'use strict';
/*
 * Knows the timers that the running cell has started: those of a cell that is interrupted do not fire, and while the session stands
 * still (docs/standing-still.md) they keep the time that was left. For that they wait PARKED ms meanwhile: Node runs timers that
 * are due before it reads the frame that says how long the session has stood still.
 */

const timers = require('timers');
const { promisify } = require('util');
const { syncBuiltinESMExports } = require('module');
const kept = require('./intrinsics.js');

const PRUNED_AT = 1000; // timers that are remembered before those that have fired are forgotten
const PARKED = 2 ** 31 - 1; // ms

const refresh = kept.uncurried(kept.getPrototypeOf(kept.clearedTimeout()).refresh);
let parked = null; // timer -> ms that were left; null: the session does not stand still

let started = new kept.Set();
let most = PRUNED_AT;

/** Node's time of the current turn of the loop, in ms. */
function now() {
  return kept.clearedTimeout()._idleStart;
}

function wait(timer, ms) {
  timer._idleTimeout = ms;
  refresh(timer);
}

function park(timer, at) {
  if (!timer._destroyed && !parked.has(timer)) {
    parked.set(timer, timer._idleTimeout - (at - timer._idleStart));
    wait(timer, PARKED);
  }
}

/** The session is about to stand still. */
function stop() {
  if (parked === null) {
    parked = new kept.Map();
    const at = now();
    started.forEach((timer) => park(timer, at));
  }
}

/** It continues. */
function go() {
  const all = parked;
  parked = null;
  if (all !== null) {
    all.forEach((left, timer) => {
      // The code may have set it anew.
      if (!timer._destroyed && timer._idleTimeout === PARKED) {
        wait(timer, left > 1 ? left : 1);
      }
    });
  }
}

function remember(timer) {
  started.add(timer);
  if (parked !== null) {
    park(timer, now());
  }
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

module.exports = { install, forget, clear, stop, go };
