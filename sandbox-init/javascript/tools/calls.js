'use strict';
/* Tools as functions: arguments are checked, the call is sent, the answer becomes a value. */

const { CALL } = require('./frames.js');
const { check, objectIn, listIn, isObject } = require('./schema.js');
const { encode, Unfit } = require('./json-codec.js');
const { ToolArgumentError, ToolProtocolError } = require('./tool-errors.js');
const { readAnswer, readValue, blockValue, fileValue } = require('./results.js');
const { didYouMean } = require('./names.js');
const signature = require('./signature.js');

const MAX_BYTES = 17 * 1024 * 1024; // FRAME_CALL_MAX
const MAX_PAGES = 1000;
const COMBINING = ['anyOf', 'oneOf', 'allOf', '$ref', 'if', 'dependentSchemas', 'patternProperties'];

function argumentError(entry, wrong) {
  const line = signature.line(entry.name, entry.inputSchema);
  return new ToolArgumentError(`${entry.name}: ${wrong}${wrong.endsWith('?') ? '' : '.'} It takes ${line}`, {
    server: entry.server,
    tool: entry.name,
  });
}

/** Whether an argument that is not among the properties is refused for its name. */
function isClosed(schema) {
  if (schema.patternProperties || schema.$ref !== undefined) return false;
  if (schema.additionalProperties === false) return true;
  const isOpen = schema.additionalProperties !== undefined || COMBINING.some((keyword) => schema[keyword] !== undefined);
  return !isOpen && Object.keys(objectIn(schema, 'properties')).length > 0;
}

/** The arguments object of a call. null counts as absent where the schema does not allow it. */
function collectArguments(entry, given) {
  if (given.length > 1 || (given[0] !== undefined && !isObject(given[0]))) {
    throw argumentError(entry, 'arguments are given as one object');
  }
  const all = given[0] ?? {};
  const members = objectIn(entry.inputSchema, 'properties');
  const required = listIn(entry.inputSchema, 'required');
  const isAbsent = (key) =>
    all[key] === null && !required.includes(key) && Object.hasOwn(members, key) && check(null, members[key]) !== null;
  if (!Object.keys(all).some(isAbsent)) return all;
  return Object.fromEntries(Object.entries(all).filter(([key]) => !isAbsent(key)));
}

/** The payload of a CALL. All errors in the arguments are thrown here. */
function makeCall(entry, given) {
  // Of a tool that is always denied the names of arguments by position are not known.
  const values = collectArguments(entry, entry.asks === 'denied' && !isObject(given[0]) ? [] : given);
  const schema = entry.inputSchema;
  if (isObject(schema) && isClosed(schema)) {
    const known = objectIn(schema, 'properties');
    for (const key of Object.keys(values)) {
      if (values[key] !== undefined && !Object.hasOwn(known, key)) {
        throw argumentError(entry, `unknown argument "${key}"${didYouMean(key, Object.keys(known))}`);
      }
    }
  }
  let data;
  try {
    data = encode(values);
  } catch (wrong) {
    if (!(wrong instanceof Unfit)) throw wrong;
    throw argumentError(entry, `${wrong.message}${wrong.path ? ` in arguments${wrong.path}` : ''}`);
  }
  const wrong = isObject(schema) ? check(values, schema) : null;
  if (wrong !== null) throw argumentError(entry, wrong);
  entry.head ??= `{"server":${JSON.stringify(entry.server)},"tool":${JSON.stringify(entry.name)},"arguments":`;
  const payload = `${entry.head}${data}}`;
  if (payload.length * 3 > MAX_BYTES && Buffer.byteLength(payload) > MAX_BYTES) {
    throw argumentError(entry, `the arguments take ${Buffer.byteLength(data).toLocaleString('en')} bytes as JSON; a call can carry ${MAX_BYTES.toLocaleString('en')}`);
  }
  return payload;
}

/** Calls tools. library: catalogue.js. ours: its `run` is the cell that calls. */
class Caller {
  constructor(channel, library, ours) {
    this._channel = channel;
    this._library = library;
    this._ours = ours;
  }

  async _find(key) {
    const { current } = this._library;
    let entry = this._library.current().find(key);
    for (let waits = 0; entry === undefined && waits < 12 && !this._library.isSettled(); waits++) {
      entry = (await this._library.settled()).find(key);
    }
    const catalogue = current.call(this._library);
    entry ??= catalogue.ofFailed(key) ?? catalogue.ofDenied(key) ?? (await this._library.settled(true)).find(key);
    if (entry === undefined) throw this._library.current().notFound(key);
    return entry;
  }

  /** key: as Catalogue.find() takes it. isRaw: the whole CallToolResult is returned, also if it is an error. */
  async call(key, given, isRaw) {
    const { run } = this._ours;
    let entry = this._library.current().find(key) ?? (await this._find(key));
    let payload;
    try {
      payload = makeCall(entry, given);
    } catch (error) {
      if (!(error instanceof ToolArgumentError) || !this._library.mayDoubt(entry.server)) throw error;
      payload = null; // the schema may be an old one, from before the server was restarted or replaced
    }
    if (payload === null) {
      entry = (await this._library.settled(true)).find(key) ?? entry;
      payload = makeCall(entry, given);
    }
    const answer = await this._channel.call(CALL, payload, run);
    return isRaw ? readAnswer(answer, entry.server, entry.name) : readValue(answer, entry);
  }

  /** A function that calls a tool, with its description as properties. */
  tool(key) {
    const call = (...given) => this.call(key, given, false);
    const label = typeof key === 'string' ? key : key.name;
    const entry = () => {
      try {
        return this._library.current().find(key);
      } catch {
        return undefined;
      }
    };
    const properties = { name: { get: () => entry()?.name ?? label, configurable: true } };
    for (const member of ['server', 'description', 'inputSchema', 'outputSchema', 'annotations']) {
      properties[member] = { get: () => entry()?.[member], configurable: true };
    }
    properties.raw = { value: (...given) => this.call(key, given, true) };
    return Object.defineProperties(call, properties);
  }

  /* ---- resources and prompts ---- */

  async _request(server, method, params) {
    const { run } = this._ours;
    let payload;
    try {
      payload = encode({ server, method, arguments: params });
    } catch (wrong) {
      throw new ToolArgumentError(`${method}: ${wrong.message}`, { server, tool: method });
    }
    const result = readAnswer(await this._channel.call(CALL, payload, run), server, method);
    if (!isObject(result)) throw new ToolProtocolError(`the result of ${method} is not an object`, { server, tool: method });
    return result;
  }

  async _pages(server, method, key, limit) {
    const found = [];
    let cursor;
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this._request(server, method, cursor === undefined ? {} : { cursor });
      if (!Array.isArray(result[key])) throw new ToolProtocolError(`the result of ${method} has no list "${key}"`, { server, tool: method, data: result });
      found.push(...result[key]);
      if (result.nextCursor == null || result.nextCursor === cursor || found.length >= limit) break;
      cursor = result.nextCursor;
    }
    return found.slice(0, limit);
  }

  /** What a server offers besides tools: name -> function. server: a function that returns its name. */
  offers(server) {
    const list = (method, key) => async (limit = 10000) => this._pages(server(), method, key, limit);
    return {
      __proto__: null,
      resources: list('resources/list', 'resources'),
      resource_templates: list('resources/templates/list', 'resourceTemplates'),
      prompts: list('prompts/list', 'prompts'),
      read_resource: async (uri) => {
        const { contents } = await this._request(server(), 'resources/read', { uri: uri?.uri ?? uri });
        const files = (contents ?? []).map((content) => {
          try {
            return fileValue(content);
          } catch {
            return content;
          }
        });
        return files.length === 1 ? files[0] : files;
      },
      get_prompt: async (name, values) => {
        const params = values === undefined ? { name: name?.name ?? name } : { name: name?.name ?? name, arguments: values };
        const result = await this._request(server(), 'prompts/get', params);
        const messages = (result.messages ?? []).map((message) => {
          const isText = message?.content?.type === 'text';
          return { ...message, content: isText ? message.content.text : blockValue(message?.content) };
        });
        return { ...result, messages };
      },
    };
  }
}

module.exports = { Caller };
