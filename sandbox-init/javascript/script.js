'use strict';
/* What `cloister run` gives to code besides its text: arguments, variables of the environment, its file, standard input. */

const fs = require('fs');
const path = require('path');
const kept = require('./intrinsics.js');

const BUNDLE = '/dev/shm/cloister-certificates.pem';
const USUAL = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/ca-bundle.pem', '/etc/ssl/cert.pem'];
const VARIABLES = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS', 'GIT_SSL_CAINFO', 'PIP_CERT'];

function ofImage() {
  for (const path of [process.env.SSL_CERT_FILE, ...USUAL]) {
    try {
      return `${fs.readFileSync(path, 'latin1').trimEnd()}\n`;
    } catch {
      // not there
    }
  }
  return '';
}

/** Secrets for HTTPS requests, before the first cell: placeholders as variables, and the certificate of the authority of their hosts, in a bundle with those
 * of the image (docs/secrets.md). Node itself gets it apart. */
function takeSecrets(payload) {
  const { environment, certificate } = kept.parse(kept.utf8(payload, 0, payload.length));
  Object.assign(process.env, environment);
  fs.writeFileSync(BUNDLE, ofImage() + certificate, 'latin1');
  for (const name of VARIABLES) process.env[name] = BUNDLE;
  const tls = require('tls');
  tls.setDefaultCACertificates?.([...tls.getCACertificates('default'), certificate]);
}

class Scripts {
  constructor(channel, files, ours) {
    this._channel = channel;
    this._files = files;
    this._ours = ours;
    this._payload = null;
    this._arguments = null;
  }

  onFrame(payload) {
    this._payload = kept.utf8(payload, 0, payload.length);
  }

  /** Before a cell with this code. A cell of `cloister run` is a script from then on. */
  begin(source, name, cell) {
    process.exitCode = undefined;
    if (this._payload === null) {
      if (this._arguments === null) {
        process.argv = cell.isScript ? [process.execPath, path.resolve(this._files.root, name)] : [process.execPath];
      }
      cell.isScript ||= this._arguments !== null;
      return;
    }
    const given = kept.parse(this._payload);
    this._payload = null;
    const { arguments: list, environment, file, write, input, guest } = given;
    cell.isPython = guest === 'pyodide';
    if (list === undefined) {
      this._readFrom(input);
      return;
    }
    if (write && path.dirname(file) === this._files.root) {
      this._files.write(path.basename(file), Buffer.from(source));
    }
    Object.assign(process.env, environment);
    this._readFrom(input);
    this._arguments = list;
    cell.isScript = true;
    process.argv = [process.execPath, file ?? list[0] ?? '', ...list.slice(1)];
  }

  _readFrom(input) {
    if (input !== 'none') {
      const { Input, readByDescriptor } = require('./standard-input.js');
      readByDescriptor(this._channel, this._ours);
      const stream = new Input(this._channel, this._ours, input === 'terminal');
      Object.defineProperty(process, 'stdin', { value: stream, writable: true, enumerable: true, configurable: true });
    }
  }

  /** The RESULT of a script that has ended by itself. */
  end() {
    const code = this.exitCode(undefined, true);
    return code === 0 ? '{"status":"ok"}' : `{"status":"exit","exit_code":${code}}`;
  }

  /** The status of process.exit(code), 0 to 255. A script's listeners are called, which may set another one. */
  exitCode(code, isScript) {
    if (code !== undefined) {
      process.exitCode = code;
    }
    if (isScript) {
      try {
        process.emit('exit', process.exitCode ?? 0);
        process.removeAllListeners('exit');
      } catch {
        // as Node, which ends anyway
      }
    }
    return (Number(process.exitCode) || 0) & 0xff;
  }
}

module.exports = { Scripts, takeSecrets };
