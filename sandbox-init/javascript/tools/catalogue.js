'use strict';
/* The latest catalogue of tools from the broker; decoded on first use. */

const kept = require('./intrinsics.js');
const { QUERY } = require('./frames.js');
const { ToolError, ToolNotFound } = require('./tool-errors.js');
const { decode } = require('./json-codec.js');
const { byIdentifier, didYouMean, identifier, serverIdentifiers } = require('./names.js');

const WAIT_MS = 10000; // for servers that are starting
const QUERY_MAX = 2000; // characters of a search

/** One tool of one server. */
class Entry {
  constructor(server, tool) {
    this.server = server;
    this.name = tool.name;
    this.description = tool.description || tool.title || '';
    this.inputSchema = tool.inputSchema;
    this.outputSchema = tool.outputSchema;
    this.annotations = tool.annotations;
    this.asks = tool.asks; // a person: 'always', 'sometimes', or undefined; 'denied': rules deny each call
    this.head = null; // of the payload of a CALL; created at the first one
  }

  get qualified() {
    return `${this.server}.${this.name}`;
  }
}

class Catalogue {
  constructor(described) {
    this.servers = new Map();
    this.entries = [];
    this.byName = new Map();
    this.byQualified = new Map();
    for (const server of described.servers ?? []) {
      if (server.state !== 'disabled') this._add(server);
    }
    this._names = byIdentifier(this.byName.keys());
    this._denied = (described.servers ?? []).flatMap(({ name, denied }) => (denied ?? []).map((tool) => new Entry(name, { name: tool, asks: 'denied' })));
  }

  _add({ name, state, error, tools }) {
    const entries = (tools ?? []).map((tool) => new Entry(name, tool));
    const byTool = new Map(entries.map((entry) => [entry.name, entry]));
    this.servers.set(name, { name, state, error, tools: byTool, names: byIdentifier(byTool.keys()) });
    for (const entry of entries) {
      this.entries.push(entry);
      this.byName.set(entry.name, [...(this.byName.get(entry.name) ?? []), entry]);
      this.byQualified.set(entry.qualified, [...(this.byQualified.get(entry.qualified) ?? []), entry]);
    }
  }

  isStarting() {
    return [...this.servers.values()].some((server) => server.state === 'starting');
  }

  failed() {
    return [...this.servers.values()].filter((server) => server.state === 'failed');
  }

  /** The name of the server that has an identifier, such as mcp_calendar. */
  serverOf(identifier) {
    for (const name of this.servers.keys()) if (serverIdentifiers(name).includes(identifier)) return name;
    return undefined;
  }

  /** The Entry of a key, a name or {server, name}, or undefined. Throws ToolNotFound when the name is ambiguous. */
  find(key) {
    if (typeof key !== 'string') {
      const server = this.servers.get(key.server ?? this.serverOf(key.identifier));
      return server?.tools.get(key.name) ?? server?.tools.get(server.names.get(key.name));
    }
    for (const table of [this.byQualified, this.byName]) {
      const found = table.get(key);
      if (found?.length > 1) throw new ToolNotFound(this._ambiguous(key, found), { tool: key });
      if (found) return found[0];
    }
    const entries = this.byName.get(this._names.get(key));
    return entries?.length === 1 ? entries[0] : undefined;
  }

  _ambiguous(key, found) {
    const ways = found.map((entry) => `tools["${entry.qualified}"]`).join(' or ');
    return `"${key}" is a tool of ${found.map((entry) => entry.server).join(' and ')}: use ${ways}`;
  }

  /** The Entry of a key whose server has failed. Only a call shows whether the server works again. */
  ofFailed(key) {
    const names = this.failed().map((server) => server.name);
    if (typeof key !== 'string') {
      const server = key.server ?? this.serverOf(key.identifier);
      return names.includes(server) ? new Entry(server, { name: key.name }) : undefined;
    }
    const server = names.filter((name) => key.startsWith(`${name}.`)).sort((a, b) => b.length - a.length)[0];
    return server === undefined ? undefined : new Entry(server, { name: key.slice(server.length + 1) });
  }

  /** The Entry, without a schema, of a tool that is not listed because rules deny each call. A call of it shows why. */
  ofDenied(key) {
    if (typeof key === 'string') return this._denied.find((entry) => [entry.qualified, entry.name, identifier(entry.name)].includes(key));
    const server = key.server ?? this.serverOf(key.identifier);
    return this._denied.find((entry) => entry.server === server && [entry.name, identifier(entry.name)].includes(key.name));
  }

  /** The error for a key that find() does not have. */
  notFound(key) {
    if (typeof key !== 'string') {
      const name = key.server ?? this.serverOf(key.identifier);
      const server = this.servers.get(name);
      if (server === undefined) {
        const known = [...this.servers.keys()].flatMap(serverIdentifiers);
        return new ToolNotFound(`there is no server "${key.identifier ?? name}"${didYouMean(key.identifier ?? name, known)}`, { tool: key.name });
      }
      const text = `${name} has no tool "${key.name}"${didYouMean(key.name, server.tools.keys())}`;
      return new ToolNotFound(text, { server: name, tool: key.name });
    }
    let text = `there is no tool "${key}"${didYouMean(key, [...this.byName.keys(), ...this.byQualified.keys()])}`;
    for (const other of this.failed()) {
      if (this.entries.length === 0 || other.name === key.split('.')[0]) {
        text += `; the server ${other.name} is not available: ${other.error}`;
      }
    }
    return new ToolNotFound(text, { tool: key });
  }
}

/** The current catalogue, kept up to date by the broker. */
class Library {
  constructor(channel, ours) {
    this._channel = channel;
    this._ours = ours;
    this._raw = null;
    this._version = -1;
    this._read = null;
    this.changes = 0; // how often it has changed
    this._asking = null; // the promise of an answer, which all that wait share
    this._doubted = new Set(); // servers with a cached catalogue only, which were waited for once
  }

  onFrame(version, payload) {
    if (version < this._version) return;
    this._version = version;
    this._raw = payload;
    this._read = null;
    this.changes++;
  }

  /** Never waits. The catalogue is empty until the broker has sent one. */
  current() {
    if (this._read === null) {
      let described = {};
      try {
        described = this._raw === null ? {} : decode(kept.utf8(this._raw, 0, this._raw.length));
      } catch {
        // The broker sends JSON; a number out of range in a schema would come here.
      }
      this._read = new Catalogue(described);
    }
    return this._read;
  }

  isSettled() {
    return this._raw !== null && !this.current().isStarting();
  }

  /** Whether the server's tools come from a cache and may be out of date. True only once for each server. */
  mayDoubt(name) {
    if (this.current().servers.get(name)?.state !== 'cached' || this._doubted.has(name)) return false;
    this._doubted.add(name);
    return true;
  }

  /** Waits until no server is starting, for at most 10 s. isForced: also for servers whose tools come from a cache. */
  async settled(isForced = false) {
    if (isForced || !this.isSettled()) {
      // Of no cell: an interrupt must not end what others wait for.
      this._asking ??= this._channel.call(QUERY, `{"what":"catalogue","wait_ms":${WAIT_MS}}`, null);
      const asking = this._asking;
      await asking;
      if (this._asking === asking) this._asking = null;
    }
    return this.current();
  }

  /** The tools that match, found by the broker, which has one index for all sessions. */
  async search(text, limit) {
    const q = text.slice(0, QUERY_MAX).toWellFormed();
    const query = kept.stringify({ __proto__: null, what: 'search', q, limit: Math.min(limit, 1000000), wait_ms: WAIT_MS });
    const answer = decode(await this._channel.call(QUERY, query, this._ours.run));
    if (!answer.ok) throw new ToolError(answer.error?.message ?? 'the tools could not be searched');
    return answer.result.tools.map(({ server, tool }) => new Entry(server, tool));
  }
}

module.exports = { Library };
