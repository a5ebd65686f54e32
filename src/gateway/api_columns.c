/* SPDX-License-Identifier: Apache-2.0 */
/* Values are compared as they are printed. A column begins with numbers of different values; when there are
 * more than COLUMNS_FEW of those it becomes the values themselves, one behind the other. Rows have their
 * names in the same order, mostly: so each is looked for behind the one before, and a value first where the
 * last row had its own. */
#include "gateway/api_columns.h"

#include "base/mem.h"
#include "base/text.h"
#include "event/json.h"
#include "gateway/api_rows.h"

#include <errno.h>
#include <inttypes.h>

struct column {
    struct strbuf name;
    bool is_wanted, is_plain;
    uint32_t rows;              /* that have a value or a null */
    struct strbuf of;           /* the different values, one behind the other, */
    uint32_t ends[COLUMNS_FEW]; /* each up to here; */
    uint32_t n_of, last;        /* which one the last row had */
    struct strbuf at;           /* u8 of each row; is_plain: the values, by commas */
    size_t before;              /* how long it was without the last row's */
};

struct columns {
    struct column *all[COLUMNS_MAX];
    size_t n, next; /* where the next name is expected */
    struct strbuf wanted, value;
    uint32_t rows;
    size_t bytes;
    bool has_begun; /* a block was put */
};

struct columns *columns_create(struct slice wanted)
{
    struct columns *c = mem_try_alloc(sizeof *c);
    if (!c)
        return NULL;
    strbuf_add_slice(&c->wanted, wanted);
    if (!strbuf_failed(&c->wanted))
        return c;
    columns_destroy(c);
    return NULL;
}

void columns_destroy(struct columns *c)
{
    for (size_t i = 0; c && i < c->n; i++) {
        strbuf_fini(&c->all[i]->name);
        strbuf_fini(&c->all[i]->of);
        strbuf_fini(&c->all[i]->at);
        mem_free(c->all[i]);
    }
    if (c) {
        strbuf_fini(&c->wanted);
        strbuf_fini(&c->value);
    }
    mem_free(c);
}

static bool is_wanted(const struct columns *c, struct slice name)
{
    struct slice rest = strbuf_slice(&c->wanted);
    bool is_any = rest.n == 0;
    while (rest.n && !is_any) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice one = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        rest = slice_from(rest, one.n + (comma != NULL));
        is_any = slice_eq(one, name);
    }
    return is_any;
}

static int make_column(struct columns *c, struct slice name, struct column **out)
{
    if (c->n == COLUMNS_MAX)
        return E_LIMIT;
    struct column *k = mem_try_alloc(sizeof *k);
    if (!k)
        return -ENOMEM;
    strbuf_add_slice(&k->name, name);
    k->is_wanted = is_wanted(c, name);
    c->all[c->n++] = *out = k;
    return strbuf_failed(&k->name) ? -ENOMEM : 0;
}

static int find_column(struct columns *c, struct slice name, struct column **out)
{
    for (size_t i = 0; i < c->n; i++) {
        size_t at = c->next + i < c->n ? c->next + i : c->next + i - c->n;
        if (!slice_eq(strbuf_slice(&c->all[at]->name), name))
            continue;
        c->next = at + 1 < c->n ? at + 1 : 0;
        *out = c->all[at];
        return 0;
    }
    c->next = 0;
    return make_column(c, name, out);
}

/* ---------------------------------------------------------------- values */

static struct slice different(const struct column *k, uint32_t i)
{
    uint32_t from = i ? k->ends[i - 1] : 0;
    return slice_of(k->of.p + from, k->ends[i] - from);
}

static bool find_value(struct column *k, struct slice value)
{
    if (k->last < k->n_of && slice_eq(different(k, k->last), value))
        return true;
    for (uint32_t i = 0; i < k->n_of; i++)
        if (slice_eq(different(k, i), value)) {
            k->last = i;
            return true;
        }
    return false;
}

static void add_plain(struct column *k, struct slice value)
{
    if (k->at.n)
        strbuf_add_char(&k->at, ',');
    strbuf_add_slice(&k->at, value);
}

static void make_plain(struct column *k)
{
    struct strbuf numbers = k->at;
    k->at = (struct strbuf){0};
    k->at.failed = numbers.failed;
    for (size_t i = 0; i < numbers.n; i++)
        add_plain(k, different(k, (unsigned char)numbers.p[i]));
    strbuf_fini(&numbers);
    k->is_plain = true;
}

static void add_value(struct column *k, struct slice value)
{
    k->rows++;
    if (!k->is_plain && !find_value(k, value)) {
        if (k->n_of == COLUMNS_FEW) {
            make_plain(k);
        } else {
            strbuf_add_slice(&k->of, value);
            k->ends[k->n_of] = (uint32_t)k->of.n;
            k->last = k->n_of++;
        }
    }
    k->before = k->at.n;
    if (k->is_plain)
        add_plain(k, value);
    else
        strbuf_add_char(&k->at, (char)k->last);
}

/* Rows without a value, up to that many. */
static void fill(struct column *k, uint32_t rows)
{
    while (k->rows < rows)
        add_value(k, SLICE_LIT("null"));
}

/* The row has another value of that name. */
static void take_back(struct column *k)
{
    k->rows--;
    if (!strbuf_failed(&k->at))
        k->at.n = k->before;
}

static int add(struct columns *c, struct slice name, struct value v)
{
    struct column *k = NULL;
    int r = find_column(c, name, &k);
    if (r < 0 || !k->is_wanted)
        return r;
    if (k->rows > c->rows)
        take_back(k);
    fill(k, c->rows);
    strbuf_reset(&c->value);
    rows_put_value(&c->value, v);
    add_value(k, strbuf_slice(&c->value));
    c->bytes += k->is_plain ? c->value.n : 1;
    return strbuf_failed(&c->value) || strbuf_failed(&k->of) || strbuf_failed(&k->at) ? -ENOMEM : 0;
}

int columns_add(struct columns *c, struct args row, struct slice text)
{
    struct args rest = row;
    struct arg a;
    bool has_text = text.n == 0;
    int r = 0;
    c->next = 0;
    while (r == 0 && args_next(&rest, &a)) {
        has_text = has_text || slice_eq_str(a.name, "text");
        r = add(c, a.name, a.value);
    }
    if (r == 0 && !has_text)
        r = add(c, SLICE_LIT("text"), value_text(text));
    c->rows++;
    return r;
}

bool columns_full(const struct columns *c)
{
    return c->rows >= (c->has_begun ? COLUMNS_ROWS : COLUMNS_FIRST) || c->bytes >= COLUMNS_BYTES;
}

/* ---------------------------------------------------------------- the block */

static void put_column(struct strbuf *out, const struct column *k)
{
    json_add_string(out, strbuf_slice(&k->name));
    strbuf_add_char(out, ':');
    if (k->is_plain) {
        strbuf_add_char(out, '[');
        strbuf_add_slice(out, strbuf_slice(&k->at));
        strbuf_add_char(out, ']');
        return;
    }
    strbuf_add_str(out, k->n_of == 1 ? "{\"all\":" : "{\"of\":[");
    for (uint32_t i = 0; i < k->n_of; i++) {
        strbuf_add_str(out, i ? "," : "");
        strbuf_add_slice(out, different(k, i));
    }
    strbuf_add_str(out, k->n_of == 1 ? "" : "],\"at\":[");
    for (size_t i = 0; k->n_of > 1 && i < k->at.n; i++)
        strbuf_printf(out, i ? ",%d" : "%d", (unsigned char)k->at.p[i]);
    strbuf_add_str(out, k->n_of == 1 ? "}" : "]}");
}

static void begin_again(struct column *k)
{
    strbuf_reset(&k->of);
    strbuf_reset(&k->at);
    k->rows = k->n_of = k->last = 0;
    k->is_plain = false;
}

int columns_put(struct columns *c, struct strbuf *out)
{
    bool is_first = true, has_failed = false;
    if (c->rows == 0)
        return 0;
    strbuf_printf(out, "{\"rows\":%" PRIu32 ",\"columns\":{", c->rows);
    for (size_t i = 0; i < c->n; i++) {
        struct column *k = c->all[i];
        if (k->rows == 0) /* none of these rows has it, or it is not wanted */
            continue;
        fill(k, c->rows);
        has_failed = has_failed || strbuf_failed(&k->at) || strbuf_failed(&k->of);
        strbuf_add_str(out, is_first ? "" : ",");
        put_column(out, k);
        begin_again(k);
        is_first = false;
    }
    strbuf_add_str(out, "}}\n");
    c->rows = 0;
    c->bytes = 0;
    c->has_begun = true;
    return has_failed || strbuf_failed(out) ? -ENOMEM : 0;
}
