'use strict';
/*
 * The names that Cloister adds to the global object. What they stand for is loaded when code uses one. A name that the code has set is
 * never changed.
 */

const kept = require('./intrinsics.js');

const { defineProperty, getOwnPropertyDescriptor } = kept;
const TOOL_NAMES = ['tools', '_discover', '_search', '_schema', 'ToolError', 'ToolNotFound', 'ToolArgumentError', 'ToolUnavailable',
  'ToolTimeout', 'ToolProtocolError', 'ToolInputRequired', 'ToolDenied'];

/** A hidden property that code can replace. */
function define(name, value) {
  defineProperty(globalThis, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
}

/** The same, whose value is made at its first use. */
function defineLazily(name, make) {
  defineProperty(globalThis, name, {
    __proto__: null,
    get: () => {
      const value = make();
      define(name, value);
      return value;
    },
    set: (value) => define(name, value),
    enumerable: false,
    configurable: true,
  });
}

class Namespace {
  constructor(channel, ours, displays) {
    this._channel = channel;
    this._ours = ours;
    this._tools = null;
    this._catalogue = null; // {version, payload}, the last one
    this._isLastOurs = true;
    define('display', displays.display);
    for (const name of TOOL_NAMES) {
      defineLazily(name, () => this.loadTools().values[name]);
    }
  }

  /** A name that code can replace. */
  define(name, value) {
    define(name, value);
  }

  loadTools() {
    if (this._tools === null) {
      const { ToolNames } = require('./tool-names.js');
      this._tools = new ToolNames(this._channel, this._ours);
      if (this._catalogue !== null) {
        this._tools.onCatalogue(this._catalogue.version, this._catalogue.payload);
      }
    }
    return this._tools;
  }

  onCatalogue(version, payload) {
    this._catalogue = { __proto__: null, version, payload };
    this._tools?.onCatalogue(version, payload);
  }

  /** Before a cell with this code: adds the servers that it names. */
  prepare(source) {
    if (!kept.includes(source, 'mcp_')) {
      return;
    }
    for (const name of new Set(source.match(/\bmcp_[\p{ID_Continue}$]+/gu) ?? [])) {
      const server = name in globalThis ? undefined : this.loadTools().serverOf(name);
      if (server !== undefined) {
        define(name, server);
      }
    }
  }

  /** `_` is the value of the last cell, as in the REPL of Node, until the code declares it. */
  setLast(value) {
    if (value === undefined || !this._isLastOurs) {
      return;
    }
    const before = getOwnPropertyDescriptor(globalThis, '_');
    if (before !== undefined && (before.enumerable || !before.configurable)) {
      this._isLastOurs = false;
    } else {
      define('_', value);
    }
  }
}

module.exports = { Namespace };
