'use strict';
/* The machine as the code sees it: the processors and the memory that it may use, and how many threads it may start. */

const os = require('os');
const workers = require('worker_threads');
const { syncBuiltinESMExports } = require('module');
const kept = require('./intrinsics.js');

const OWN_THREADS = 2; // the main one, and that of interrupts.js

/** Threads that code has started and that have not ended: thread -> the cell. */
const threads = new kept.Map();

/** settings: those of main.js. currentRun(): the cell that runs. */
function install(settings, currentRun) {
  const memory = settings.memory || os.totalmem();
  const times = { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 };
  const count = settings.cpus || 1;
  os.cpus = () => Array.from({ length: count }, () => ({ model: 'cpu', speed: 0, times: { ...times } }));
  os.availableParallelism = () => count;
  os.totalmem = () => memory;
  os.freemem = () => Math.max(0, memory - process.memoryUsage.rss());
  process.constrainedMemory = () => memory;
  process.availableMemory = os.freemem;
  limitThreads(settings.isolates ? Math.max(0, settings.isolates - OWN_THREADS) : Infinity, currentRun);
  syncBuiltinESMExports();
}

function limitThreads(most, currentRun) {
  workers.Worker = class Worker extends workers.Worker {
    constructor(...given) {
      if (threads.size >= most) {
        throw new Error(`this sandbox has memory for ${most} worker threads at a time: end one with terminate() first`);
      }
      super(...given);
      threads.set(this, currentRun());
      this.once('exit', () => threads.delete(this));
    }
  };
}

/** Ends the threads that a cell has started. */
function endThreads(run) {
  threads.forEach((of, thread) => {
    if (of === run) {
      thread.terminate().catch(() => {});
    }
  });
}

module.exports = { install, endThreads };
