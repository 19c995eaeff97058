'use strict';
/*
 * display(): shows pictures, audio and HTML beside the output of a cell.
 *
 * They are sent to the broker. Text, Markdown and JSON are printed, so that their order among the rest of the output is kept.
 */

const fs = require('fs');
const kept = require('./intrinsics.js');
const { DISPLAY } = require('./frames.js');
const { mimeTypeOf } = require('./files.js');
const { printable } = require('./text.js');
const { show } = require('./values.js');

const LARGEST = (5 * 1024 * 1024) / 4 * 3; // bytes of a picture: 5 MiB as base64, the limit of the largest model providers
const TEXT_MAX = 16 * 1024 * 1024; // as JSON
const HELD_MAX = 32; // displays of code in the background that wait for the next cell
const PRINTED = new Set(['text/plain', 'text/markdown', 'application/json']);
const BUNDLE = Symbol.for('Jupyter.display'); // a method that returns {MIME type: value}, as in Deno
const MIME = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/;
// In the order of preference for a model.
const ORDER = ['image/png', 'image/jpeg', 'image/webp', 'image/gif', 'image/svg+xml', 'audio/wav', 'audio/mpeg', 'audio/ogg',
  'text/markdown', 'text/html', 'application/json', 'text/plain'];
const SIGNATURES = [['89504e470d0a1a0a', 'image/png'], ['ffd8ff', 'image/jpeg'], ['47494638', 'image/gif'], ['25504446', 'application/pdf']];

function bytesOf(value) {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? Buffer.from(value) : null;
}

function sniff(bytes) {
  const head = bytes.subarray(0, 12).toString('hex');
  for (const [start, mime] of SIGNATURES) if (head.startsWith(start)) return mime;
  if (head.startsWith('52494646')) return { '57454250': 'image/webp', '57415645': 'audio/wav' }[head.slice(16)];
  return undefined;
}

function normal(mime) {
  const text = String(mime).split(';')[0].trim().toLowerCase();
  if (text.length >= 128 || !MIME.test(text)) throw new TypeError(`${show(mime)} is not a MIME type, such as image/png`);
  return text;
}

/** {mime, data: text or bytes} of a value. */
function choose(value, mime) {
  const bytes = bytesOf(value);
  if (bytes !== null) {
    const type = mime ?? sniff(bytes);
    if (type === undefined) throw new TypeError('bytes need a type: display(data, "image/png")');
    return { mime: normal(type), data: bytes };
  }
  if (typeof value === 'string') return chooseText(value, mime);
  const bundle = bundleOf(value);
  if (bundle !== null) return bundle;
  // An Image, Audio or File of a tool's result.
  if (value != null && typeof value === 'object' && (value.mimeType || mime) && (bytesOf(value.data) || typeof value.text === 'string')) {
    return { mime: normal(mime ?? value.mimeType), data: typeof value.text === 'string' ? value.text : bytesOf(value.data) };
  }
  return { mime: 'text/plain', data: show(value) };
}

function chooseText(text, mime) {
  if (mime === undefined && text.length < 256 && !/[\n\0]/.test(text)) {
    const type = mimeTypeOf(text);
    if (/^(image|audio)\//.test(type) && fs.statSync(text, { throwIfNoEntry: false })?.isFile()) {
      const bytes = fs.readFileSync(text);
      return { mime: type, data: type === 'image/svg+xml' ? bytes.toString() : bytes };
    }
  }
  return { mime: normal(mime ?? 'text/plain'), data: text };
}

function bundleOf(value) {
  const ask = value != null && typeof value === 'object' ? value[BUNDLE] : undefined;
  if (typeof ask !== 'function') return null;
  const bundle = ask.call(value);
  for (const mime of ORDER) {
    const data = bundle?.[mime];
    if (typeof data === 'string' && /^(image|audio)\/(?!svg)/.test(mime)) return { mime, data: Buffer.from(data, 'base64') };
    if (data !== undefined && data !== null) {
      return { mime, data: bytesOf(data) ?? (typeof data === 'string' ? data : kept.stringify(data)) };
    }
  }
  return null;
}

class Displays {
  constructor(channel, files) {
    this._channel = channel;
    this._files = files;
    this._cell = null;
    this._held = [];
    /** display(value, …), display(bytes, "image/png"), display("<b>x</b>", "text/html") */
    this.display = (...values) => this._display(values);
  }

  begin(number) {
    this._cell = number;
    while (this._held.length > 0) {
      this._channel.send(DISPLAY, number, kept.shift(this._held));
    }
  }

  end() {
    this._cell = null;
  }

  _display(values) {
    if (values.length === 2 && typeof values[1] === 'string' && MIME.test(values[1])) {
      const { mime, data } = choose(values[0], values[1]);
      this._show(mime, data);
      return;
    }
    for (const value of values) {
      const { mime, data } = choose(value, undefined);
      this._show(mime, data);
    }
  }

  /** Shows the value of a cell's last expression if it says how. Returns '', or null: it is described as any other value. */
  value(value) {
    if (value === null || typeof value !== 'object' || kept.isProxy(value)) return null;
    const isPicture = /^(image|audio)\//.test(value.mimeType) && bytesOf(value.data) !== null;
    if (!isPicture && typeof value[BUNDLE] !== 'function') return null;
    const { mime, data } = choose(value, undefined);
    this._show(mime, data);
    return '';
  }

  _show(mime, data) {
    if (typeof data === 'string' && PRINTED.has(mime)) {
      process.stdout.write(data.endsWith('\n') ? data : `${data}\n`);
      return;
    }
    const isText = typeof data === 'string';
    const payload = isText ? kept.stringify({ __proto__: null, mime, text: printable(data) }) : null;
    if (isText ? payload.length > TEXT_MAX : data.length > LARGEST) {
      this._keep(mime, isText ? Buffer.from(data) : data);
      return;
    }
    this._send(payload ?? `{"mime":"${mime}","data":"${kept.base64(data, 0, data.length)}"}`);
  }

  _keep(mime, bytes) {
    const subtype = mime.slice(mime.indexOf('/') + 1).replace(/\+.*/, '').replace('jpeg', 'jpg');
    const path = this._files.keep(/^[a-z0-9]+$/.test(subtype) ? `.${subtype}` : '.bin', bytes);
    const outcome = path ? `kept as ${path}` : 'and it could not be kept: no room in /workspace/out';
    process.stdout.write(`[${mime} of ${(bytes.length / 1048576).toFixed(1)} MiB: too large to show, ${outcome}]\n`);
  }

  _send(payload) {
    if (this._cell !== null) {
      this._channel.send(DISPLAY, this._cell, payload);
    } else if (this._held.length < HELD_MAX) {
      this._held.push(payload); // from code in the background: sent with the next cell
    }
  }
}

module.exports = { Displays };
