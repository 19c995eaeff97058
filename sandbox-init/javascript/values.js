'use strict';
/* The value of a cell's last expression, as text and as JSON. */

const kept = require('./intrinsics.js');
const { printable, cut } = require('./text.js');

const { getOwnPropertyDescriptor, getPrototypeOf, ownKeys, isArray, stringify, inspect } = kept;

const REPR_MAX = 256 * 1024;
const JSON_MAX = 64 * 1024;
const DEPTH_MAX = 120;
const SHOWN = { depth: 6, maxArrayLength: 200, maxStringLength: REPR_MAX, breakLength: 120 };
const SHOWN_TEXT = { maxStringLength: REPR_MAX, breakLength: Infinity };

class Inexact extends Error {}

const INEXACT = new Inexact();

/** Appends JSON of a value. Throws INEXACT where JSON would change it. Runs no code of the guest. */
function append(pieces, value, depth) {
  if (value === null || typeof value === 'boolean') {
    return add(pieces, `${value}`);
  }
  if (typeof value === 'string') {
    if (value.length > JSON_MAX || !kept.isWellFormed(value)) {
      throw INEXACT;
    }
    return add(pieces, stringify(value));
  }
  if (typeof value === 'number') {
    if (!kept.isFinite(value) || (value === 0 && 1 / value < 0)) {
      throw INEXACT;
    }
    return add(pieces, `${value}`);
  }
  if (typeof value !== 'object' || depth > DEPTH_MAX || kept.isProxy(value)) {
    throw INEXACT;
  }
  return isArray(value) ? appendArray(pieces, value, depth) : appendObject(pieces, value, depth);
}

function add(pieces, text) {
  pieces.left -= text.length;
  if (pieces.left < 0) {
    throw INEXACT;
  }
  pieces.text += text;
}

function appendMember(pieces, object, key, depth) {
  const property = getOwnPropertyDescriptor(object, key);
  if (property === undefined || property.get !== undefined || property.set !== undefined || !property.enumerable) {
    throw INEXACT;
  }
  append(pieces, property.value, depth + 1);
}

function appendArray(pieces, array, depth) {
  const { length } = array;
  if (getPrototypeOf(array) !== kept.arrayPrototype || length > JSON_MAX || ownKeys(array).length !== length + 1) {
    throw INEXACT;
  }
  add(pieces, '[');
  for (let i = 0; i < length; i++) {
    if (i > 0) {
      add(pieces, ',');
    }
    appendMember(pieces, array, i, depth);
  }
  add(pieces, ']');
}

function appendObject(pieces, object, depth) {
  const prototype = getPrototypeOf(object);
  if (prototype !== kept.objectPrototype && prototype !== null) {
    throw INEXACT;
  }
  const keys = ownKeys(object);
  add(pieces, '{');
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== 'string' || !kept.isWellFormed(keys[i])) {
      throw INEXACT;
    }
    add(pieces, `${i > 0 ? ',' : ''}${stringify(keys[i])}:`);
    appendMember(pieces, object, keys[i], depth);
  }
  add(pieces, '}');
}

/** JSON that represents the value exactly, or undefined. */
function exactJson(value) {
  const pieces = { __proto__: null, text: '', left: JSON_MAX };
  try {
    append(pieces, value, 0);
    return pieces.text;
  } catch {
    return undefined;
  }
}

/** As the REPL of Node shows it. May run code of the guest. */
function show(value) {
  let text;
  try {
    text = inspect(value, typeof value === 'string' ? SHOWN_TEXT : SHOWN);
  } catch (error) {
    text = `<a value that cannot be shown: ${describeShortly(error)}>`;
  }
  return cut(printable(typeof text === 'string' ? text : ''), REPR_MAX);
}

function describeShortly(error) {
  try {
    return cut(kept.String(error), 500);
  } catch {
    return 'an error that has no text';
  }
}

/** The member `value` of a RESULT, as JSON. */
function describeValue(value) {
  if (typeof value === 'number' && kept.isInteger(value) && value !== 0) {
    return `{"repr":"${value}","json":${value}}`;
  }
  const json = exactJson(value);
  const repr = stringify(show(value));
  return json === undefined ? `{"repr":${repr}}` : `{"repr":${repr},"json":${json}}`;
}

module.exports = { describeValue, describeShortly, show };
