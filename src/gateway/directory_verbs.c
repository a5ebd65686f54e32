/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: rows come until CONTROL_PAGE bytes of them are out, or LOOKED entries were looked at (fewer where
 * there are many different subscriptions to compare them with). `after` is the id of the last one that was
 * looked at, of schemas with the place of a field in it: all fields of one can be more than a page.
 *
 * What the asker may not see is not there: an entry shows those of its events that the view shows, and its
 * last event, rate and consumers are those of these; one that has none left is no row. A schema shows the
 * fields that the view shows of some host that makes it, and is no row if it shows none of these hosts; how
 * many events there were, and when, is not told where some of them are hidden. Predicates see the rows. */
#include "gateway/directory_verbs.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/row_filter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { LOOKED = 4096, PATTERNS_A_LOOK = 64, HASH_TEXT = 17 };
/* `after` of schemas: id << FIELD_BITS | fields of it that were given, FIELD_ALL = it is done. */
enum { FIELD_BITS = 9, FIELD_ALL = (1 << FIELD_BITS) - 1 };
_Static_assert((int)EVENT_FIELDS_MAX < (int)FIELD_ALL, "a field's place fits");

struct directory_verbs {
    const struct directory *directory;
    struct subscriptions *subscriptions;
};

/* A question being answered. */
struct answer {
    const struct directory_verbs *verbs;
    struct control_turn *turn;
    struct access_view *view; /* NULL = everything is seen */
    struct row_filter filter;
    struct args_writer row;
    uint64_t rows, after;
    size_t looked;
    bool has_more, is_over;
    int64_t utc_ns, mono_ns;
};

/* false: the question is answered, with why not. */
static bool answer_begin(struct answer *a, void *verbs, struct control_turn *t, const char *name)
{
    struct diag why = {0};
    struct args args = control_args(t);
    *a = (struct answer){.verbs = verbs,
                         .turn = t,
                         .after = args_uint(args, "after", 0),
                         .utc_ns = clock_utc_ns(),
                         .mono_ns = clock_mono_ns()};
    int r = access_view_create(control_who(t), ACCESS_LOOKUP, &a->view);
    if (r == 0)
        r = row_filter_init(&a->filter, name, args_text(args, "where"), a->utc_ns, &why);
    if (r == -EACCES)
        control_end(t, CONTROL_NOT_ALLOWED, (struct args){0}, "%s", "you may not look at the directory here");
    else if (r == E_PROTO || r == E_LIMIT)
        control_end(t, CONTROL_USAGE, (struct args){0}, "%s", why.message);
    else if (r < 0)
        control_end(t, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
    return r == 0;
}

static void answer_fini(struct answer *a)
{
    args_writer_fini(&a->row);
    row_filter_fini(&a->filter);
    access_view_destroy(a->view);
}

static void answer_end(struct answer *a)
{
    if (a->filter.failed) {
        control_end(a->turn, CONTROL_FAILED, (struct args){0}, "the gateway is out of memory");
        return;
    }
    args_writer_reset(&a->row);
    args_add_uint(&a->row, "rows", a->rows);
    if (a->has_more)
        args_add_uint(&a->row, "after", a->after);
    control_end(a->turn, CONTROL_DONE, args_of(&a->row), "%s", "");
}

/* Hands the row out if it passes. */
static void give(struct answer *a)
{
    if (strbuf_failed(&a->row.list)) {
        a->filter.failed = -ENOMEM;
        a->is_over = true;
    } else if (row_filter_passes(&a->filter, args_of(&a->row))) {
        a->rows++;
        a->is_over = !control_row(a->turn, args_of(&a->row));
    }
}

/* cost: how many of LOOKED the last one was worth. */
static void turn_page(struct answer *a, size_t cost)
{
    a->looked += cost;
    if (control_given(a->turn) > CONTROL_PAGE || a->looked > LOOKED)
        a->has_more = a->is_over = true;
}

static void add_time(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    if (at_ns)
        args_add_text(row, name, slice_of(text, clock_print_iso(text, at_ns)));
}

static void add_some(struct args_writer *row, const char *name, struct slice text)
{
    if (text.n)
        args_add_text(row, name, text);
}

static struct slice take_first(struct slice *list)
{
    const char *comma = memchr(list->p, ',', list->n);
    struct slice one = comma ? slice_of(list->p, (size_t)(comma - list->p)) : *list;
    *list = slice_from(*list, one.n + (comma != NULL));
    return one;
}

/* ---------------------------------------------------------------- consumers */

/* Subscriptions that ask for the same. */
struct asked {
    uint64_t n;
    struct slice events, hosts; /* behind it: the map's key is "EVENTS\nHOSTS" */
    size_t key_n;
    char key[];
};

struct consumers_known {
    struct map asked;
    bool has_failed;
};

static void note_subscription(void *arg, const struct subscription_info *i)
{
    struct consumers_known *k = arg;
    struct strbuf key = {0};
    strbuf_printf(&key, "%.*s\n%.*s", SLICE_ARG(i->events), SLICE_ARG(i->hosts));
    struct asked *a = strbuf_failed(&key) ? NULL : map_get(&k->asked, strbuf_slice(&key));
    if (!a && !strbuf_failed(&key) && (a = mem_try_alloc(sizeof *a + key.n))) {
        a->key_n = key.n;
        memcpy(a->key, key.p, key.n);
        a->events = slice_of(a->key, i->events.n);
        a->hosts = slice_of(a->key + i->events.n + 1, i->hosts.n);
        if (map_put(&k->asked, slice_of(a->key, a->key_n), a) < 0) {
            mem_free(a);
            a = NULL;
        }
    }
    strbuf_fini(&key);
    k->has_failed = k->has_failed || !a;
    if (a)
        a->n++;
}

static void consumers_fini(struct consumers_known *k)
{
    void *asked;
    for (size_t i = 0; map_next(&k->asked, &i, &asked);)
        mem_free(asked);
    map_fini(&k->asked);
}

static bool asks_for_one(const struct asked *a, struct slice events)
{
    while (events.n)
        if (text_glob_any(a->events, take_first(&events)))
            return true;
    return false;
}

static uint64_t count_consumers(const struct consumers_known *k, struct slice host, struct slice events)
{
    uint64_t n = 0;
    void *asked;
    for (size_t i = 0; map_next(&k->asked, &i, &asked);) {
        const struct asked *a = asked;
        if (text_glob_any(a->hosts, host) && asks_for_one(a, events))
            n += a->n;
    }
    return n;
}

/* ---------------------------------------------------------------- sensors */

struct sensors_answer {
    struct answer answer;
    struct slice hosts, events, sensors; /* patterns */
    struct consumers_known consumers;
    struct strbuf shown, hashes; /* events of the entry that the asker sees, and their hashes */
    struct directory_activity activity;
};

/* The name by which an entry without known events is judged: its own, without the type. */
static struct slice stand_in(const struct directory_entry *e)
{
    const char *slash = memchr(e->sensor.p, '/', e->sensor.n);
    return slash ? slice_from(e->sensor, (size_t)(slash + 1 - e->sensor.p)) : e->sensor;
}

static void add_activity(struct directory_activity *sum, const struct directory_activity *one)
{
    sum->events += one->events;
    sum->rate += one->rate;
    sum->last_ns = one->last_ns > sum->last_ns ? one->last_ns : sum->last_ns;
}

/* What the asker sees of e; false: nothing, or not what was asked for. */
static bool see(struct sensors_answer *s, const struct directory_entry *e)
{
    struct slice events = e->events, hashes = e->schemas;
    bool is_asked = s->events.n == 0;
    strbuf_reset(&s->shown);
    strbuf_reset(&s->hashes);
    s->activity = (struct directory_activity){0};
    if (events.n == 0 && !access_view_shows(s->answer.view, e->host, stand_in(e)))
        return false;
    while (events.n) {
        struct directory_activity one;
        struct slice event = take_first(&events), hash = take_first(&hashes);
        if (!access_view_shows(s->answer.view, e->host, event))
            continue;
        is_asked = is_asked || text_glob_any(s->events, event);
        strbuf_printf(&s->hashes, "%s%.*s", s->shown.n ? "," : "", SLICE_ARG(hash));
        strbuf_printf(&s->shown, "%s%.*s", s->shown.n ? "," : "", SLICE_ARG(event));
        directory_activity(s->answer.verbs->directory, e, event, s->answer.mono_ns, &one);
        add_activity(&s->activity, &one);
    }
    return is_asked && (s->shown.n || e->events.n == 0);
}

static void add_sensor(struct sensors_answer *s, const struct directory_entry *e)
{
    struct args_writer *row = &s->answer.row;
    int64_t age_ns = s->answer.utc_ns - s->activity.last_ns;
    struct slice events = strbuf_slice(&s->shown);
    args_writer_reset(row);
    args_add_text(row, "host", e->host);
    args_add_text(row, "domain", e->domain);
    args_add_text(row, "sensor", e->sensor);
    args_add_text(row, "status", slice_str(directory_status_name(e->status)));
    args_add_text(row, "host_state", slice_str(directory_state_name(e->host_state)));
    add_some(row, "mode", e->mode);
    if (e->every_ms)
        args_add_uint(row, "every_ms", e->every_ms);
    if (events.n)
        args_add(row, SLICE_LIT("rate"), value_float(s->activity.rate));
    if (!s->consumers.has_failed)
        args_add_uint(row, "consumers", count_consumers(&s->consumers, e->host, events));
    add_time(row, "last", s->activity.last_ns);
    if (s->activity.last_ns)
        args_add_uint(row, "age_ms", age_ns > 0 ? (uint64_t)age_ns / 1000000 : 0);
    add_time(row, "started", e->started_ns);
    add_some(row, "why", e->why);
    args_add(row, SLICE_LIT("expected"), value_bool(e->is_expected));
    add_some(row, "events", events);
    if (events.n)
        args_add_text(row, "schemas", strbuf_slice(&s->hashes));
}

static void look_at_sensor(struct sensors_answer *s, const struct directory_entry *e)
{
    struct answer *a = &s->answer;
    a->after = e->id;
    bool is_meant = text_glob_any(s->hosts, e->host) && text_glob_any(s->sensors, e->sensor);
    if (is_meant && see(s, e)) {
        add_sensor(s, e);
        a->row.list.failed = a->row.list.failed || strbuf_failed(&s->shown) || strbuf_failed(&s->hashes);
        give(a);
    }
    turn_page(a, is_meant ? 1 + s->consumers.asked.n / PATTERNS_A_LOOK : 1);
}

static void run_sensors(void *arg, struct control_turn *t)
{
    struct sensors_answer s = {0};
    struct args args = control_args(t);
    struct directory_entry e;
    if (answer_begin(&s.answer, arg, t, "sensor")) {
        const struct directory_verbs *v = arg;
        s.hosts = args_text(args, "host");
        s.events = args_text(args, "event");
        s.sensors = args_text(args, "sensor");
        if (v->subscriptions)
            subscriptions_each(v->subscriptions, note_subscription, &s.consumers);
        uint64_t id = s.answer.after;
        while (!s.answer.is_over && directory_next(v->directory, &id, &e))
            look_at_sensor(&s, &e);
        answer_end(&s.answer);
    }
    consumers_fini(&s.consumers);
    strbuf_fini(&s.shown);
    strbuf_fini(&s.hashes);
    answer_fini(&s.answer);
}

/* ---------------------------------------------------------------- schemas */

struct schemas_answer {
    struct answer answer;
    struct slice events; /* patterns */
    bool wants_fields;
    /* Of the version looked at: */
    const struct directory_schema *schema;
    uint64_t makers; /* that the asker sees */
    size_t compared;
    bool shows[EVENT_FIELDS_MAX];
};

static bool see_maker(void *arg, struct slice host)
{
    struct schemas_answer *s = arg;
    const struct schema *schema = s->schema->schema;
    s->compared++;
    if (!access_view_shows(s->answer.view, host, s->schema->event))
        return true;
    s->makers++;
    for (uint32_t i = 0; schema && i < schema->n_fields; i++)
        s->shows[i] = s->shows[i] ||
                      access_view_shows_field(s->answer.view, host, s->schema->event, schema->fields[i].name);
    return true;
}

/* false: the asker sees none who makes it. */
static bool see_schema(struct schemas_answer *s, const struct directory_schema *schema)
{
    s->schema = schema;
    s->makers = schema->makers;
    s->compared = 0;
    memset(s->shows, true, sizeof s->shows);
    if (!s->answer.view)
        return true;
    s->makers = 0;
    memset(s->shows, false, sizeof s->shows);
    directory_schema_makers(s->answer.verbs->directory, schema->id, see_maker, s);
    return s->makers > 0;
}

static bool is_in(struct slice list, struct slice name)
{
    while (list.n)
        if (slice_eq(take_first(&list), name))
            return true;
    return false;
}

/* Those fields in conflict that are in this version, and shown. */
static void add_conflict(struct schemas_answer *s)
{
    struct strbuf text = {0};
    const struct schema *schema = s->schema->schema;
    for (uint32_t i = 0; schema && i < schema->n_fields; i++) {
        struct slice name = schema->fields[i].name;
        if (s->shows[i] && is_in(s->schema->conflict, name) && !is_in(strbuf_slice(&text), name))
            strbuf_printf(&text, "%s%.*s", text.n ? "," : "", SLICE_ARG(name));
    }
    add_some(&s->answer.row, "conflict", strbuf_slice(&text));
    s->answer.row.list.failed = s->answer.row.list.failed || strbuf_failed(&text);
    strbuf_fini(&text);
}

static void add_version(struct schemas_answer *s, const char *hash)
{
    struct args_writer *row = &s->answer.row;
    const struct schema *schema = s->schema->schema;
    uint64_t n = 0;
    for (uint32_t i = 0; schema && i < schema->n_fields; i++)
        n += s->shows[i];
    args_writer_reset(row);
    args_add_text(row, "event", s->schema->event);
    args_add_text(row, "hash", slice_str(hash));
    if (schema)
        args_add_uint(row, "fields", n);
    args_add_uint(row, "makers", s->makers);
    if (s->makers == s->schema->makers) {
        args_add_uint(row, "events", s->schema->events);
        add_time(row, "first", s->schema->first_ns);
        add_time(row, "last", s->schema->last_ns);
    }
    add_conflict(s);
}

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {"unknown", "counter", "gauge", "state", "text"};
    return kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

/* The class, who says so, and the values of each kind that were seen; without an archive as the field begins. */
static void add_class(struct args_writer *row, const struct class_source *classes, struct slice event, const struct field *f)
{
    struct class_state state;
    bool is_kept = classes && classes->get(classes->arg, event, f->name, &state);
    if (!is_kept)
        state = class_begin(f);
    args_add_text(row, "class", slice_str(class_name(state.class)));
    args_add_text(row, "by", slice_str(class_by_text(state.by)));
    if (!is_kept)
        return;
    args_add_uint(row, "numbers", state.numbers);
    args_add_uint(row, "texts", state.texts);
    args_add_uint(row, "quoted", state.quoted);
}

static void add_field(struct schemas_answer *s, const char *hash, const struct field *f)
{
    struct args_writer *row = &s->answer.row;
    args_writer_reset(row);
    args_add_text(row, "event", s->schema->event);
    args_add_text(row, "hash", slice_str(hash));
    args_add_text(row, "field", f->name);
    args_add_text(row, "type", slice_str(value_type_name(f->type)));
    args_add_text(row, "role", slice_str(f->role == ROLE_KEY ? "key" : "value"));
    args_add_text(row, "kind", slice_str(kind_name(f->kind)));
    add_some(row, "unit", f->unit);
    add_some(row, "help", f->help);
    args_add(row, SLICE_LIT("conflict"), value_bool(is_in(s->schema->conflict, f->name)));
    add_class(row, control_classes(s->answer.turn), s->schema->event, f);
}

/* From that one on, until the page is full. */
static void give_fields(struct schemas_answer *s, const char *hash, uint64_t from)
{
    struct answer *a = &s->answer;
    const struct schema *schema = s->schema->schema;
    for (uint64_t i = from; schema && i < schema->n_fields && !a->is_over; i++) {
        if (s->shows[i]) {
            add_field(s, hash, &schema->fields[i]);
            give(a);
        }
        a->after = s->schema->id << FIELD_BITS | (i + 1 < schema->n_fields ? i + 1 : FIELD_ALL);
        turn_page(a, 0);
    }
}

/* from: the fields that the page before had. */
static void look_at_schema(struct schemas_answer *s, const struct directory_schema *schema, uint64_t from)
{
    char hash[HASH_TEXT];
    struct answer *a = &s->answer;
    a->after = schema->id << FIELD_BITS | FIELD_ALL;
    if (text_glob_any(s->events, schema->event) && see_schema(s, schema)) {
        (void)snprintf(hash, sizeof hash, "%016" PRIx64, schema->hash); /* fits */
        if (s->wants_fields) {
            give_fields(s, hash, from);
        } else {
            add_version(s, hash);
            give(a);
        }
    }
    turn_page(a, 1 + s->compared / PATTERNS_A_LOOK);
}

static void run_schemas(void *arg, struct control_turn *t)
{
    struct schemas_answer s = {0};
    struct directory_schema schema;
    struct args args = control_args(t);
    const struct directory_verbs *v = arg;
    if (answer_begin(&s.answer, arg, t, "schema")) {
        s.events = args_text(args, "event");
        s.wants_fields = args_uint(args, "fields", 0) || slice_eq_str(args_text(args, "fields"), "1");
        uint64_t after = s.answer.after, first = after >> FIELD_BITS, from = after & FIELD_ALL;
        uint64_t id = from == FIELD_ALL || first == 0 ? first : first - 1;
        while (!s.answer.is_over && directory_next_schema(v->directory, &id, &schema))
            look_at_schema(&s, &schema, id == first && from != FIELD_ALL ? from : 0);
        answer_end(&s.answer);
    }
    answer_fini(&s.answer);
}

/* ---------------------------------------------------------------- */

static const struct control_verb verbs[] = {{"sensors", ACCESS_LOOKUP, run_sensors},
                                            {"schemas", ACCESS_LOOKUP, run_schemas}};

int directory_verbs_create(struct control *c, const struct directory *d, struct subscriptions *subscriptions,
                           struct directory_verbs **out)
{
    struct directory_verbs *v = mem_try_alloc(sizeof *v);
    if (!v)
        return -ENOMEM;
    v->directory = d;
    v->subscriptions = subscriptions;
    int r = control_add(c, verbs, sizeof verbs / sizeof *verbs, v);
    if (r < 0) {
        directory_verbs_destroy(v);
        return r;
    }
    *out = v;
    return 0;
}

void directory_verbs_destroy(struct directory_verbs *v)
{
    mem_free(v);
}
