/*
 * The two eras of MCP that a server may speak: with a handshake that the connection remembers
 * (initialize, to 2025-11-25), or with all that is needed in each request (from 2026-07-28 on).
 */
#pragma once

enum hub_era { HUB_ERA_UNKNOWN, HUB_ERA_LEGACY, HUB_ERA_MODERN, HUB_ERA_MAX };

const char *hub_era_name(enum hub_era era);

/* HUB_ERA_UNKNOWN for what is no era's name, NULL included. */
enum hub_era hub_era_find(const char *name);
