/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/action_order.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { VERSION = 1, IS_STARTED = 1, SUMMARY_MAX = 4096, OWN_DATA = 15 };

/* ---------------------------------------------------------------- making */

/* At most max bytes, and not half a character. */
static struct slice cut(struct slice s, size_t max)
{
    if (s.n <= max)
        return s;
    s.n = max;
    while (s.n && (s.p[s.n] & 0xc0) == 0x80)
        s.n--;
    return s;
}

/* "rule: summary", on one line whatever is in it: a value with a newline must not look like a fault more. */
static int add_line(struct order *o, const struct notice *n, struct slice summary)
{
    struct strbuf line = {0};
    if (o->lines == ORDER_LINES)
        return 0;
    strbuf_printf(&line, "%s: ", n->rule->name);
    strbuf_add_slice(&line, summary);
    for (size_t i = 0; i < line.n; i++)
        if ((unsigned char)line.p[i] < ' ' || line.p[i] == 0x7f)
            line.p[i] = ' ';
    struct slice shown = cut(strbuf_slice(&line), ORDER_LINE_MAX);
    int r = strbuf_failed(&line) || !strbuf_room(&o->body, shown.n + 10) ? -ENOMEM : 0;
    if (r == 0) {
        strbuf_add_text(&o->body, shown);
        o->lines++;
    }
    o->body.failed = false; /* the lines before are whole */
    strbuf_fini(&line);
    return r;
}

static void add_body(struct strbuf *body, const struct notice *n, struct slice summary)
{
    strbuf_add_text(body, slice_str(n->rule->name));
    strbuf_add_text(body, cut(summary, SUMMARY_MAX));
    strbuf_add_varint(body, n->fault->n_fields);
    for (size_t i = 0; i < n->fault->n_fields; i++) {
        strbuf_add_text(body, n->fault->fields[i].name);
        strbuf_add_text(body, n->fault->fields[i].value);
    }
}

int order_fill(struct order *o, const struct notice *n)
{
    const struct fault *f = n->fault;
    struct strbuf summary = {0};
    size_t size = 0;
    for (size_t i = 0; i < f->n_fields; i++)
        size += f->fields[i].name.n + f->fields[i].value.n + 20;
    if (f->n_fields > ORDER_FIELDS_MAX || size > ORDER_MAX - SUMMARY_MAX - ORDER_LINES * (ORDER_LINE_MAX + 2))
        return E_LIMIT;
    o->fault = f->id;
    o->kind = n->kind;
    o->severity = n->rule->severity;
    o->faults = 1;
    o->given_ns = n->now_ns;
    o->since_ns = f->life.fired_ns;
    fault_summary(f, n->rule, &summary);
    add_body(&o->body, n, strbuf_slice(&summary));
    int r = strbuf_failed(&summary) || strbuf_failed(&o->body) ? -ENOMEM : 0;
    if (r == 0)
        r = add_line(o, n, strbuf_slice(&summary));
    strbuf_fini(&summary);
    return r;
}

int order_join(struct order *o, const struct notice *n)
{
    struct strbuf summary = {0};
    int r = 0;
    if (o->lines < ORDER_LINES) {
        fault_summary(n->fault, n->rule, &summary);
        r = strbuf_failed(&summary) ? -ENOMEM : add_line(o, n, strbuf_slice(&summary));
        strbuf_fini(&summary);
    }
    if (r < 0)
        return r;
    o->faults += o->faults < UINT32_MAX;
    if (n->rule->severity > o->severity)
        o->severity = n->rule->severity;
    return 0;
}

void order_destroy(struct order *o)
{
    if (!o)
        return;
    strbuf_fini(&o->body);
    mem_free(o);
}

/* ---------------------------------------------------------------- records */

void order_pack(const struct order *o, const char *action, struct strbuf *out)
{
    const unsigned char head[] = {VERSION, o->is_started ? IS_STARTED : 0, (unsigned char)o->kind,
                                  (unsigned char)o->severity};
    strbuf_add(out, head, sizeof head);
    strbuf_add_varint(out, o->attempts);
    strbuf_add_varint(out, o->faults);
    strbuf_add_varint(out, o->left_out);
    strbuf_add_u64(out, o->fault);
    strbuf_add_u64(out, (uint64_t)o->given_ns);
    strbuf_add_u64(out, (uint64_t)o->since_ns);
    strbuf_add_u64(out, (uint64_t)o->ready_ns);
    strbuf_add_text(out, slice_str(action));
    strbuf_add_slice(out, strbuf_slice(&o->body));
}

/* So that nothing that is added to it overflows. */
static bool is_time(int64_t ns)
{
    return ns >= 0 && ns < INT64_MAX / 2;
}

static int check_body(struct order *o, struct slice body)
{
    struct cursor c = cursor_of(body);
    (void)cursor_text(&c); /* rule */
    (void)cursor_text(&c); /* summary */
    uint64_t n = cursor_varint(&c);
    if (n > ORDER_FIELDS_MAX)
        return E_PROTO;
    for (uint64_t i = 0; i < 2 * n; i++)
        (void)cursor_text(&c);
    for (o->lines = 0; cursor_left(&c) && o->lines <= ORDER_LINES; o->lines++)
        (void)cursor_text(&c);
    return c.bad || o->lines > ORDER_LINES ? E_PROTO : 0;
}

int order_unpack(struct slice record, struct order *o, struct slice *action)
{
    struct cursor c = cursor_of(record);
    const uint8_t version = cursor_u8(&c), flags = cursor_u8(&c), kind = cursor_u8(&c),
                  severity = cursor_u8(&c);
    if (!c.bad && version > VERSION)
        return E_VERSION;
    const uint64_t attempts = cursor_varint(&c), faults = cursor_varint(&c);
    o->left_out = cursor_varint(&c);
    o->fault = cursor_u64(&c);
    o->given_ns = (int64_t)cursor_u64(&c);
    o->since_ns = (int64_t)cursor_u64(&c);
    o->ready_ns = (int64_t)cursor_u64(&c);
    *action = cursor_text(&c);
    if (!is_time(o->given_ns) || !is_time(o->since_ns) || !is_time(o->ready_ns))
        return E_PROTO;
    if (c.bad || version != VERSION || flags > IS_STARTED || kind > NOTICE_CLEAR ||
        severity > SEVERITY_CRITICAL || attempts > UINT32_MAX || faults > UINT32_MAX)
        return E_PROTO;
    o->is_started = flags & IS_STARTED;
    o->kind = (enum notice_kind)kind;
    o->severity = (enum severity)severity;
    o->attempts = (uint32_t)attempts;
    o->faults = (uint32_t)faults;
    struct slice body = slice_of((const char *)c.p, cursor_left(&c));
    int r = check_body(o, body);
    if (r < 0)
        return r;
    strbuf_add_slice(&o->body, body);
    return strbuf_failed(&o->body) ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------- what it says */

struct slice order_rule(const struct order *o)
{
    struct cursor c = cursor_of(strbuf_slice(&o->body));
    return cursor_text(&c);
}

struct slice order_summary(const struct order *o)
{
    struct cursor c = cursor_of(strbuf_slice(&o->body));
    (void)cursor_text(&c);
    return cursor_text(&c);
}

void order_name(const struct order *o, const struct guard_config *config, struct strbuf *out)
{
    strbuf_printf(out, "%" PRIx64 ".%" PRIx64 ".%s", (uint64_t)o->given_ns, o->id, config->host);
}

static const char *help_of(const struct guard_config *config, struct slice rule)
{
    for (size_t i = 0; i < config->n_rules; i++)
        if (slice_eq_str(rule, config->rules[i].name))
            return config->rules[i].help ? config->rules[i].help : "";
    return ""; /* it is no longer there */
}

/* Texts are built one after the other in one buffer that moves as it grows: places first, pointers at the
 * end. */
struct data_writer {
    struct act_datum *data;
    size_t n;
    struct strbuf *text;
    struct {
        size_t datum, at;
    } built[OWN_DATA];
    size_t n_built;
};

static void add_datum(struct data_writer *w, const char *name, struct slice value)
{
    w->data[w->n++] = (struct act_datum){slice_str(name), value};
}

static void begin_text(struct data_writer *w, const char *name)
{
    w->built[w->n_built].datum = w->n;
    w->built[w->n_built++].at = w->text->n;
    add_datum(w, name, SLICE_LIT(""));
}

static void add_number(struct data_writer *w, const char *name, uint64_t v)
{
    begin_text(w, name);
    strbuf_printf(w->text, "%" PRIu64, v);
}

static void add_time(struct data_writer *w, const char *name, int64_t ns)
{
    char iso[CLOCK_TEXT_MAX];
    begin_text(w, name);
    strbuf_add(w->text, iso, clock_print_iso(iso, ns));
}

static void point_at_texts(struct data_writer *w)
{
    const struct slice all = strbuf_slice(w->text);
    for (size_t i = 0; i < w->n_built; i++) {
        size_t end = i + 1 < w->n_built ? w->built[i + 1].at : all.n;
        w->data[w->built[i].datum].value = slice_of(all.p + w->built[i].at, end - w->built[i].at);
    }
}

static void add_own(struct data_writer *w, const struct order *o, const struct action_config *action,
                    const struct guard_config *config, struct cursor *lines)
{
    char id[17];
    add_datum(w, "kind", slice_str(notice_name(o->kind)));
    add_datum(w, "rule", order_rule(o));
    add_datum(w, "severity", slice_str(severity_name(o->severity)));
    add_datum(w, "summary", order_summary(o));
    add_datum(w, "help", slice_str(help_of(config, order_rule(o))));
    add_datum(w, "guard", slice_str(config->host));
    add_datum(w, "action", slice_str(action->name));
    fault_id_print(o->fault, id);
    begin_text(w, "fault");
    strbuf_add_str(w->text, id);
    add_time(w, "time", o->given_ns);
    add_time(w, "since", o->since_ns);
    add_number(w, "count", o->faults);
    add_number(w, "left_out", o->left_out);
    add_number(w, "attempt", o->attempts);
    begin_text(w, "list");
    while (cursor_left(lines)) {
        strbuf_add_slice(w->text, cursor_text(lines));
        strbuf_add_char(w->text, '\n');
    }
}

int order_data(const struct order *o, const struct action_config *action, const struct guard_config *config,
               struct strbuf *text, struct act_datum **out, size_t *n)
{
    struct cursor c = cursor_of(strbuf_slice(&o->body));
    (void)cursor_text(&c); /* rule */
    (void)cursor_text(&c); /* summary */
    const uint64_t fields = cursor_varint(&c);
    struct data_writer w = {.text = text};
    w.data = fields <= ORDER_FIELDS_MAX ? mem_try_alloc((fields + OWN_DATA) * sizeof *w.data) : NULL;
    if (!w.data)
        return -ENOMEM;
    for (uint64_t i = 0; i < fields; i++) {
        w.data[w.n].name = cursor_text(&c);
        w.data[w.n++].value = cursor_text(&c);
    }
    add_own(&w, o, action, config, &c);
    if (strbuf_failed(text)) {
        mem_free(w.data);
        return -ENOMEM;
    }
    point_at_texts(&w);
    *out = w.data;
    *n = w.n;
    return 0;
}
