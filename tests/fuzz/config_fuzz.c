/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a configuration: as this host's file, and as a document from a URL. Loading ends, and either
 * says what is wrong or gives a configuration that, shown, loads again as the same one and is shown in the
 * same words. An unsigned document that loads names no program but the one allowed, and would load signed,
 * too. */
#include "unit/agent/config_sensors.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOWED "/bin/allowed"

static char path[64];
static int fd = -1;

static void write_file(struct slice text)
{
    if (fd < 0) {
        fd = memfd_create("agent.conf", MFD_CLOEXEC);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fits */
    }
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, text.p, text.n, 0) != (ssize_t)text.n)
        abort();
}

static void check_refusal(int r, const struct diag *why)
{
    if (r != -EINVAL || why->message[0] == '\0')
        abort();
}

/* NULL: it was refused, as it should be. */
static struct agent_config *load(struct slice text, bool must_load)
{
    struct config_flags flags = {.file = path};
    struct agent_config *c = NULL;
    struct diag why = {.message = ""};
    write_file(text);
    int r = config_load(&flags, &c, &why);
    if (r < 0) {
        check_refusal(r, &why);
        if (must_load)
            abort();
    }
    return c;
}

static void check_file(struct slice text)
{
    struct strbuf shown = {0}, again = {0};
    struct agent_config *first = load(text, false);
    if (!first)
        return;
    config_show(first, CONFIG_FORM_TEXT, true, &shown);
    struct agent_config *second = load(strbuf_slice(&shown), true);
    if (!same_config(first, second))
        abort();
    strbuf_reset(&shown);
    config_show(first, CONFIG_FORM_TEXT, false, &shown);
    config_show(second, CONFIG_FORM_TEXT, false, &again);
    if (!slice_eq(strbuf_slice(&shown), strbuf_slice(&again)))
        abort();
    config_show(second, CONFIG_FORM_JSON, true, &again);
    config_destroy(first);
    config_destroy(second);
    strbuf_fini(&shown);
    strbuf_fini(&again);
}

static void check_programs(const struct sensor_config *s)
{
    for (size_t i = 0; i < s->n_settings; i++) {
        const struct parameter_setting *o = &s->settings[i];
        bool is_program = strcmp(o->name, "command") == 0 || strcmp(o->name, "shell") == 0;
        if (s->ops == &sensor_run && is_program && o->n && strcmp(o->texts[0], ALLOWED) != 0)
            abort();
    }
}

static void check_document(struct slice text)
{
    struct config_flags flags = {
        .file = path, .settings = (const char *[]){"allow_programs=" ALLOWED}, .n_settings = 1};
    struct agent_config *c = NULL, *is_signed = NULL;
    struct diag why = {.message = ""};
    write_file(SLICE_LIT(""));
    int r = config_load_remote(&flags, text, "document", false, &c, &why);
    int r_signed = config_load_remote(&flags, text, "document", true, &is_signed, NULL);
    if (r < 0)
        check_refusal(r, &why);
    else if (r_signed < 0 || !same_config(c, is_signed))
        abort();
    for (size_t i = 0; c && i < c->n_sensors; i++)
        check_programs(&c->sensors[i]);
    config_destroy(c);
    config_destroy(is_signed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    check_file(text);
    check_document(text);
    return 0;
}
