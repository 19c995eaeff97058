'use strict';
/*
 * Validates arguments before they are sent, and structured results, against a JSON Schema: the subset of 2020-12 that tools use.
 *
 * What is not supported (a remote $ref, a pattern that is not one of JavaScript, too much nesting) passes: the server validates too, and
 * a check here must not refuse what it would accept. Schemas come from servers: steps, depth and patterns have bounds, and
 * what a pattern takes is time of the cell, in its own sandbox.
 */

const { shorten } = require('./text.js');

const DEPTH_MAX = 64;
const STEPS_MAX = 200000;
const PATTERN_MAX = 1000; // characters of a pattern, which comes from the server
const MATCHED_MAX = 100000; // characters of a value that it is matched against
const UNIQUE_MAX = 2000;

const isNumber = (v) => typeof v === 'number' || typeof v === 'bigint';
const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
const has = (object, key) => Object.hasOwn(object, key) && object[key] !== undefined;

const TYPES = {
  __proto__: null,
  string: (v) => typeof v === 'string',
  boolean: (v) => typeof v === 'boolean',
  integer: (v) => typeof v === 'bigint' || Number.isInteger(v),
  number: isNumber,
  null: (v) => v === null,
  array: Array.isArray,
  object: isObject,
};

/** A member that is an object; {} without one. */
function objectIn(schema, key) {
  const value = isObject(schema) && has(schema, key) ? schema[key] : undefined;
  return isObject(value) ? value : {};
}

function listIn(schema, key) {
  const value = isObject(schema) && has(schema, key) ? schema[key] : undefined;
  return Array.isArray(value) ? value : [];
}

/** The schema that a local $ref refers to; true (any value) for other references. */
function resolve(reference, root) {
  if (reference === '#') return root;
  if (typeof reference !== 'string' || !reference.startsWith('#/')) return true;
  let at = root;
  for (const part of reference.slice(2).split('/')) {
    let key = part;
    try {
      key = decodeURIComponent(part);
    } catch {
      // as it is
    }
    key = key.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !has(at, key)) return true;
    at = at[key];
  }
  return at;
}

/** Compares as JSON does. */
function equal(a, b) {
  if (isNumber(a) && isNumber(b)) return a == b; // eslint-disable-line eqeqeq
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => has(b, key) && equal(a[key], b[key]));
  }
  return a === b;
}

/** A value as JSON, shortened. */
function show(value, limit = 60) {
  const text = JSON.stringify(value, (key, item) => (typeof item === 'bigint' ? String(item) : item));
  return shorten(text ?? String(value), limit);
}

/** Whether it begins with the name of a value, and is not a path in the arguments. */
function isNamed(path) {
  return path !== '' && path[0] !== '.' && path[0] !== '[';
}

function place(path) {
  if (isNamed(path)) return path;
  return path ? `argument "${path.replace(/^\./, '')}"` : 'the arguments';
}

function typeName(value) {
  return Object.keys(TYPES).find((name) => TYPES[name](value)) ?? typeof value;
}

function bound(schema, key, none) {
  return has(schema, key) && isNumber(schema[key]) ? schema[key] : none;
}

/** true, false, or null if it cannot be decided. */
function matches(pattern, text) {
  if (pattern.length > PATTERN_MAX || text.length > MATCHED_MAX) return null;
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return null;
  }
}

function checkString(value, schema, path) {
  const length = [...value.slice(0, MATCHED_MAX)].length + Math.max(0, value.length - MATCHED_MAX);
  const most = bound(schema, 'maxLength', Infinity);
  const least = bound(schema, 'minLength', 0);
  if (length > most) return `${place(path)} is ${length} characters long; at most ${most} are allowed`;
  if (length < least) return `${place(path)} is ${length} characters long; at least ${least} are needed`;
  if (typeof schema.pattern === 'string' && matches(schema.pattern, value) === false) {
    return `${place(path)} must match ${show(schema.pattern, 200)}, unlike ${show(value)}`;
  }
  return null;
}

const BOUNDS = [
  ['minimum', (v, b) => v >= b, 'at least'],
  ['maximum', (v, b) => v <= b, 'at most'],
  ['exclusiveMinimum', (v, b) => v > b, 'more than'],
  ['exclusiveMaximum', (v, b) => v < b, 'less than'],
];

function checkNumber(value, schema, path) {
  for (const [key, fits, text] of BOUNDS) {
    const limit = bound(schema, key, null);
    if (limit !== null && !fits(value, limit)) return `${place(path)} must be ${text} ${limit}, not ${show(value)}`;
  }
  const step = Number(bound(schema, 'multipleOf', 0));
  if (step > 0 && typeof value === 'number') {
    const parts = value / step;
    if (Math.abs(parts - Math.round(parts)) >= 1e-9 * Math.max(1, Math.abs(parts))) {
      return `${place(path)} must be a multiple of ${step}, not ${show(value)}`;
    }
  }
  return null;
}

function checkLength(value, schema, path) {
  const most = bound(schema, 'maxItems', Infinity);
  const least = bound(schema, 'minItems', 0);
  if (value.length > most) return `${place(path)} has ${value.length} items; at most ${most} are allowed`;
  if (value.length < least) return `${place(path)} has ${value.length} items; at least ${least} are needed`;
  if (schema.uniqueItems === true && value.length <= UNIQUE_MAX) {
    const twice = value.find((item, i) => value.findIndex((other) => equal(item, other)) !== i);
    if (twice !== undefined) return `${place(path)} has the item ${show(twice)} twice`;
  }
  return null;
}

function checkKeys(value, schema, path) {
  const missing = listIn(schema, 'required').filter((key) => typeof key === 'string' && !has(value, key));
  if (missing.length > 0) {
    if (isNamed(path)) return `missing ${missing.map((key) => `${path}.${key}`).join(', ')}`;
    const shown = missing.map((key) => `"${`${path}.${key}`.replace(/^\./, '')}"`).join(', ');
    return `missing argument${missing.length > 1 ? 's' : ''} ${shown}`;
  }
  const count = Object.keys(value).length;
  const most = bound(schema, 'maxProperties', Infinity);
  const least = bound(schema, 'minProperties', 0);
  if (count > most) return `${place(path)}: ${count} members; at most ${most} are allowed`;
  if (count < least) return `${place(path)}: ${count} members; at least ${least} are needed`;
  for (const [key, needed] of Object.entries(objectIn(schema, 'dependentRequired'))) {
    for (const other of has(value, key) && Array.isArray(needed) ? needed : []) {
      if (!has(value, other)) return `${place(`${path}.${key}`)} needs "${other}" beside it`;
    }
  }
  return null;
}

class Checker {
  constructor(root) {
    this._root = root;
    this._steps = 0;
  }

  check(value, schema, path, depth) {
    if (depth > DEPTH_MAX || ++this._steps > STEPS_MAX || schema === true) return null;
    if (schema === false) return `${place(path)} is not allowed`;
    if (!isObject(schema)) return null;
    return (
      this._checkType(value, schema, path) ??
      this._checkEnum(value, schema, path) ??
      this._checkOwn(value, schema, path, depth + 1) ??
      this._checkCombined(value, schema, path, depth + 1)
    );
  }

  _checkType(value, schema, path) {
    const names = typeof schema.type === 'string' ? [schema.type] : schema.type;
    if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name !== 'string' || name in TYPES)) return null;
    if (names.some((name) => typeof name === 'string' && TYPES[name](value))) return null;
    if (value === null && schema.nullable === true) return null;
    return `${place(path)} must be ${names.join(' or ')}, not ${typeName(value)} (${show(value)})`;
  }

  _checkEnum(value, schema, path) {
    if (Array.isArray(schema.enum) && !schema.enum.some((item) => equal(value, item))) {
      const shown = schema.enum.slice(0, 20).map((item) => show(item)).join(', ') + (schema.enum.length > 20 ? ', …' : '');
      return `${place(path)} must be one of ${shown}, not ${show(value)}`;
    }
    if (has(schema, 'const') && !equal(value, schema.const)) return `${place(path)} must be ${show(schema.const)}, not ${show(value)}`;
    return null;
  }

  _checkOwn(value, schema, path, depth) {
    if (typeof value === 'string') return checkString(value, schema, path);
    if (isNumber(value)) return checkNumber(value, schema, path);
    if (Array.isArray(value)) return checkLength(value, schema, path) ?? this._checkItems(value, schema, path, depth);
    if (isObject(value)) return checkKeys(value, schema, path) ?? this._checkMembers(value, schema, path, depth);
    return null;
  }

  _checkItems(value, schema, path, depth) {
    let first = listIn(schema, 'prefixItems');
    let rest = schema.items ?? true;
    if (Array.isArray(rest)) {
      first = rest; // before 2020-12
      rest = schema.additionalItems ?? true;
    }
    for (let i = 0; i < value.length; i++) {
      const of = i < first.length ? first[i] : rest;
      const wrong = of === true ? null : this.check(value[i], of, `${path}[${i}]`, depth);
      if (wrong !== null) return wrong;
    }
    if (!has(schema, 'contains')) return null;
    const found = value.filter((item) => this.check(item, schema.contains, path, depth) === null).length;
    const isFit = found >= bound(schema, 'minContains', 1) && found <= bound(schema, 'maxContains', found);
    return isFit ? null : `${place(path)} does not contain the items it must`;
  }

  _checkMembers(value, schema, path, depth) {
    const members = objectIn(schema, 'properties');
    const patterns = Object.entries(objectIn(schema, 'patternProperties'));
    const others = schema.additionalProperties ?? true;
    for (const key of Object.keys(value)) {
      if (value[key] === undefined) continue;
      const at = `${path}.${key}`;
      const schemas = has(members, key) ? [members[key]] : [];
      for (const [pattern, of] of patterns) if (matches(pattern, key) !== false) schemas.push(of);
      if (schemas.length === 0 && others === false) {
        return isNamed(at) ? `${at} is not in the schema` : `unknown argument "${at.replace(/^\./, '')}"`;
      }
      for (const of of schemas.length > 0 ? schemas : [others]) {
        const wrong = this.check(value[key], of, at, depth);
        if (wrong !== null) return wrong;
      }
      if (has(schema, 'propertyNames') && this.check(key, schema.propertyNames, at, depth) !== null) {
        return `${place(at)} has a name that is not allowed`;
      }
    }
    for (const [key, of] of Object.entries(objectIn(schema, 'dependentSchemas'))) {
      const wrong = has(value, key) ? this.check(value, of, path, depth) : null;
      if (wrong !== null) return wrong;
    }
    return null;
  }

  _checkCombined(value, schema, path, depth) {
    if (has(schema, '$ref')) {
      const wrong = this.check(value, resolve(schema.$ref, this._root), path, depth);
      if (wrong !== null) return wrong;
    }
    for (const of of listIn(schema, 'allOf')) {
      const wrong = this.check(value, of, path, depth);
      if (wrong !== null) return wrong;
    }
    if (isObject(schema.not) && this.check(value, schema.not, path, depth) === null && this._steps < STEPS_MAX) {
      return `${place(path)} is what it must not be (${show(value)})`;
    }
    return this._checkAlternatives(value, schema, path, depth) ?? this._checkIf(value, schema, path, depth);
  }

  _checkAlternatives(value, schema, path, depth) {
    for (const keyword of ['anyOf', 'oneOf']) {
      const list = listIn(schema, keyword);
      const wrongs = list.map((of) => this.check(value, of, path, depth));
      if (wrongs.length === 0 || depth >= DEPTH_MAX) continue;
      const fits = wrongs.filter((wrong) => wrong === null).length;
      if (fits === 0) return [...new Set(wrongs)].join(' or ');
      // Alternatives may both match here because a part of them is not supported.
      const isLoose = list.some((of) => !isObject(of) || has(of, '$ref') || has(of, 'format'));
      if (keyword === 'oneOf' && fits > 1 && !isLoose) return `${place(path)} fits more than one of its alternatives`;
    }
    return null;
  }

  _checkIf(value, schema, path, depth) {
    if (!has(schema, 'if')) return null;
    const isMet = this.check(value, schema.if, path, depth) === null;
    return this.check(value, (isMet ? schema.then : schema.else) ?? true, path, depth);
  }
}

/** The first error in a value, as one line that names the place; null if it is valid. name: what the value is called; '': it is the
 * arguments of a call. */
function check(value, schema, name = '') {
  return new Checker(schema).check(value, schema, name, 0);
}

module.exports = { check, resolve, show, objectIn, listIn, isObject };
