'use strict';
/*
 * The functions that a result depends on, kept before code of the guest runs: the code may replace each property of each
 * built-in object. In files that use them: no `for…of`, no spread and no destructuring of arrays (they call a replaceable
 * iterator), no assignment to a property that the object does not have (it calls a setter of Object.prototype).
 */

const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf, defineProperty } = Reflect;
const { bind, call } = Function.prototype;

/** A function whose first argument is what `this` is in a method. */
const uncurried = bind.bind(call);

/** A class with the methods of another one as its own, which no change to that one's prototype reaches. */
function copyOf(Base) {
  const Copy = class extends Base {};
  const keys = ownKeys(Base.prototype);
  for (let i = 0; i < keys.length; i++) {
    if (keys[i] !== 'constructor') {
      defineProperty(Copy.prototype, keys[i], getOwnPropertyDescriptor(Base.prototype, keys[i]));
    }
  }
  Object.setPrototypeOf(Copy.prototype, null);
  return Object.freeze(Copy);
}

const bytes = Buffer.prototype;
const { setTimeout, clearTimeout } = globalThis;
const nothing = () => {};

module.exports = Object.freeze({
  __proto__: null,
  uncurried,
  apply,
  ownKeys,
  getPrototypeOf,
  getOwnPropertyDescriptor,
  defineProperty,
  Map: copyOf(Map),
  Set: copyOf(Set),
  Promise,
  then: uncurried(Promise.prototype.then),
  isArray: Array.isArray,
  isError: require('util').types.isNativeError,
  isPromise: require('util').types.isPromise,
  isProxy: require('util').types.isProxy,
  objectPrototype: Object.prototype,
  arrayPrototype: Array.prototype,
  stringify: JSON.stringify,
  parse: JSON.parse,
  inspect: require('util').inspect,
  alloc: Buffer.allocUnsafeSlow,
  byteLength: Buffer.byteLength,
  bufferFrom: Buffer.from,
  Bytes: Uint8Array,
  writeUtf8: uncurried(bytes.utf8Write),
  utf8: uncurried(bytes.utf8Slice),
  base64: uncurried(bytes.base64Slice),
  setBytes: uncurried(Object.getPrototypeOf(Uint8Array.prototype).set),
  slice: uncurried(String.prototype.slice),
  lastIndexOf: uncurried(String.prototype.lastIndexOf),
  startsWith: uncurried(String.prototype.startsWith),
  includes: uncurried(String.prototype.includes),
  isWellFormed: uncurried(String.prototype.isWellFormed),
  replace: uncurried(String.prototype.replace),
  split: uncurried(String.prototype.split),
  push: uncurried(Array.prototype.push),
  shift: uncurried(Array.prototype.shift),
  floor: Math.floor,
  isFinite: Number.isFinite,
  isInteger: Number.isInteger,
  String,
  nextTick: process.nextTick,
  process,
  readSync: require('fs').readSync,
  setImmediate,
  setTimeout,
  setInterval,
  clearTimeout,
  /** A timer that does not fire. */
  clearedTimeout: () => {
    const timer = setTimeout(nothing, 1);
    clearTimeout(timer);
    return timer;
  },
  activeResources: process.getActiveResourcesInfo.bind(process),
  wait: Atomics.wait,
  load: Atomics.load,
  store: Atomics.store,
  compareExchange: Atomics.compareExchange,
  monotonic: process.hrtime.bigint,
  exit: process.reallyExit.bind(process),
});
