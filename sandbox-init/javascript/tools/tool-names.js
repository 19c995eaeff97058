'use strict';
/* Tools as objects of the code: tools, mcp_<server>, _discover(), _search(), _schema(). The catalogue is decoded when they are used. */

const { inspect } = require('util');
const KINDS = require('./tool-errors.js');
const { Library } = require('./catalogue.js');
const { Caller } = require('./calls.js');
const signature = require('./signature.js');
const { shorten } = require('./text.js');

const DESCRIPTION = 120; // characters
// Names that JavaScript itself looks for in an object.
const NOT_TOOLS = new Set(['then', 'toJSON', 'constructor', 'valueOf', 'toString', 'prototype', '__proto__', 'inspect', 'asymmetricMatch']);

function short(text) {
  return shorten(String(text ?? '').split(/\s+/).join(' ').trim(), DESCRIPTION);
}

function brief(entry) {
  const { name, server, description, inputSchema, outputSchema } = entry;
  return { name, server, description: short(description), signature: signature.line(name, inputSchema, outputSchema) };
}

/** An object whose members are looked up by a function. names(): those that it lists. */
function lookUp(get, names, describe) {
  const handler = {
    __proto__: null,
    get: (target, key) => {
      if (key === inspect.custom) return describe;
      if (key === Symbol.iterator) return () => names()[Symbol.iterator]();
      return typeof key === 'string' ? get(key) : undefined;
    },
    has: (target, key) => typeof key === 'string' && names().includes(key),
    ownKeys: () => names(),
    getOwnPropertyDescriptor: (target, key) =>
      typeof key === 'string' && names().includes(key) ? { value: get(key), enumerable: true, configurable: true, writable: false } : undefined,
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
  };
  return new Proxy(Object.create(null), handler);
}

class ToolNames {
  constructor(channel, ours) {
    this._library = new Library(channel, ours);
    this._caller = new Caller(channel, this._library, ours);
    this._servers = new Map(); // global name -> object
    /** The names that code has in any case. */
    this.values = {
      __proto__: null,
      tools: this._tools(),
      _discover: () => this._discover(),
      _search: (q, limit = 10) => this._search(q, limit),
      _schema: (name) => this._schema(name),
      ...KINDS,
    };
  }

  onCatalogue(version, payload) {
    this._library.onFrame(version, payload);
  }

  /** What the global name of a server, such as mcp_calendar, stands for; undefined if there is none. A server that may be starting is
   * looked up when a tool is called. */
  serverOf(name) {
    const server = this._library.current().serverOf(name);
    if (server === undefined && this._library.isSettled()) return undefined;
    if (!this._servers.has(name)) this._servers.set(name, this._server(server, name));
    return this._servers.get(name);
  }

  /* ---- tools ---- */

  _tools() {
    const made = new Map();
    const get = (key) => {
      if (NOT_TOOLS.has(key)) return undefined;
      if (!made.has(key)) {
        const server = key.includes('.') ? undefined : this._serverNamed(key);
        made.set(key, server ?? this._caller.tool(key));
      }
      return made.get(key);
    };
    const names = () => {
      const { entries, byName } = this._library.current();
      return [...new Set(entries.map((entry) => (byName.get(entry.name).length === 1 ? entry.name : entry.qualified)))];
    };
    return lookUp(get, names, () => `<tools: ${names().join(', ') || 'none'}>`);
  }

  /** tools.calendar, unless a tool has that name. */
  _serverNamed(key) {
    const catalogue = this._library.current();
    if (catalogue.byName.has(key) || !catalogue.servers.has(key)) return undefined;
    return this._server(key, undefined);
  }

  _server(server, identifier) {
    const made = new Map();
    const name = () => server ?? this._library.current().serverOf(identifier) ?? identifier;
    const offers = this._caller.offers(name);
    const get = (key) => {
      if (NOT_TOOLS.has(key)) return undefined;
      const target = server === undefined ? { identifier, name: key } : { server, name: key };
      if (key in offers && this._library.current().find(target) === undefined) return offers[key];
      if (!made.has(key)) made.set(key, this._caller.tool(target));
      return made.get(key);
    };
    const names = () => [...(this._library.current().servers.get(name())?.tools.keys() ?? [])];
    return lookUp(get, names, () => `<server ${name()}: ${names().join(', ') || 'no tools'}>`);
  }

  /* ---- listings ---- */

  async _discover() {
    const catalogue = await this._library.settled();
    const failed = catalogue.failed().map(({ name, error }) => ({
      name: '',
      server: name,
      description: short(`not available: ${error}`),
      signature: '',
      error,
    }));
    return [...catalogue.entries.map(brief), ...failed];
  }

  async _search(q, limit) {
    return (await this._library.search(String(q), Math.max(0, Math.trunc(Number(limit)) || 0))).map(brief);
  }

  async _schema(name) {
    const key = typeof name === 'function' ? (name.server ? { server: name.server, name: name.name } : name.name) : String(name);
    let entry = this._library.current().find(key);
    if (entry === undefined) {
      const catalogue = await this._library.settled();
      entry = catalogue.find(key);
      if (entry === undefined) throw catalogue.notFound(key);
    }
    const { server, description, inputSchema, outputSchema, annotations, asks } = entry;
    const whole = { name: entry.name, server, description, signature: signature.line(entry.name, inputSchema, outputSchema), inputSchema };
    if (outputSchema !== undefined) whole.outputSchema = outputSchema;
    if (annotations) whole.annotations = annotations;
    if (asks) whole.asks = asks;
    return whole;
  }
}

module.exports = { ToolNames };
