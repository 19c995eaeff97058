'use strict';
/* JSON that carries values unchanged, or not at all. Integers that a number cannot represent are BigInts. */

const kept = require('./intrinsics.js');

const DEPTH_MAX = 120; // of nested containers: the broker refuses documents deeper than 128
const ITEMS_MAX = 1000 * 1000; // JSON_VALUES_MAX
const TOKEN = `\u0001${Math.random().toString(36).slice(2)}:`; // begins a string that stands for a BigInt
const MARKED = new RegExp(`"\\\\u0001${TOKEN.slice(1)}(-?\\d+)"`, 'g');
// Numbers that JSON.parse() may change: many digits, or a large exponent.
const SUSPECT = /\d{16}|\d[eE]\+?\d{3}/;
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A value that JSON cannot carry unchanged. path: where, as code would write it behind the whole. */
class Unfit extends Error {
  constructor(reason, path) {
    super(reason);
    this.path = path;
  }
}

const HINTS = [
  [Map, ': use Object.fromEntries()'],
  [Set, ': use an array'],
  [ArrayBuffer, ': use base64'],
  [Promise, ': await it first'],
];

function hintOf(value) {
  if (ArrayBuffer.isView(value)) return ': use base64, or Array.from()';
  for (const [kind, hint] of HINTS) if (value instanceof kind) return hint;
  return null;
}

function member(path, key) {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

class Checker {
  constructor() {
    this.items = 0;
    this.hasBig = false;
  }

  check(value, path, depth) {
    if (++this.items > ITEMS_MAX) throw new Unfit(`more than ${ITEMS_MAX} values; pass fewer, or text`, '');
    switch (typeof value) {
      case 'string':
        return this._checkText(value, path);
      case 'number':
        if (!kept.isFinite(value)) throw new Unfit(`${value} is not a JSON number`, path);
        return undefined;
      case 'boolean':
        return undefined;
      case 'bigint':
        this.hasBig = true;
        return undefined;
      case 'object':
        return value === null ? undefined : this._checkObject(value, path, depth);
      default:
        throw new Unfit(`${typeof value} is not a JSON value`, path);
    }
  }

  _checkText(text, path) {
    if (!text.isWellFormed()) throw new Unfit('a lone surrogate is not text', path);
  }

  _checkObject(value, path, depth) {
    if (depth >= DEPTH_MAX) throw new Unfit(`more than ${DEPTH_MAX} levels of arrays and objects, or a cycle`, '');
    if (kept.isArray(value)) {
      for (let i = 0; i < value.length; i++) this.check(value[i], `${path}[${i}]`, depth + 1);
      return;
    }
    if (typeof value.toJSON === 'function') {
      const hint = hintOf(value);
      if (hint !== null) throw new Unfit(`${value.constructor?.name} is not a JSON value${hint}`, path);
      this.check(value.toJSON(), path, depth + 1);
      return;
    }
    const hint = hintOf(value);
    if (hint !== null) throw new Unfit(`${value.constructor?.name} is not a JSON value${hint}`, path);
    for (const key of Object.keys(value)) {
      const item = value[key];
      if (item === undefined) continue;
      this._checkText(key, path);
      this.check(item, member(path, key), depth + 1);
    }
  }
}

/** JSON of a value of the code. Throws Unfit, with the path, if JSON would change a part of it. */
function encode(value) {
  const checker = new Checker();
  checker.check(value, '', 0);
  if (!checker.hasBig) return kept.stringify(value);
  const text = kept.stringify(value, (key, item) => (typeof item === 'bigint' ? `${TOKEN}${item}` : item));
  return text.replace(MARKED, '$1');
}

function unmark(key, value) {
  return typeof value === 'string' && value.startsWith(TOKEN) ? BigInt(value.slice(TOKEN.length)) : value;
}

function markNumber(token) {
  if (token[0] === '"') return token;
  const number = Number(token);
  if (!Number.isFinite(number)) throw new RangeError(`${token.slice(0, 32)} is beyond the range of a number`);
  return /^-?\d+$/.test(token) && !Number.isSafeInteger(number) ? JSON.stringify(TOKEN + token) : token;
}

/** The value of JSON text. Throws for text that is not JSON, and for a number that cannot be represented. */
function decode(text) {
  if (!SUSPECT.test(text)) return kept.parse(text);
  return kept.parse(text.replace(TOKENS, markNumber), unmark);
}

module.exports = { encode, decode, Unfit };
