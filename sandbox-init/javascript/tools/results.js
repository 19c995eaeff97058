'use strict';
/* Converts the result of a tool call to a value. */

const fs = require('fs');
const { inspect } = require('util');
const { check, objectIn, listIn, isObject } = require('./schema.js');
const KINDS = require('./tool-errors.js');
const { decode } = require('./json-codec.js');
const { isWrapped } = require('./signature.js');

const { ToolError, ToolProtocolError, ToolInputRequired, ToolDenied } = KINDS;
const BASE64 = /^[A-Za-z0-9+/]*$/;
// An answer that consists of one text without escapes, which is recognized without parsing its JSON.
const ONE_TEXT = /^\{"ok":true,"result":\{"content":\[\{"type":"text","text":"([^"\\]{0,4000})"\}\](?:,"isError":false)?\}\}$/;

/** Bytes with a type. data: a Buffer; mimeType; save(path) writes them and returns the path. */
class Blob_ {
  constructor(data, mimeType, uri) {
    this.data = data;
    this.mimeType = mimeType;
    if (uri !== undefined) this.uri = uri;
  }

  save(path) {
    fs.writeFileSync(path, this.data);
    return path;
  }

  [inspect.custom]() {
    const of = this.uri ? ` ${this.uri}` : '';
    return `<${this.constructor.name}${of} ${this.mimeType ?? 'of no known type'}, ${this.data.length.toLocaleString('en')} bytes>`;
  }
}

class Image extends Blob_ {}

class Audio extends Blob_ {}

/** An embedded resource. text: the content of a text resource; otherwise null. */
class File extends Blob_ {
  text = null;
}

/** A link to a resource of the server. */
class Link {
  constructor({ uri, name, mimeType, description }) {
    Object.assign(this, { uri, name, mimeType, description });
  }
}

/** The CallToolResult of a RETURN. Throws the error that it contains. text: null if the answer was lost. */
function readAnswer(text, server, tool) {
  if (text === null) throw new ToolError(`the result of ${tool} did not arrive: it is too large for JavaScript`, { server, tool });
  let answer;
  try {
    answer = decode(text);
  } catch (wrong) {
    throw new ToolProtocolError(`the result of ${tool} cannot be read: ${wrong.message}`, { server, tool });
  }
  if (answer.ok) return answer.result;
  const error = answer.error ?? {};
  const kind = KINDS[error.kind] ?? ToolError;
  const more = {};
  if (kind === ToolProtocolError) Object.assign(more, { code: error.code, data: error.data });
  if (kind === ToolInputRequired) Object.assign(more, { request: error.data ?? null, url: error.data?.params?.url ?? null });
  if (kind === ToolDenied) Object.assign(more, { rule: error.rule ?? null, why: error.why ?? null });
  throw new kind(error.message || kind.name, { server, tool, ...more });
}

/** The value of a CallToolResult. Throws ToolError when the tool says that it failed. */
function unwrap(result, server, tool, outputSchema) {
  if (!isObject(result)) throw new ToolProtocolError(`the result of ${tool} is not an object`, { server, tool });
  const content = listIn(result, 'content');
  if (result.isError) {
    const texts = content.map((block) => block?.text).filter((text) => typeof text === 'string' && text);
    throw new ToolError(texts.join('\n') || `${tool} failed and does not say why`, { server, tool, content });
  }
  const structured = result.structuredContent;
  if (isObject(outputSchema)) checkStructured(result, server, tool, outputSchema);
  if (structured !== undefined && structured !== null) {
    const wrapped = isWrapped(outputSchema, tool) || objectIn(objectIn(result, '_meta'), 'fastmcp').wrap_result === true;
    if (wrapped && isObject(structured) && Object.keys(structured).join() === 'result') return structured.result;
    return structured;
  }
  const values = content.map(blockValue);
  if (values.length === 0) return undefined;
  return values.length === 1 ? values[0] : values;
}

/** A tool with an outputSchema must give structured content that fits it. */
function checkStructured(result, server, tool, outputSchema) {
  if (!Object.hasOwn(result, 'structuredContent')) {
    const text = `${tool} answered without structuredContent, which its outputSchema promises`;
    throw new ToolProtocolError(text, { server, tool, data: result });
  }
  const wrong = check(result.structuredContent, outputSchema, 'structuredContent');
  if (wrong !== null) {
    throw new ToolProtocolError(`the result of ${tool} does not fit its outputSchema: ${wrong}`, { server, tool, data: result });
  }
}

/** The value of a RETURN: that of unwrap(readAnswer()). */
function readValue(text, { server, name, outputSchema }) {
  if (outputSchema === undefined && text !== null) {
    const found = ONE_TEXT.exec(text);
    if (found !== null) return textValue(found[1]);
  }
  return unwrap(readAnswer(text, server, name), server, name, outputSchema);
}

/** The value of a content block. */
function blockValue(block) {
  if (!isObject(block)) return block;
  try {
    switch (block.type) {
      case 'text':
        return textValue(block.text);
      case 'image':
        return new Image(bytesOf(block.data), block.mimeType);
      case 'audio':
        return new Audio(bytesOf(block.data), block.mimeType);
      case 'resource':
        return fileValue(block.resource);
      case 'resource_link':
        return new Link(block);
      default:
        return block;
    }
  } catch {
    return block;
  }
}

/** Decodes base64 of either alphabet, with or without padding; refuses anything else. */
function bytesOf(text) {
  const plain = text.replace(/\s/g, '').replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '');
  if (!BASE64.test(plain)) throw new Error('not base64');
  return Buffer.from(plain, 'base64');
}

/** A text that is one JSON object or array is decoded; any other text, such as "007", is returned unchanged. */
function textValue(text) {
  if (/^[ \t\r\n]*[{[]/.test(text)) {
    try {
      return decode(text);
    } catch {
      // text that only begins like JSON
    }
  }
  return text;
}

function fileValue(resource) {
  const isText = typeof resource.text === 'string';
  const file = new File(isText ? Buffer.from(resource.text) : bytesOf(resource.blob), resource.mimeType, resource.uri);
  if (isText) file.text = resource.text;
  return file;
}

module.exports = { readAnswer, readValue, blockValue, fileValue, Link };
