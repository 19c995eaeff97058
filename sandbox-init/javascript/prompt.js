'use strict';
/* Answers the questions of an interactive prompt: whether a block of code continues, and names that begin with a text. */

const acorn = require('./acorn.js');
const kept = require('./intrinsics.js');

const NAMES_MAX = 200;

/** Whether the code ends before its last block does. */
function continues(source) {
  try {
    acorn.parse(source, { ecmaVersion: 'latest', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true });
    return false;
  } catch (error) {
    return error.pos >= source.trimEnd().length || /^Unterminated (template|comment)/.test(error.message);
  }
}

/** Names that begin with the text, which is a name or a path of names. No getter is called. */
function complete(text) {
  const [, path, start] = /^(?:(.*)\.)?([\w$]*)$/.exec(text) ?? [];
  if (start === undefined) return [];
  let at = globalThis;
  for (const name of path ? path.split('.') : []) {
    let holder = at;
    while (holder != null && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder);
    at = holder == null ? undefined : Object.getOwnPropertyDescriptor(holder, name).value;
    if (at == null || kept.isProxy(at)) return [];
  }
  const found = new Set();
  for (let holder = Object(at); holder !== null; holder = Object.getPrototypeOf(holder)) {
    for (const name of Object.getOwnPropertyNames(holder)) {
      if (name.startsWith(start) && /^[A-Za-z$][\w$]*$/.test(name)) found.add(path ? `${path}.${name}` : name);
    }
  }
  return [...found].sort().slice(0, NAMES_MAX);
}

/** The RESULT of a PROBE. */
function answer(payload) {
  let value = null;
  try {
    const { what, source, text } = kept.parse(payload);
    value = what === 'more' ? continues(source) : complete(text);
  } catch {
    value = false;
  }
  return `{"status":"ok","value":{"repr":"","json":${kept.stringify(value)}}}`;
}

module.exports = { answer };
