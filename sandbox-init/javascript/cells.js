'use strict';
/* Runs the code of a cell or of a script in the global scope. */

const { Module } = require('module');
const path = require('path');
const kept = require('./intrinsics.js');
const { compileCell, compileScript } = require('./compiler.js');
const { OURS } = require('./rewrite.js');

const runScript = kept.uncurried(require('vm').Script.prototype.runInThisContext);
// Otherwise V8 puts the line of the code before the stack.
const QUIET = { __proto__: null, displayErrors: false };
const { getOwnPropertyDescriptor, defineProperty } = kept;

const constants = new kept.Map(); // name -> {get, value} of what constant() has made

function constantError() {
  return new TypeError('Assignment to constant variable.');
}

/** Makes a variable a constant: an assignment throws, as to one of `const`. A later cell may declare it again. */
function constant(name) {
  const before = getOwnPropertyDescriptor(globalThis, name);
  if (before === undefined || !before.configurable || !before.writable) {
    return;
  }
  const { value } = before;
  const get = () => value;
  constants.set(name, { __proto__: null, get, value });
  const set = () => {
    throw constantError();
  };
  defineProperty(globalThis, name, { __proto__: null, get, set, enumerable: true, configurable: true });
}

function valueOf(name, before) {
  const known = before?.get === undefined ? undefined : constants.get(name);
  return known !== undefined && known.get === before.get ? known.value : before?.value;
}

/** Makes the names of a cell global variables, also those that Node or Cloister have defined as accessors, constants or hidden. */
function declare(names) {
  for (let i = 0; i < names.length; i++) {
    const before = getOwnPropertyDescriptor(globalThis, names[i]);
    if (before === undefined || (before.configurable && !(before.writable && before.enumerable))) {
      const value = before?.writable || before?.get ? valueOf(names[i], before) : undefined;
      constants.delete(names[i]);
      defineProperty(globalThis, names[i], { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    }
  }
}

/** Ends code of a cell that was interrupted. */
const ENDED = new Error('the cell was interrupted');

class Cells {
  /** modules: modules.js */
  constructor(modules) {
    this._modules = modules;
    this._ended = new kept.Set(); // cells that were interrupted
    const ended = this._ended;
    // What the rewritten code calls.
    this.ours = {
      __proto__: null,
      run: 0, // the cell to which the code that runs belongs, as far as that is known
      load: modules.load,
      meta: (file) => modules.meta(file),
      get constant() {
        return undefined;
      },
      set constant(value) {
        throw constantError();
      },
      resume(run, value) {
        this.run = run;
        if (ended.size > 0 && ended.has(run)) {
          throw ENDED; // a catch or finally of rewritten code begins with this function, and throws again
        }
        return value;
      },
    };
    defineProperty(globalThis, OURS, { __proto__: null, value: this.ours });
    globalThis.require = modules.require;
  }

  /** Code of this cell does not continue after its next await. */
  end(run) {
    this._ended.add(run);
  }

  /** After a cell that has run to its end. */
  keepConstants(names) {
    for (let i = 0; i < names.length; i++) {
      constant(names[i]);
    }
  }

  /** Returns {constants} with {value}, or with {promise}. Throws what the code throws. */
  run(number, source, name) {
    const { names, constants: fixed, functions, script, isAsync } = compileCell(source, name);
    this.ours.run = number;
    declare(names);
    if (functions !== null) {
      runScript(functions, QUIET);
    }
    const value = runScript(script, QUIET);
    if (isAsync) {
      return { __proto__: null, promise: value(number), value: undefined, constants: fixed };
    }
    // main() as the last line.
    return { __proto__: null, promise: kept.isPromise(value) ? value : null, value, constants: fixed };
  }

  /** The same for a script, which has no value. name: that of addSource(). given: that of its file. */
  runScript(number, source, name, given) {
    const script = compileScript(source, name);
    this.ours.run = number;
    const file = path.resolve(this._modules.directory, given);
    const module = new Module(file, null);
    module.filename = file;
    module.id = '.';
    module.paths = Module._nodeModulePaths(path.dirname(file));
    const load = Module.createRequire(file);
    load.main = module;
    const main = runScript(script, QUIET);
    const value = main.call(module.exports, number, module.exports, load, module, file, path.dirname(file));
    return { __proto__: null, promise: kept.isPromise(value) ? value : null, value: undefined, constants: [] };
  }
}

module.exports = { Cells, ENDED };
