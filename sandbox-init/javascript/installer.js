'use strict';
/* Packages of npm that a call names (docs/packages.md): the broker has them fetched, and they appear below TARGET. */

const fs = require('fs');
const kept = require('./intrinsics.js');
const { QUERY } = require('./frames.js');

const TARGET = '/run/packages';
const NAMED_MAX = 100;
const CHARACTERS_MAX = 16000;

class InstallError extends Error {}
InstallError.prototype.name = 'InstallError';

class Installer {
  constructor(channel, modules) {
    this._channel = channel;
    this._modules = modules;
    this._here = new kept.Set(); // what was installed for an earlier cell
  }

  /** Asks for packages of the list that the session lacks. Returns null if it has all, else a promise of an error, or of null. */
  provide(list, run) {
    const wanted = list.filter((word) => !this._here.has(word));
    if (wanted.length === 0) {
      return null;
    }
    if (wanted.length > NAMED_MAX || wanted.join('').length > CHARACTERS_MAX) {
      return kept.Promise.resolve(new InstallError(`at most ${NAMED_MAX} packages can be named at once`));
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
      return new InstallError(answer.error.message);
    }
    const place = `${TARGET}/${answer.result.set}/node_modules`;
    if (!fs.existsSync(place)) {
      return new InstallError('the packages were installed, but this session cannot read them: it is older than packages.install in the ' +
        'config. Reset it (reset: true)');
    }
    this._modules.add(place);
    wanted.forEach((word) => this._here.add(word));
    return null;
  }
}

module.exports = { Installer };
