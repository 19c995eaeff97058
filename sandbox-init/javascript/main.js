'use strict';
/* The start of the worker; README.md says how Node is executed. Its syntax is one that an old Node parses. */

var version = process.versions.node.split('.');

if (Number(version[0]) < 20) {
  process.stderr.write('cloister: Node ' + process.versions.node + ' is too old: 20 or later is needed\n');
  process.exit(1);
}

var settings = JSON.parse(process.argv[2]);

process.argv = [process.execPath];
process.execArgv = [];
new (require('./session.js').Session)(settings).prepareLater();
