'use strict';
/* Files of /workspace: lists those in /workspace/out, and reads and writes files for the broker. No symbolic link is followed. */

const fs = require('fs');
const kept = require('./intrinsics.js');
const { PUT } = require('./frames.js');
const { printable } = require('./text.js');

const { lstatSync, readdirSync, openSync, closeSync, readSync, writeSync, fstatSync, mkdirSync, renameSync, unlinkSync } = fs;
const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
const { stringify, bufferFrom } = kept;

const OUT = 'out';
const MAX_NAMED = 100; // in a result
const MAX_ENTRIES = 10000; // that a walk visits
const MAX_DEPTH = 16;
const MAX_PATH = 255; // bytes
const MAX_CHUNK = 1024 * 1024;

const TYPES = {
  __proto__: null, avif: 'image/avif', bin: 'application/octet-stream', css: 'text/css', csv: 'text/csv', gif: 'image/gif',
  gz: 'application/gzip', htm: 'text/html', html: 'text/html', jpeg: 'image/jpeg', jpg: 'image/jpeg', js: 'text/javascript',
  json: 'application/json', md: 'text/markdown', mjs: 'text/javascript', mp3: 'audio/mpeg', mp4: 'video/mp4', ogg: 'audio/ogg',
  parquet: 'application/vnd.apache.parquet', pdf: 'application/pdf', png: 'image/png', py: 'text/x-python', svg: 'image/svg+xml',
  tar: 'application/x-tar', tsv: 'text/tab-separated-values', txt: 'text/plain', wav: 'audio/x-wav', webp: 'image/webp',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', xml: 'text/xml', zip: 'application/zip',
};

/** The MIME type, from the name only. */
function mimeTypeOf(path) {
  return TYPES[path.slice(path.lastIndexOf('.') + 1).toLowerCase()] ?? 'application/octet-stream';
}

// Control characters, and those that turn the direction of writing.
const HIDDEN = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/;

function isShown(path) {
  return path.isWellFormed() && kept.byteLength(path) <= MAX_PATH && !HIDDEN.test(path) && !path.includes('\ufffd');
}

class Files {
  constructor(root) {
    this.root = root;
    this._out = `${root}/${OUT}`;
    this._known = new Map(); // path -> version
    this._stored = 0;
  }

  /** The members `files` and `files_total` of a RESULT, or '' where no file below out/ is new. */
  changed() {
    if (this._known.size === 0 && this._isEmpty()) return '';
    const { found, isCut } = this._walk(this._out);
    const before = this._known;
    this._known = new Map();
    const fresh = [];
    for (const [path, { version }] of found) {
      this._known.set(path, version);
      if (before.get(path) !== version) fresh.push(path);
    }
    const total = fresh.length + (isCut ? 1 : 0);
    return total === 0 ? '' : `"files":${stringify(this._named(fresh, found, MAX_NAMED))},"files_total":${total}`;
  }

  /** The size of a tmpfs's directory grows with each entry. */
  _isEmpty() {
    const about = lstatSync(this._out, { throwIfNoEntry: false });
    return about === undefined || !about.isDirectory() || (about.size === 0 || about.size === 40) && readdirSync(this._out).length === 0;
  }

  _named(paths, found, limit) {
    const named = paths.filter(isShown).sort().slice(0, limit);
    return named.map((path) => ({ __proto__: null, path, size: found.get(path).size, mime: mimeTypeOf(path) }));
  }

  _walk(directory) {
    const found = new Map();
    const state = { left: MAX_ENTRIES, isCut: false };
    this._walkInto(directory, '', 0, found, state);
    return { found, isCut: state.isCut };
  }

  _walkInto(directory, prefix, depth, found, state) {
    let names;
    try {
      names = lstatSync(directory).isDirectory() ? readdirSync(directory) : [];
    } catch {
      return;
    }
    for (const name of names) {
      if (--state.left < 0) {
        state.isCut = true;
        return;
      }
      const about = lstatSync(`${directory}/${name}`, { bigint: true, throwIfNoEntry: false });
      if (about?.isDirectory()) {
        if (depth === MAX_DEPTH) state.isCut = true;
        else this._walkInto(`${directory}/${name}`, `${prefix}${name}/`, depth + 1, found, state);
      } else if (about?.isFile()) {
        const version = `${about.mtimeNs}-${about.ctimeNs}-${about.size}-${about.ino}`;
        found.set(prefix + name, { version, size: Number(about.size) });
      }
    }
  }

  /** Writes what is too large to show to a file below out/. Returns its path, or null. */
  keep(extension, bytes) {
    for (let i = 0; i < 100; i++) {
      const path = `${this._out}/large-${++this._stored}${extension}`;
      try {
        const fd = openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o644);
        this._writeAll(fd, bytes, 0);
        return path;
      } catch (error) {
        if (error.code !== 'EEXIST') return null;
      }
    }
    return null;
  }

  /** The payload of the DATA that answers a FETCH or a PUT. */
  answer(kind, payload) {
    let request = { path: OUT };
    try {
      request = kept.parse(kept.utf8(payload, 0, payload.length));
      if (kind === PUT) return this._put(request);
      if (request.list === undefined) return this._fetch(request);
      if (request.path !== undefined) return this._list(request.path, request.list);
      const { found, isCut } = this._walk(this._out);
      return this._listing('', [...found.keys()], found, isCut, request.list);
    } catch (error) {
      const text = error.syscall ? error.message.replace(/, \w+ .*$/, '') : error.message;
      return stringify({ __proto__: null, ok: false, error: printable(`${request.path ?? OUT}: ${text}`) });
    }
  }

  _listing(kind, paths, found, isCut, limit) {
    const files = stringify(this._named(paths, found, limit));
    return `{"ok":true${kind && `,"kind":"${kind}"`},"files":${files},"files_total":${paths.length + (isCut ? 1 : 0)}}`;
  }

  _list(path, limit) {
    const place = this._resolve(path, false);
    const about = place === null ? undefined : lstatSync(place, { throwIfNoEntry: false });
    const kind = about === undefined ? 'absent' : about.isDirectory() ? 'directory' : about.isFile() ? 'file' : 'other';
    const { found, isCut } = kind === 'directory' ? this._walk(place) : { found: new Map(), isCut: false };
    return this._listing(kind, [...found.keys()], found, isCut, limit);
  }

  /** The place of a path below the root, none of whose directories is a link; null where one is missing. */
  _resolve(path, makesDirectories) {
    const parts = path === '' ? [] : path.split('/');
    let place = this.root;
    for (let i = 0; i < parts.length; i++) {
      if (parts[i] === '' || parts[i] === '.' || parts[i] === '..' || parts[i].includes('\0')) throw new Error('not a path below /workspace');
      place = `${place}/${parts[i]}`;
      if (i === parts.length - 1) break;
      let about = lstatSync(place, { throwIfNoEntry: false });
      if (about === undefined && makesDirectories) {
        mkdirSync(place, 0o755);
        about = lstatSync(place);
      }
      if (about === undefined) return null;
      if (!about.isDirectory()) throw new Error('a part of the path is not a directory');
    }
    return place;
  }

  _open(path, flags, makesDirectories) {
    const place = this._resolve(path, makesDirectories);
    if (place === null) throw new Error('No such file or directory');
    const fd = openSync(place, flags | O_NOFOLLOW | O_NONBLOCK, 0o644);
    if (!fstatSync(fd).isFile()) {
      closeSync(fd);
      throw new Error('not a regular file');
    }
    return fd;
  }

  _fetch({ path, offset, length }) {
    const fd = this._open(path, O_RDONLY, false);
    try {
      const data = kept.alloc(Math.min(length, MAX_CHUNK));
      const n = readSync(fd, data, 0, data.length, offset);
      const { size, ino, mtimeNs } = fstatSync(fd, { bigint: true });
      const isEnd = n === 0 || BigInt(offset + n) >= size;
      const version = `${ino.toString(16)}-${mtimeNs.toString(16)}-${size.toString(16)}`;
      return `{"ok":true,"data":"${kept.base64(data, 0, n)}","size":${size},"eof":${isEnd},"version":"${version}"}`;
    } finally {
      closeSync(fd);
    }
  }

  _put({ path, offset, data, to, discard }) {
    if (discard) {
      unlinkSync(this._resolve(path, false) ?? path);
      return '{"ok":true}';
    }
    this.write(path, bufferFrom(data, 'base64'), offset);
    if (to !== undefined) renameSync(this._resolve(path, false), this._resolve(to, true));
    return '{"ok":true}';
  }

  /** path: below the root. Without an offset the file is new, or becomes so. */
  write(path, bytes, offset = 0) {
    this._writeAll(this._open(path, O_WRONLY | O_CREAT | (offset ? 0 : O_TRUNC), true), bytes, offset);
  }

  _writeAll(fd, bytes, offset) {
    try {
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(fd, bytes, at, bytes.length - at, offset + at);
      }
    } finally {
      closeSync(fd);
    }
  }
}

module.exports = { Files, mimeTypeOf };
