/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tables.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>

enum { COLUMNS_MAX = EVENT_FIELDS_MAX, DOMAINS_MAX = 256 };

#define COLUMN(n, t)                                                                 \
    {                                                                                \
        .name = {"" n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = (t) \
    }
#define TEXT(n)  COLUMN(n, VALUE_TEXT)
#define UINT(n)  COLUMN(n, VALUE_UINT)
#define INT(n)   COLUMN(n, VALUE_INT)
#define FLOAT(n) COLUMN(n, VALUE_FLOAT)
#define BOOL(n)  COLUMN(n, VALUE_BOOL)

static const struct field workers_columns[] = {
    TEXT("host"),
    UINT("worker"),
    TEXT("state"),
    TEXT("since"),
    TEXT("mode"),
    BOOL("connected"),
    UINT("lease_ms"),
    UINT("renewed_ms"),
    UINT("registrations"),
    TEXT("registered"),
    INT("clock_offset_ns"),
    TEXT("address"),
    TEXT("domain"),
    UINT("clock_bound_ns"),
    UINT("sensors"),
    UINT("programs"),
    UINT("missing"),
    TEXT("samples"),
    UINT("datagrams_sent"),
    UINT("datagrams_received"),
    UINT("datagrams_lost"),
    UINT("datagrams_duplicate"),
    UINT("datagrams_reordered"),
    UINT("datagrams_too_old"),
};
static const struct field sensors_columns[] = {
    TEXT("host"),       TEXT("domain"),   TEXT("sensor"),   TEXT("status"),
    TEXT("host_state"), TEXT("mode"),     UINT("every_ms"), FLOAT("rate"),
    UINT("consumers"),  TEXT("last"),     UINT("age_ms"),   TEXT("started"),
    TEXT("why"),        BOOL("expected"), TEXT("events"),   TEXT("schemas"),
};
static const struct field schemas_columns[] = {
    TEXT("event"),  TEXT("hash"),  UINT("fields"), UINT("makers"),
    UINT("events"), TEXT("first"), TEXT("last"),   TEXT("conflict"),
};
static const struct field schema_fields_columns[] = {
    TEXT("event"), TEXT("hash"), TEXT("field"), TEXT("type"),     TEXT("role"),
    TEXT("kind"),  TEXT("unit"), TEXT("help"),  BOOL("conflict"), TEXT("class"),
    TEXT("by"),    UINT("numbers"), UINT("texts"), UINT("quoted"),
};
static const struct field ledger_columns[] = {
    TEXT("host"),
    TEXT("producer"),
    UINT("epoch"),
    TEXT("class"),
    TEXT("state"),
    UINT("taken"),
    UINT("passed"),
    UINT("duplicate"),
    UINT("refused"),
    UINT("too_old"),
    UINT("too_new"),
    UINT("no_schema"),
    UINT("queued"),
    UINT("retried"),
    UINT("lost"),
    UINT("highest_seq"),
    UINT("sender_taken"),
    UINT("sender_passed"),
    UINT("sender_queued"),
    UINT("sender_filtered"),
    UINT("sender_dropped"),
    UINT("sender_ring_full"),
    UINT("sender_nested"),
    UINT("sender_too_large"),
    UINT("sender_unwritable"),
    UINT("sender_memory"),
    UINT("sender_refused"),
    UINT("sender_forced"),
    UINT("sender_too_new"),
    UINT("sender_streams"),
    TEXT("tail"),
    UINT("at_least"),
    UINT("gone_records"),
    UINT("refilled"),
    UINT("gap_records"),
};
static const struct field subscriptions_columns[] = {
    TEXT("consumer"),    TEXT("who"),          UINT("id"),           TEXT("event"),  TEXT("host"),
    TEXT("where"),       TEXT("durable"),      TEXT("state"),        UINT("given"),  UINT("filtered"),
    UINT("lost"),        UINT("queued_bytes"), TEXT("position"),     TEXT("holder"), TEXT("last_seen"),
    UINT("lag_records"), UINT("lag_bytes"),    FLOAT("lag_seconds"), UINT("hold"),   UINT("gone_records"),
    UINT("refilled"),    UINT("gap_events"),   UINT("gap_records"),
};
static const struct field domains_columns[] = {
    TEXT("domain"), UINT("hosts"), UINT("live"), UINT("missing"), UINT("sensors"), UINT("programs"),
};

static const struct field faults_columns[] = {
    TEXT("fault"),    TEXT("rule"),     TEXT("severity"), TEXT("state"),   TEXT("host"),
    TEXT("since"),    TEXT("fired"),    TEXT("cleared"),  UINT("episode"), TEXT("summary"),
    BOOL("told"),     BOOL("silenced"), BOOL("hidden"),   BOOL("quiet"),   TEXT("acked_by"),
    TEXT("ack_note"), TEXT("acked"),    TEXT("guard"),    TEXT("told_at"),
};
static const struct field rules_columns[] = {
    TEXT("rule"),     TEXT("severity"),    BOOL("enabled"),  BOOL("is_default"), TEXT("place"),
    UINT("every_ms"), UINT("evaluations"), UINT("failures"), UINT("last_ms"),    TEXT("why"),
    UINT("pending"),  UINT("firing"),      UINT("clearing"), UINT("left_out"),   TEXT("query"),
    TEXT("help"),     TEXT("evaluated"),   TEXT("text"),     TEXT("guard"),      TEXT("told_at"),
};

struct table_spec {
    const char *name, *verb, *summary;
    const struct field *columns;
    size_t n_columns;
    bool has_fields; /* the value fields=1 goes with the question */
    bool is_domains, is_latest;
    const char *state; /* the same, state= that; NULL = no such value */
};
#define COLUMNS(c) c, sizeof(c) / sizeof *(c)
static const struct table_spec specs[] = {
    {"workers", "hosts", "hosts whose agents hold or held a lease", COLUMNS(workers_columns),
     .has_fields = false},
    {"sensors", "sensors", "sensors of every host", COLUMNS(sensors_columns), .has_fields = false},
    {"subscriptions", "subscriptions", "who has asked for what", COLUMNS(subscriptions_columns),
     .has_fields = false},
    {"ledger", "ledger", "what was taken, passed, dropped", COLUMNS(ledger_columns), .has_fields = false},
    {"schemas", "schemas", "versions of schemas", COLUMNS(schemas_columns), .has_fields = false},
    {"schema_fields", "schemas", "fields of each version of a schema", COLUMNS(schema_fields_columns),
     .has_fields = true},
    {"domains", "hosts", "hosts by domain", COLUMNS(domains_columns), .is_domains = true},
    {"faults", "faults", "faults that guards have told of", COLUMNS(faults_columns), .state = "all"},
    {"rules", "rules", "rules of guards", COLUMNS(rules_columns), .has_fields = false},
    {"*_latest", "latest", "the newest event of every stream", NULL, 0, .is_latest = true},
};
enum { TABLES = sizeof specs / sizeof *specs };

struct source {
    struct tables *all;
    const struct table_spec *spec;
};

struct tables {
    struct control *control;
    struct source sources[TABLES];
    struct table_ops ops[TABLES];
};

struct domain {
    char *name;
    uint64_t hosts, live, missing, sensors, programs;
};

/* A table that is being filled. */
struct filling {
    struct control_asker asker; /* first: the callbacks get it */
    struct control *control;
    const struct table_spec *spec;
    struct table_rows *out;
    struct registry *registry;
    struct batch_builder *builder;
    struct args_writer question;
    struct value after; /* of the next page; its text is in after_text */
    struct strbuf after_text;
    struct strbuf event;        /* latest: the name that is meant, or looks like it */
    const struct schema *found; /* of the first event that is meant */
    bool is_clash;              /* events of several names are */
    uint16_t status;
    int failed;
    struct field columns[COLUMNS_MAX]; /* those so far; of schemas that rows have */
    size_t n_columns;
    const struct schema *last; /* whose columns were added last */
    struct domain *domains;
    size_t n_domains;
};

/* ---------------------------------------------------------------- rows */

static void add_columns(struct filling *f, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < f->n_columns &&
               (f->columns[at].type != fields[i].type || !slice_eq(f->columns[at].name, fields[i].name)))
            at++;
        if (at == f->n_columns && at < COLUMNS_MAX)
            f->columns[f->n_columns++] = fields[i];
    }
}

/* What the builder has goes to the table. */
static void flush(struct filling *f)
{
    if (batch_builder_count(f->builder) == 0)
        return;
    struct batch *b = batch_builder_finish(f->builder, NULL);
    int r = b ? table_rows_add(f->out, b) : -ENOMEM;
    f->failed = r < 0 ? r : f->failed;
    for (size_t i = 0; r == 0 && i < b->n; i++) {
        if (b->events[i].schema != f->last)
            add_columns(f, b->events[i].schema->fields, b->events[i].schema->n_fields);
        f->last = b->events[i].schema;
    }
}

static void check_added(struct filling *f, int r)
{
    f->failed = r < 0 ? r : f->failed;
    if (batch_builder_full(f->builder))
        flush(f);
}

static void add_row(struct filling *f, struct args row)
{
    struct named_value values[ARGS_MAX];
    struct arg a;
    size_t n = 0;
    const struct event_head head = {.time_ns = clock_utc_ns(), .name = slice_str(f->spec->name)};
    while (n < ARGS_MAX && args_next(&row, &a))
        values[n++] = (struct named_value){a.name, a.value};
    check_added(f, batch_builder_add(f->builder, &head, values, n, NULL));
}

static struct domain *find_domain(struct filling *f, struct slice name)
{
    for (size_t i = 0; i < f->n_domains; i++)
        if (slice_eq_str(name, f->domains[i].name))
            return &f->domains[i];
    if (f->n_domains == DOMAINS_MAX)
        return NULL;
    if (!f->domains)
        f->domains = mem_try_alloc(DOMAINS_MAX * sizeof *f->domains);
    char *copy = f->domains ? mem_try_alloc(name.n + 1) : NULL;
    if (!copy)
        return NULL;
    if (name.n)
        memcpy(copy, name.p, name.n);
    f->domains[f->n_domains] = (struct domain){.name = copy};
    return &f->domains[f->n_domains++];
}

static void count_host(struct filling *f, struct args row)
{
    struct domain *d = find_domain(f, args_text(row, "domain"));
    if (!d) {
        f->failed = f->n_domains == DOMAINS_MAX ? E_LIMIT : -ENOMEM;
        return;
    }
    d->hosts++;
    d->live += slice_eq_str(args_text(row, "state"), "live");
    d->missing += slice_eq_str(args_text(row, "state"), "missing");
    d->sensors += args_uint(row, "sensors", 0);
    d->programs += args_uint(row, "programs", 0);
}

static void add_domains(struct filling *f)
{
    struct args_writer row = {0};
    for (size_t i = 0; i < f->n_domains && f->failed == 0; i++) {
        const struct domain *d = &f->domains[i];
        args_writer_reset(&row);
        args_add_text(&row, "domain", slice_str(d->name));
        args_add_uint(&row, "hosts", d->hosts);
        args_add_uint(&row, "live", d->live);
        args_add_uint(&row, "missing", d->missing);
        args_add_uint(&row, "sensors", d->sensors);
        args_add_uint(&row, "programs", d->programs);
        if (strbuf_failed(&row.list))
            f->failed = -ENOMEM;
        else
            add_row(f, args_of(&row));
    }
    args_writer_fini(&row);
}

/* ---------------------------------------------------------------- NAME_latest */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* As names of events become names of tables: [a-z0-9_] in lower case, everything else _. */
static char folded(char c)
{
    c = slice_lower(c);
    return (c >= 'a' && c <= 'z') || is_digit(c) ? c : '_';
}

/* Is that event's table called so: by the exact name, or by what it has become, with a _ before a digit? */
static bool is_called(struct slice event, struct slice table)
{
    if (slice_eq(event, table))
        return true;
    if (event.n && is_digit(event.p[0])) {
        if (table.n == 0 || table.p[0] != '_')
            return false;
        table = slice_from(table, 1);
    }
    if (event.n != table.n)
        return false;
    for (size_t i = 0; i < event.n; i++)
        if (folded(event.p[i]) != slice_lower(table.p[i]))
            return false;
    return true;
}

static void add_event(struct filling *f, const struct event *e)
{
    struct slice name = e->schema->name;
    if (!is_called(name, strbuf_slice(&f->event)))
        return;
    if (!f->found)
        f->found = schema_ref(e->schema);
    f->is_clash = f->is_clash || !slice_eq(f->found->name, name);
    if (f->is_clash)
        return;
    const struct event_head head = {
        .time_ns = e->time_ns, .host = e->host, .prog = e->prog, .level = e->level};
    check_added(f, batch_builder_add_known(f->builder, &head, e->schema, e->values, NULL));
}

static void add_pattern(struct strbuf *out, struct slice table)
{
    for (size_t i = 0; i < table.n; i++) {
        char c = slice_lower(table.p[i]);
        if (c == '_')
            strbuf_add_char(out, '?');
        else if (c >= 'a' && c <= 'z')
            strbuf_printf(out, "[%c%c]", c, c - 'a' + 'A');
        else
            strbuf_add_char(out, c);
    }
}

/* Patterns of event names that could be called so; false: none could. */
static bool put_pattern(struct filling *f, struct slice table)
{
    struct strbuf pattern = {0};
    struct slice name = slice_of(table.p, table.n - strlen("_latest"));
    strbuf_add_slice(&f->event, name);
    if (!text_is_name(name))
        return false;
    add_pattern(&pattern, name);
    if (name.n > 1 && name.p[0] == '_' && is_digit(name.p[1])) {
        strbuf_add_char(&pattern, ',');
        add_pattern(&pattern, slice_from(name, 1));
    }
    args_add_text(&f->question, "event", strbuf_slice(&pattern));
    f->failed = strbuf_failed(&pattern) || strbuf_failed(&f->event) ? -ENOMEM : 0;
    strbuf_fini(&pattern);
    return true;
}

/* ---------------------------------------------------------------- asking */

static void keep_after(struct filling *f, struct value after)
{
    strbuf_reset(&f->after_text);
    f->after = after;
    if (!value_is_text(after.type))
        return;
    strbuf_add_slice(&f->after_text, value_slice(after));
    f->after.p = strbuf_slice(&f->after_text).p;
    f->failed = strbuf_failed(&f->after_text) ? -ENOMEM : f->failed;
}

static void on_answer(struct control_asker *asker, const struct frame_answer *answer)
{
    struct filling *f = (struct filling *)(void *)asker;
    if (answer->status != CONTROL_MORE) {
        f->status = answer->status;
        keep_after(f, args_value(answer->args, "after"));
    } else if (f->failed == 0) {
        (f->spec->is_domains ? count_host : add_row)(f, answer->args);
    }
}

static void on_events(struct control_asker *asker, uint64_t request, const struct event *events, size_t n)
{
    struct filling *f = (struct filling *)(void *)asker;
    (void)request; /* one at a time */
    for (size_t i = 0; i < n && f->failed == 0; i++)
        add_event(f, &events[i]);
}

static void end_filling(void *arg)
{
    struct filling *f = arg;
    control_forget(f->control, &f->asker);
    for (size_t i = 0; i < f->n_domains; i++)
        mem_free(f->domains[i].name);
    mem_free(f->domains);
    schema_unref(f->found);
    args_writer_fini(&f->question);
    strbuf_fini(&f->after_text);
    strbuf_fini(&f->event);
    batch_builder_destroy(f->builder);
    registry_destroy(f->registry);
    mem_free(f);
}

static int begin(const struct source *s, const struct access_identity *who, const char *name,
                 struct table_rows *out)
{
    struct filling *f = mem_try_alloc(sizeof *f);
    if (!f)
        return -ENOMEM;
    out->filling = f;
    out->end_filling = end_filling;
    out->has_heads = s->spec->is_latest;
    f->control = s->all->control;
    f->spec = s->spec;
    f->asker = (struct control_asker){.answer = on_answer, .events = on_events, .who = who};
    f->registry = registry_create();
    f->builder = f->registry ? batch_builder_create(f->registry, 0) : NULL;
    if (!f->builder)
        return -ENOMEM;
    add_columns(f, s->spec->columns, s->spec->n_columns);
    if (s->spec->has_fields)
        args_add_uint(&f->question, "fields", 1);
    if (s->spec->state)
        args_add_text(&f->question, "state", slice_str(s->spec->state));
    if (s->spec->is_latest && !put_pattern(f, slice_str(name)))
        return -ENOENT;
    return f->failed;
}

static int error_of(const struct filling *f)
{
    if (f->failed < 0)
        return f->failed;
    if (f->status == CONTROL_DONE || f->status == CONTROL_NOT_FOUND)
        return 0;
    if (f->status == CONTROL_NOT_ALLOWED)
        return -EACCES;
    return f->spec->is_latest ? -ENOENT : -EAGAIN; /* none are kept; or: not now */
}

static int ask_page(struct filling *f)
{
    struct args_writer page = {0};
    struct args rest = args_of(&f->question);
    struct arg a;
    while (args_next(&rest, &a))
        args_add(&page, a.name, a.value);
    args_add(&page, SLICE_LIT("after"), f->after);
    f->status = CONTROL_FAILED;
    f->failed = strbuf_failed(&page.list) ? -ENOMEM : 0;
    if (f->failed == 0)
        control_ask(
            f->control, &f->asker,
            &(struct frame_control){.request = 1, .verb = slice_str(f->spec->verb), .args = args_of(&page)});
    args_writer_fini(&page);
    return error_of(f);
}

/* All rows are there. */
static int finish(struct filling *f)
{
    if (f->spec->is_domains)
        add_domains(f);
    flush(f);
    if (f->failed < 0)
        return f->failed;
    if (f->spec->is_latest && (!f->found || f->is_clash))
        return -ENOENT; /* whoever runs SQL knows tables of events itself */
    struct schema *schema;
    int r = schema_create(f->spec->is_latest ? f->found->name : slice_str(f->spec->name), f->columns,
                          f->n_columns, &schema);
    if (r < 0)
        return r;
    f->out->schema = schema;
    f->out->filling = NULL;
    end_filling(f);
    return 0;
}

static int fill(void *arg, const void *who, const char *name, struct table_rows *out)
{
    int r = out->filling ? 0 : begin(arg, who, name, out);
    struct filling *f = out->filling;
    if (r < 0)
        return r;
    f->out = out;
    r = ask_page(f);
    if (r < 0)
        return r;
    return f->after.type != VALUE_NONE ? 1 : finish(f);
}

/* ---------------------------------------------------------------- */

struct tables *tables_create(struct control *c)
{
    struct tables *t = mem_try_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->control = c;
    for (size_t i = 0; i < TABLES; i++) {
        t->sources[i] = (struct source){t, &specs[i]};
        t->ops[i] = (struct table_ops){specs[i].name, specs[i].summary, fill, &t->sources[i]};
    }
    return t;
}

void tables_destroy(struct tables *t)
{
    mem_free(t);
}

const struct table_ops *tables_ops(const struct tables *t, size_t *n)
{
    *n = TABLES;
    return t->ops;
}
