'use strict';
/* require() and import() of code: packages of the image, of /workspace, and those of npm that a call names (docs/packages.md). */

const fs = require('fs');
const { createRequire, Module, builtinModules } = require('module');
const path = require('path');
const { pathToFileURL } = require('url');
const vm = require('vm');
const kept = require('./intrinsics.js');
const { QUERY } = require('./frames.js');

// Where images have packages, beside node_modules of the working directory and of the directories above it.
const PLACES = ['/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs'];
const IMPORTS = { importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER };

// Where the broker's packages appear, and what one request may name.
const TARGET = '/run/packages';
const NAMED_MAX = 100;
const CHARACTERS_MAX = 16000;

function importerOf(directory) {
  const script = new vm.Script('(name, options) => import(name, options)', { filename: `${directory}/cell.js`, ...IMPORTS });
  return script.runInThisContext();
}

/** Node warns that the loader of scripts is experimental. */
function quietly(action) {
  const warn = process.emitWarning;
  process.emitWarning = () => {};
  try {
    return action();
  } finally {
    process.emitWarning = warn;
  }
}

class Modules {
  constructor(directory) {
    this.directory = directory;
    this._path = process.env.NODE_PATH;
    this._places = PLACES;
    this._setPath();
    this.require = createRequire(`${directory}/cell.js`);
    this._importers = null;
    this._metas = new Map();
    // Kept, because code may replace it.
    this.load = (name, options) => this._load(name, options);
  }

  _setPath() {
    process.env.NODE_PATH = [this._path, ...this._places].filter(Boolean).join(':');
    Module._initPaths();
  }

  /** Lets code find the packages in a directory node_modules, before those of the image. */
  add(place) {
    if (!this._places.includes(place)) {
      this._places = [place, ...this._places];
      this._importers = null;
      this._setPath();
    }
  }

  async _load(name, options) {
    // An ES module has no NODE_PATH: the same places are tried one after the other.
    this._importers ??= [this.directory, ...this._places.map(path.dirname)].map(importerOf);
    let first;
    for (const load of this._importers) {
      try {
        return await quietly(() => load(name, options));
      } catch (error) {
        if (error?.code !== 'ERR_MODULE_NOT_FOUND' || typeof name !== 'string' || /^[./]|:/.test(name)) throw error;
        first ??= error;
      }
    }
    throw first;
  }

  /** import.meta of a script; of a cell without a file. */
  meta(file = `${this.directory}/cell.js`) {
    const known = this._metas.get(file);
    if (known !== undefined) {
      return known;
    }
    const { resolve } = createRequire(file);
    const meta = {
      __proto__: null,
      dirname: path.dirname(file),
      filename: file,
      resolve: (name) => (/^(?:node|file|data):/.test(name) || builtinModules.includes(name) ? new URL(builtinModules.includes(name) ? `node:${name}` : name).href : pathToFileURL(resolve(name)).href),
      url: pathToFileURL(file).href,
    };
    this._metas.set(file, meta);
    return meta;
  }

  /** Puts the modules of Node under their names, as its REPL does. A name that the code declares replaces it. */
  addNames(target) {
    for (const name of builtinModules) {
      if (/^[a-z]\w*$/.test(name) && name !== 'module' && !(name in target)) {
        const define = (value) =>
          Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
        Object.defineProperty(target, name, {
          get: () => {
            const value = this.require(name);
            define(value);
            return value;
          },
          set: define,
          enumerable: false,
          configurable: true,
        });
      }
    }
  }
}

class InstallError extends Error {}
InstallError.prototype.name = 'InstallError';

function failure(message) {
  return { __proto__: null, error: new InstallError(message), added: [] };
}

class Installer {
  constructor(channel, modules) {
    this._channel = channel;
    this._modules = modules;
    this._here = new kept.Set(); // what was installed before
    this._last = null; // {run, promise} of the last request
  }

  /** install() of code: names of packages, or arrays of them. Returns [{name, version}] of what was added; throws InstallError. */
  async install(given, run) {
    const words = given.flat();
    const wrong = words.findIndex((word) => typeof word !== 'string');
    if (wrong >= 0) {
      throw new TypeError(`a package is a string, as in "lodash@^4", not ${words[wrong] === null ? 'null' : typeof words[wrong]}`);
    }
    if (words.length === 0) {
      throw new InstallError('install() needs the name of a package');
    }
    const { error, added } = await this._ask(words, run);
    if (error !== null) {
      throw error;
    }
    return added;
  }

  /** Asks for packages of the list that the session lacks. Returns null if it has all, else a promise of an error, or of null. */
  provide(list, run) {
    return list.every((word) => this._here.has(word)) ? null : kept.then(this._ask(list, run), ({ error }) => error);
  }

  /**
   * Returns a promise of {error, added}: an error or null, and what was added. The broker takes one request of a session at a time, so
   * those of a run wait for each other. That of an interrupted run may never be answered: other runs do not wait for it.
   */
  _ask(list, run) {
    const next = () => this._askNow(list, run);
    const promise = this._last?.run === run ? kept.then(this._last.promise, next, next) : next();
    this._last = { __proto__: null, run, promise };
    return promise;
  }

  _askNow(list, run) {
    const wanted = list.filter((word) => !this._here.has(word));
    if (wanted.length === 0) {
      return kept.Promise.resolve({ __proto__: null, error: null, added: [] });
    }
    if (wanted.length > NAMED_MAX || wanted.join('').length > CHARACTERS_MAX) {
      return kept.Promise.resolve(failure(`at most ${NAMED_MAX} packages can be named at once`));
    }
    const query = {
      what: 'install',
      requirements: wanted,
      have: [],
      python: process.versions.node,
      platform: fs.readdirSync('/lib').some((name) => name.startsWith('ld-musl')) ? 'musl' : 'glibc',
    };
    return kept.then(this._channel.call(QUERY, kept.stringify(query), run), (payload) => this._take(wanted, kept.parse(payload)));
  }

  _take(wanted, answer) {
    if (!answer.ok) {
      return failure(answer.error.message);
    }
    const place = `${TARGET}/${answer.result.set}/node_modules`;
    if (!fs.existsSync(place)) {
      return failure('the packages were installed, but this session cannot read them: it is older than packages.install in the ' +
        'config. Reset it (reset: true)');
    }
    this._modules.add(place);
    wanted.forEach((word) => this._here.add(word));
    return { __proto__: null, error: null, added: answer.result.packages.map(({ name, version }) => ({ name, version })) };
  }
}

module.exports = { Modules, Installer, IMPORTS, quietly };
