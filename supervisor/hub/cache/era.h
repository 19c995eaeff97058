/*
 * The two eras of MCP: legacy (to 2025-11-25), where a connection begins with initialize, and modern
 * (from 2026-07-28), where each request carries what initialize said.
 */
#pragma once

enum hub_era { HUB_ERA_UNKNOWN, HUB_ERA_LEGACY, HUB_ERA_MODERN, HUB_ERA_MAX };

const char *hub_era_name(enum hub_era era);

/* HUB_ERA_UNKNOWN for any other text and for NULL. */
enum hub_era hub_era_find(const char *name);
