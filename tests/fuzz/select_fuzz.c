/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a subscription that choose events, one a line in the order of struct select_spec, and behind
 * them the bytes of some events. Creating a selector ends, and either says which option is wrong and how, or
 * gives one that
 *   - passes the same of a run as its twin does one by one, also when the run comes in two pieces;
 *   - passes everything if it says so, and nothing of an event name or host that it says it does not want;
 *   - asked for an event again, says the same if it remembers nothing, and else no: it is nothing new. */
#include "base/text.h"
#include "event/select.h"

#include <stdlib.h>

enum { OPTIONS = 7, EVENTS = 64, FIELDS = 6, SCHEMAS = 3, HOSTS = 4 };

#define NOW_NS INT64_C(1794776400000000000)

static struct schema *schemas[SCHEMAS];

#define FIELD(z, t, r)                                                                    \
    {                                                                                     \
        .name = {z, sizeof z - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t, .role = r \
    }
static const struct field fields[FIELDS] = {
    FIELD("k", VALUE_TEXT, ROLE_KEY),   FIELD("v", VALUE_INT, ROLE_VALUE),
    FIELD("v", VALUE_UINT, ROLE_VALUE), FIELD("v", VALUE_FLOAT, ROLE_VALUE),
    FIELD("v", VALUE_BOOL, ROLE_VALUE), FIELD("t", VALUE_TEXT, ROLE_VALUE),
};

static const struct slice hosts[HOSTS] = {{"", 0}, {"a", 1}, {"node17", 6}, {"node17.example.org", 18}};

static void make_schemas(void)
{
    static const struct slice names[SCHEMAS] = {{"cpu", 3}, {"disk.io", 7}, {"cpu", 3}};
    for (size_t i = 0; i < SCHEMAS; i++)
        if (schema_create(names[i], fields + (i == 2), FIELDS - (i == 2), &schemas[i]) < 0)
            abort(); /* the third is another version of the first */
}

/* A number from a byte: small ones, so that they meet, and the odd ones. */
static struct value number(uint8_t b)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0x1p64, -0x1p63, 0.5, -0.0, 9007199254740993.0};
    switch (b & 3) {
    case 0:
        return value_int((int8_t)b >> 2);
    case 1:
        return b > 250 ? value_uint(UINT64_MAX) : value_uint(b >> 2);
    case 2:
        return b >> 2 < 8 ? value_float(odd[b >> 2]) : value_float((b >> 2) - 32);
    default:
        return b & 4 ? value_bool(b >> 3 & 1) : value_none();
    }
}

/* Four bytes an event: schema, host and key; the number; the text; the time. */
static size_t make_events(struct slice bytes, struct event *events, struct value values[][FIELDS])
{
    static const char letters[] = "abcdefgh";
    size_t n = bytes.n / 4 < EVENTS ? bytes.n / 4 : EVENTS;
    int64_t time_ns = NOW_NS;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *b = (const uint8_t *)bytes.p + 4 * i;
        const struct schema *s = schemas[b[0] % SCHEMAS];
        struct value v = number(b[1]);
        memset(values[i], 0, sizeof values[i]);
        int key = schema_find(s, SLICE_LIT("k"), VALUE_TEXT),
            text = schema_find(s, SLICE_LIT("t"), VALUE_TEXT);
        if (key >= 0 && b[0] & 0x40)
            values[i][key] = value_text(slice_of(letters + (b[0] >> 7), 1));
        if (b[2] & 1)
            values[i][text] = value_text(slice_of(letters, b[2] >> 5));
        if (v.type != VALUE_NONE)
            values[i][schema_find(s, SLICE_LIT("v"), v.type)] = v;
        time_ns += (int64_t)(int8_t)b[3] * 100000000;
        events[i] = (struct event){.time_ns = time_ns,
                                   .host = hosts[b[0] >> 2 & 3],
                                   .schema = s,
                                   .values = values[i],
                                   .level = b[2] & 7};
    }
    return n;
}

static struct slice next_line(struct slice *rest)
{
    const char *lf = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    struct slice line = slice_of(rest->p, lf ? (size_t)(lf - rest->p) : rest->n);
    *rest = slice_from(*rest, line.n + 1);
    return line;
}

static void check_error(int r, const struct diag *why)
{
    static const char *const options[OPTIONS] = {
        "event: ", "host: ", "where: ", "on_change: ", "cross: ", "delta: ", "every: "};
    if ((r != E_PROTO && r != E_LIMIT) || !text_is_utf8(slice_str(why->message)))
        abort(); /* the message is sent to whoever asked */
    for (size_t i = 0; i < OPTIONS; i++)
        if (strncmp(why->message, options[i], strlen(options[i])) == 0 && why->message[strlen(options[i])])
            return;
    abort();
}

static struct selector *make(const struct select_spec *spec)
{
    struct selector *s = NULL;
    if (selector_create(spec, NOW_NS, &s, NULL) < 0)
        abort();
    return s;
}

/* What selector_run gives in two pieces, as one list of places. */
static size_t run_in_two(struct selector *s, const struct event *events, size_t n, uint32_t *index)
{
    size_t cut = n / 3, first = selector_run(s, events, cut, index);
    size_t passed = first + selector_run(s, events + cut, n - cut, index + first);
    for (size_t i = first; i < passed; i++)
        index[i] += (uint32_t)cut;
    return passed;
}

static void check_run(const struct select_spec *spec, struct selector *s, const struct event *events,
                      size_t n)
{
    struct selector *twin = make(spec);
    uint32_t index[EVENTS];
    size_t passed = run_in_two(s, events, n, index), at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &events[i];
        bool is_given = selector_test(twin, e), again = selector_test(twin, e);
        if (is_given != (at < passed && index[at] == i))
            abort();
        at += is_given;
        if (is_given && (!selector_wants_event(s, e->schema->name) || !selector_wants_host(s, e->host)))
            abort();
        if (!is_given && selector_is_all(s))
            abort();
        if (again != (is_given && !selector_remembers(s)))
            abort();
    }
    if (at != passed)
        abort();
    selector_destroy(twin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct event events[EVENTS];
    static struct value values[EVENTS][FIELDS];
    struct slice rest = {(const char *)data, size}, lines[OPTIONS];
    struct selector *s = NULL;
    struct diag why = {.message = ""};
    if (!schemas[0])
        make_schemas();
    for (size_t i = 0; i < OPTIONS; i++)
        lines[i] = next_line(&rest);
    const struct select_spec spec = {.events = lines[0],
                                     .hosts = lines[1],
                                     .where = lines[2],
                                     .on_change = lines[3],
                                     .cross = lines[4],
                                     .delta = lines[5],
                                     .every = lines[6]};
    int r = selector_create(&spec, NOW_NS, &s, &why);
    if (r < 0) {
        check_error(r, &why);
        return 0;
    }
    check_run(&spec, s, events, make_events(rest, events, values));
    selector_destroy(s);
    return 0;
}
