'use strict';
/* The errors of a tool call. */

/**
 * A tool call failed. If the class is not a subclass below, the tool itself reported the error.
 *
 * server, tool    the tool that was called, and its server
 * content         the content blocks of the answer, as the server sent them ([] when there was none)
 */
class ToolError extends Error {
  constructor(message = '', { server, tool, content = [], ...more } = {}) {
    super(message);
    const own = { server, tool, content, ...more };
    for (const key of Object.keys(own)) {
      const enumerable = key === 'code' || key === 'data';
      Object.defineProperty(this, key, { value: own[key], writable: true, configurable: true, enumerable });
    }
  }
}

/** No server has such a tool, or several have; nothing was sent. */
class ToolNotFound extends ToolError {}

/** The arguments do not fit the tool's schema, or no JSON can carry them; nothing was sent. */
class ToolArgumentError extends ToolError {}

/** The server cannot be started, has crashed, or its connection was closed. */
class ToolUnavailable extends ToolError {}

/** The server did not answer in time; whether it did the work is unknown. */
class ToolTimeout extends ToolError {}

/** The server answered with a JSON-RPC error (code, data) or with an invalid response (data: the whole result). */
class ToolProtocolError extends ToolError {}

/** The server requires something that the client cannot provide. request: {method, params}; url: an address to open, or null. */
class ToolInputRequired extends ToolError {}

/** A rule of the config, or a person, does not allow this call; nothing was sent. rule: "config.json line 14"; why: its reason; or null. */
class ToolDenied extends ToolError {}

const KINDS = { ToolError, ToolNotFound, ToolArgumentError, ToolUnavailable, ToolTimeout, ToolProtocolError, ToolInputRequired, ToolDenied };

for (const [name, kind] of Object.entries(KINDS)) {
  Object.defineProperty(kind.prototype, 'name', { value: name, writable: true, configurable: true });
}

module.exports = KINDS;
