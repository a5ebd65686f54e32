/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the gateway's configuration. Loading ends, and either says what is wrong or gives a
 * configuration that, shown, loads again and is shown in the same words; and that holds what the gateway
 * relies on: nothing is open to other hosts without TLS or `insecure`, every observer has a type that there
 * is, and a file its path. */
#include "gateway/config_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[64];
static int fd = -1;

static void write_file(struct slice text)
{
    if (fd < 0) {
        fd = memfd_create("gateway.conf", MFD_CLOEXEC);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fits */
    }
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, text.p, text.n, 0) != (ssize_t)text.n)
        abort();
}

/* NULL: it was refused, as it should be. */
static struct gateway_config *load(struct slice text)
{
    const struct config_flags flags = {.file = path};
    struct gateway_config *c = NULL;
    struct diag why = {.message = ""};
    write_file(text);
    int r = gateway_config_load(&flags, &c, &why);
    if (r < 0 && (r != -EINVAL || c || why.message[0] == '\0'))
        abort();
    return c;
}

static void check_safe(const struct gateway_config *c)
{
    struct slice rest = slice_str(c->listen), word;
    struct config_address address;
    while (config_next_word(&rest, ',', &word)) {
        if (!config_address_parse(word, &address) || (address.kind == ADDRESS_TLS && !*c->identity))
            abort();
        if (address.kind == ADDRESS_TCP && !c->is_insecure && !config_address_is_loopback(&address))
            abort();
    }
    if (*c->udp && (!config_address_parse(slice_str(c->udp), &address) || address.kind == ADDRESS_UNIX))
        abort();
    if (c->level > SEAL_PRIVATE || c->renew_ms == 0 || c->renew_ms > c->lease_ms / 3 ||
        c->connections_max == 0)
        abort();
    if (!*c->journal)
        abort();
    for (size_t i = 0; i < c->n_observers; i++) {
        const struct observer_config *o = &c->observers[i];
        bool is_file = strcmp(o->type, "file") == 0;
        if ((!is_file && strcmp(o->type, "text") != 0) || is_file != (o->path != NULL) || !o->events ||
            !o->where)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf first = {0}, again = {0};
    struct gateway_config *c = load(slice_of((const char *)data, size));
    if (!c)
        return 0;
    check_safe(c);
    gateway_config_show(c, CONFIG_FORM_TEXT, true, &first);
    struct gateway_config *second = load(strbuf_slice(&first));
    if (!second)
        abort();
    strbuf_reset(&first);
    gateway_config_show(c, CONFIG_FORM_TEXT, false, &first);
    gateway_config_show(second, CONFIG_FORM_TEXT, false, &again);
    if (!slice_eq(strbuf_slice(&first), strbuf_slice(&again)))
        abort();
    gateway_config_show(second, CONFIG_FORM_JSON, true, &again);
    gateway_config_destroy(c);
    gateway_config_destroy(second);
    strbuf_fini(&first);
    strbuf_fini(&again);
    return 0;
}
