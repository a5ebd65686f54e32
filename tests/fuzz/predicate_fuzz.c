/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a predicate. Compiling ends, and either explains itself at a column within the text or gives a
 * program that says the same twice on each of a few fixed events, alone and among the others, and is the
 * logical opposite of its negation at most: x and NOT (x) never both pass. With classes and without. */
#include "base/strbuf.h"
#include "event/predicate.h"
#include "unit/event/classes.h"

#include <stdlib.h>

enum { EVENTS = 4, FIELDS = 11 };

static struct event events[EVENTS];

/* Classes that do not go by what the values are; the others have none. */
static struct test_classes classes = {
    .fields = {{"a", CLASS_TEXT}, {"s", CLASS_NUMBER}, {"n", CLASS_NUMBER}, {"c", CLASS_TEXT}, {"size", CLASS_NUMBER}}};

static const struct field fields[FIELDS] = {
#define FIELD(z, t)                                                            \
    {                                                                          \
        .name = {z, sizeof z - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t \
    }
    FIELD("a", VALUE_INT),     FIELD("b", VALUE_UINT),     FIELD("c", VALUE_FLOAT),
    FIELD("d", VALUE_BOOL),    FIELD("s", VALUE_TEXT),     FIELD("k", VALUE_BYTES),
    FIELD("size", VALUE_UINT), FIELD("job.id", VALUE_INT), FIELD("job.id", VALUE_TEXT),
    FIELD("host", VALUE_TEXT), FIELD("n", VALUE_NUMBER),
#undef FIELD
};

static struct value values[EVENTS][FIELDS] = {
#define TEXT(z)                                       \
    {                                                 \
        .p = z, .n = sizeof z - 1, .type = VALUE_TEXT \
    }
#define BYTES(z)                                       \
    {                                                  \
        .p = z, .n = sizeof z - 1, .type = VALUE_BYTES \
    }
    {{.i = 5, .type = VALUE_INT},
     {.u = UINT64_MAX, .type = VALUE_UINT},
     {.f = 2.5, .type = VALUE_FLOAT},
     {.u = 1, .type = VALUE_BOOL},
     TEXT("a%b_c*"),
     BYTES("\x00\xff"),
     {.u = 4096, .type = VALUE_UINT},
     {.i = 17, .type = VALUE_INT},
     {.type = VALUE_NONE},
     TEXT("other")},
    {{.i = INT64_MIN, .type = VALUE_INT},
     {.u = 0, .type = VALUE_UINT},
     {.f = -1e300, .type = VALUE_FLOAT},
     {.u = 0, .type = VALUE_BOOL},
     TEXT("gr\xc3\xbc\xc3\x9f"),
     BYTES(""),
     {.u = 0, .type = VALUE_UINT},
     {.type = VALUE_NONE},
     TEXT("j-17"),
     TEXT("")},
    {{.i = INT64_MAX, .type = VALUE_INT}, {.u = 1, .type = VALUE_UINT}, {.f = NAN, .type = VALUE_FLOAT}},
    {[4] = TEXT("17"), [10] = {.p = "0.50", .n = 4, .type = VALUE_NUMBER}},
#undef TEXT
#undef BYTES
};

/* What 'now' is, in both. */
#define NOW_NS INT64_C(1794776400000000000)

static void make_events(void)
{
    struct schema *schema;
    if (schema_create(SLICE_LIT("transfer.end"), fields, FIELDS, &schema) < 0)
        abort();
    for (size_t i = 0; i < EVENTS; i++)
        events[i] = (struct event){.time_ns = (int64_t)i * 1000000000000000000,
                                   .host = i ? SLICE_LIT("node17") : SLICE_LIT(""),
                                   .prog = SLICE_LIT("p"),
                                   .schema = schema,
                                   .values = values[i],
                                   .level = (uint8_t)(i * 4)};
}

/* Where x compiles, NOT (x) does; but for the limits, which are then nearly reached. */
static struct predicate *compile_negation(struct slice text)
{
    static struct strbuf negated;
    struct predicate *p = NULL;
    struct diag why;
    strbuf_reset(&negated);
    strbuf_add_str(&negated, "NOT (");
    strbuf_add_slice(&negated, text);
    strbuf_add_str(&negated, ")");
    int r = predicate_compile(strbuf_slice(&negated), NOW_NS, &p, &why);
    if (r == E_PROTO)
        abort();
    return r < 0 ? NULL : p;
}

/* All at once, backwards and each twice: the same as one by one. */
static void check_filter(struct predicate *p)
{
    uint32_t index[2 * EVENTS], expected[2 * EVENTS];
    size_t n = 0;
    for (uint32_t i = 0; i < 2 * EVENTS; i++) {
        index[i] = (2 * EVENTS - 1 - i) / 2;
        expected[n] = index[i];
        n += predicate_test(p, &events[index[i]]);
    }
    if (predicate_filter(p, events, index, 2 * EVENTS) != n ||
        memcmp(index, expected, n * sizeof *index) != 0)
        abort();
}

static void check_events(struct predicate *p, struct predicate *opposite)
{
    check_filter(p);
    for (size_t i = 0; i < EVENTS; i++) {
        bool pass = predicate_test(p, &events[i]);
        if (predicate_test(p, &events[i]) != pass)
            abort();
        if (pass && opposite && predicate_test(opposite, &events[i]))
            abort();
    }
}

static void check_error(struct slice text, int r, const struct diag *why)
{
    bool known = r == E_PROTO || r == E_LIMIT;
    if (!known || why->message[0] == '\0' || why->col < 1 || why->col > text.n + 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    struct predicate *p = NULL;
    struct diag why = {.message = ""};
    if (!events[0].schema)
        make_events();
    int r = predicate_compile(text, NOW_NS, &p, &why);
    if (r < 0) {
        check_error(text, r, &why);
        return 0;
    }
    struct predicate *opposite = compile_negation(text);
    check_events(p, opposite);
    predicate_use_classes(p, test_classes_source(&classes));
    if (opposite)
        predicate_use_classes(opposite, &classes.source);
    check_events(p, opposite);
    if (predicate_notice(p, &classes.source, SLICE_LIT("transfer.end"), &why) && why.message[0] == '\0')
        abort();
    predicate_destroy(opposite);
    predicate_destroy(p);
    return 0;
}
