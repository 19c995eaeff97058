/* The settings of cloister-inject: secrets, their hosts, and their values, which it gets once by a pipe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/inject-messages.h"

/* A variable: {"secrets": [{"name", "in": [PLACE, …], "to": ["HOST:PORT", …]}, …],
 * "inspect": ["HOST:PORT", …]} */
#define INJECT_VARIABLE "CLOISTER_INJECT"

enum { INJECT_VALUE_MAX = 4096 /* bytes of a value */ };

enum inject_place {
        INJECT_HEADERS = 1,
        INJECT_QUERY = 2,
        INJECT_BODY = 4,
        INJECT_ELSEWHERE = 8, /* path and names of headers: no secret has it */
};

struct inject_secret {
        char name[INJECT_NAME_SIZE];
        unsigned places; /* bits of enum inject_place */
        uint32_t hosts;  /* bits, by index */
        char *value;
        size_t n_value;
};

struct inject_settings {
        struct inject_secret secrets[INJECT_SECRETS_MAX];
        size_t n_secrets;
        struct inject_host {
                char name[INJECT_HOST_SIZE];
                uint16_t port;
        } hosts[INJECT_HOSTS_MAX];
        size_t n_hosts;
        uint32_t inspected; /* bits of hosts: those with "inspect" */
};

/* text: of the variable. values: the JSON object that cloister-access writes. */
int inject_settings_read(struct inject_settings *ret, const char *text, const char *values,
                         size_t n_values, struct error *err);
/* The index of a host, or -1. */
int inject_settings_host(const struct inject_settings *settings, const char *name, uint16_t port);
