/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-helper with one sensor, probe, that behaves in all the ways that a helper sensor can. */
#include "unit/sensor/probe.h"

#include "base/num.h"
#include "helper/serve.h"
#include "base/strays.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static bool does(const struct probe *p, const char *act)
{
    return strcmp(p->act, act) == 0;
}

static int probe_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct probe *p = state;
    if (does(p, "no open"))
        return diag_set(why, -EACCES, 0, "not allowed, as asked for");
    if (env->position.n && num_parse_uint(env->position, &p->count) < 0)
        return diag_set(why, E_PROTO, 0, "a position of mine is a number");
    if (strcmp(env->name, "p1") != 0 || strcmp(env->root, "/some/root") != 0)
        return diag_set(why, -EINVAL, 0, "name or root did not arrive");
    if (pipe(p->pipe) < 0)
        return -errno;
    p->is_open = true;
    for (int64_t i = 0; does(p, "follow") && i < p->n; i++)
        if (write(p->pipe[1], "x", 1) != 1)
            return -EIO;
    return 0;
}

static void emit_row(struct probe *p, struct sensor_out *out)
{
    char words[100];
    int n = snprintf(words, sizeof words, "%s/%s/%zu", p->words.v[0], p->words.v[p->words.n - 1], p->words.n);
    const struct value row[] = {value_text(slice_str(p->act)), value_uint(p->count),
                                value_text(slice_of(words, (size_t)n)), value_none()};
    sensor_row(out, 0, row);
}

static int emit_event(struct probe *p, struct sensor_out *out)
{
    const struct event_head head = {.time_ns = 5, .name = SLICE_LIT("learned.event"), .level = LEVEL_WARNING};
    const struct named_value v[] = {{SLICE_LIT("n"), value_int((int64_t)p->count)},
                                    {SLICE_LIT("x"), value_float(0.5)}};
    return sensor_event(out, &head, v, 2, out->why);
}

static void mark(struct probe *p, struct sensor_out *out)
{
    char text[NUM_TEXT_MAX];
    sensor_mark(out, slice_of(text, num_print_uint(text, p->count)));
}

static int probe_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    static char large[EVENT_TEXT_MAX + 1];
    struct probe *p = state;
    char byte;
    (void)env;
    if (does(p, "follow") && out->is_due)
        return 0;
    p->count++;
    if (does(p, "nothing"))
        return diag_set(out->why, E_NODATA, 0, "nothing, as asked for");
    if (does(p, "fail"))
        return diag_set(out->why, -EIO, 0, "failed, as asked for");
    if (does(p, "hang"))
        for (;;)
            (void)pause();
    if (does(p, "die")) {
        (void)fputs("about to die\n", stderr);
        abort();
    }
    if (does(p, "garbage"))
        return write(STDOUT_FILENO, "this is no frame, and long enough for a head", 44) > 0 ? 0 : -EIO;
    if (does(p, "too much")) {
        memset(large, 'x', sizeof large);
        const struct value row[] = {value_text(slice_of(large, sizeof large)), value_uint(1), value_none(),
                                    value_none()};
        sensor_row(out, 0, row);
        return 0;
    }
    if (does(p, "follow") && read(p->pipe[0], &byte, 1) != 1)
        return -EIO;
    for (int64_t i = 0; does(p, "many") && i < p->n; i++, p->count++)
        emit_row(p, out);
    emit_row(p, out);
    int r = emit_event(p, out);
    if (!does(p, "unmarked"))
        mark(p, out);
    return r;
}

static void probe_close(void *state)
{
    struct probe *p = state;
    if (p->is_open) {
        (void)close(p->pipe[0]);
        (void)close(p->pipe[1]);
    }
}

static int probe_wait_fd(void *state)
{
    struct probe *p = state;
    return p->pipe[0];
}

static int find(const char *name, struct sensor_ops *out)
{
    if (strcmp(name, "probe") != 0)
        return E_NODATA;
    *out = probe_ops;
    out->is_helper = false;
    out->open = probe_open;
    out->sample = probe_sample;
    out->close = probe_close;
    out->wait_fd = probe_wait_fd;
    return 0;
}

int main(void)
{
    struct diag why = {0};
    (void)strays_adopt(); /* as gridline-helper */
    int r = helper_serve(STDIN_FILENO, STDOUT_FILENO, find, &why);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", why.message);
    return r < 0;
}
