/* SPDX-License-Identifier: Apache-2.0 */
/* Faults as people read them. */
#include "base/text.h"
#include "guard/faults.h"

enum { SUMMARY_MAX = 2000 };

static const struct act_datum *find_field(const struct fault *f, struct slice name)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq_nocase(f->fields[i].name, name))
            return &f->fields[i];
    return NULL;
}

/* A {NAME} at the beginning of text: what it stands for, and its length; 0 = it is none. */
static size_t placeholder(const struct fault *f, struct slice text, struct slice *value)
{
    const char *end = memchr(text.p, '}', text.n);
    if (!end)
        return 0;
    struct slice name = {text.p + 1, (size_t)(end - text.p) - 1};
    const struct act_datum *d = find_field(f, name);
    if (d)
        *value = d->value;
    else if (slice_eq_str(name, "rule"))
        *value = slice_str(f->of->name);
    else
        return 0;
    return name.n + 2;
}

static void fill_template(const struct fault *f, struct slice left, struct strbuf *out)
{
    while (left.n) {
        struct slice value;
        size_t n = left.p[0] == '{' ? placeholder(f, left, &value) : 0;
        if (left.n > 1 && left.p[0] == '{' && left.p[1] == '{') { /* {{ is { */
            strbuf_add_char(out, '{');
            n = 2;
        } else if (n) {
            strbuf_add_slice(out, value);
        } else {
            strbuf_add_char(out, left.p[0]);
            n = 1;
        }
        left = slice_from(left, n);
    }
}

static void list_fields(const struct fault *f, struct strbuf *out)
{
    for (size_t i = 0; i < f->n_fields; i++) {
        if (i)
            strbuf_add_char(out, ' ');
        strbuf_add_slice(out, f->fields[i].name);
        strbuf_add_char(out, '=');
        strbuf_add_slice(out, f->fields[i].value);
    }
}

/* Cut to SUMMARY_MAX bytes, between characters. */
static void cut(struct strbuf *out, size_t from)
{
    size_t n = SUMMARY_MAX;
    if (out->n - from <= SUMMARY_MAX)
        return;
    while (n > 0 && ((unsigned char)out->p[from + n] & 0xc0) == 0x80)
        n--;
    out->n = from + n;
    out->p[out->n] = '\0';
}

void fault_summary(const struct fault *f, const struct rule_config *rule, struct strbuf *out)
{
    size_t from = out->n;
    if (rule->summary && rule->summary[0])
        fill_template(f, slice_str(rule->summary), out);
    else
        list_fields(f, out);
    cut(out, from);
}

void fault_id_print(uint64_t id, char out[17])
{
    for (int i = 15; i >= 0; i--, id >>= 4)
        out[i] = "0123456789abcdef"[id & 15];
    out[16] = '\0';
}

bool fault_id_parse(struct slice text, uint64_t *out)
{
    if (text.n != 16)
        return false;
    uint64_t id = 0;
    for (size_t i = 0; i < text.n; i++) {
        int digit = text_hex_digit(text.p[i]);
        if (digit < 0)
            return false;
        id = id << 4 | (uint64_t)digit;
    }
    *out = id;
    return true;
}

int64_t fault_since(const struct fault *f)
{
    if (f->life.state == FAULT_FIRING || f->life.state == FAULT_CLEARING)
        return f->life.fired_ns;
    return f->life.state == FAULT_CLEARED ? f->life.cleared_ns : f->life.counts_ns;
}

const struct action_names *notice_actions(const struct notice *n)
{
    switch (n->kind) {
    case NOTICE_FIRE:
        return &n->rule->on_fire;
    case NOTICE_REPEAT:
        return &n->rule->on_repeat;
    case NOTICE_ESCALATE:
        return &n->rule->on_escalate;
    case NOTICE_CLEAR:
        break;
    }
    return &n->rule->on_clear;
}
