/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/settings.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>

void settings_fini(struct settings *s)
{
    for (size_t i = 0; i < s->n; i++)
        mem_free(s->v[i]);
    s->n = s->n_assigned = 0;
}

static char *join(struct slice key, struct slice value)
{
    char *text = mem_try_alloc(key.n + value.n + 2);
    if (!text)
        return NULL;
    memcpy(text, key.p, key.n);
    text[key.n] = '=';
    if (value.n)
        memcpy(text + key.n + 1, value.p, value.n);
    return text;
}

void settings_copy(struct settings *to, const struct settings *from)
{
    *to = (struct settings){.n_assigned = from->n_assigned};
    for (; to->n < from->n; to->n++) {
        size_t n = strlen(from->v[to->n]) + 1;
        to->v[to->n] = mem_alloc(n);
        memcpy(to->v[to->n], from->v[to->n], n);
    }
}

static void take_out(struct settings *s, size_t at)
{
    mem_free(s->v[at]);
    s->n--;
    memmove(&s->v[at], &s->v[at + 1], (s->n - at) * sizeof *s->v);
    s->n_assigned -= at < s->n_assigned;
}

void settings_forget_assigned(struct settings *s)
{
    while (s->n_assigned)
        take_out(s, 0);
}

static bool is_of(const char *text, struct slice key)
{
    return strncmp(text, key.p, key.n) == 0 && text[key.n] == '=';
}

int settings_put(struct settings *s, struct slice key, struct slice value, bool is_assigned)
{
    char *text = value.n ? join(key, value) : NULL;
    if (value.n && !text)
        return -ENOMEM;
    for (size_t i = s->n; i-- > 0;)
        if (is_of(s->v[i], key))
            take_out(s, i);
    if (!text)
        return 0;
    if (s->n == SETTINGS_MAX) {
        mem_free(text);
        return E_LIMIT;
    }
    size_t at = is_assigned ? s->n_assigned++ : s->n;
    memmove(&s->v[at + 1], &s->v[at], (s->n - at) * sizeof *s->v);
    s->v[at] = text;
    s->n++;
    return 0;
}

bool settings_text(struct value v, char buffer[32], struct slice *out)
{
    switch (v.type) {
    case VALUE_TEXT:
        *out = value_slice(v);
        return v.n <= CONFIG_TEXT_MAX && !text_has_control(*out);
    case VALUE_UINT:
        *out = slice_of(buffer, (size_t)snprintf(buffer, 32, "%" PRIu64, v.u));
        return true;
    case VALUE_INT:
        *out = slice_of(buffer, (size_t)snprintf(buffer, 32, "%" PRId64, v.i));
        return true;
    default:
        return false;
    }
}
