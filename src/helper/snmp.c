/* SPDX-License-Identifier: Apache-2.0 */
/* The sensor snmp. What is read is in tables: OID or column, the field it fills, and how. Where two OIDs can
 * fill a field the first that has a value does.
 *
 * Of interfaces, the newer ifXTable is read first (names, 64-bit counters), then ifTable, without the columns
 * that every interface has a better value for by then. Rows go out when their table is whole: a device that
 * stops answering in the middle gives no half rows.
 *
 * The session stays open from sample to sample and is opened anew after a failure: the name may have another
 * address by then, and the files other secrets. */
#include "helper/helper.h"
#include "helper/snmp_link.h"
#include "helper/snmp_value.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include <assert.h>
#include <errno.h>

#define SAMPLE_MAX (60 * NS_PER_S) /* for all questions of a sample; an agent waits for 3 periods */

enum { SCALARS_MAX = 32 };

struct scalar {
    const char *name;
    uint8_t field, as;
};

#define SYSTEM "1.3.6.1.2.1.1."
static const struct scalar system_scalars[] = {
    {SYSTEM "1.0", SNMP_SYS_DESCRIPTION, SNMP_AS_TEXT},  {SYSTEM "2.0", SNMP_SYS_OBJECT, SNMP_AS_TEXT},
    {SYSTEM "3.0", SNMP_SYS_UPTIME, SNMP_AS_HUNDREDTHS}, {SYSTEM "4.0", SNMP_SYS_CONTACT, SNMP_AS_TEXT},
    {SYSTEM "5.0", SNMP_SYS_NAME, SNMP_AS_TEXT},         {SYSTEM "6.0", SNMP_SYS_LOCATION, SNMP_AS_TEXT},
};

/* UCD-SNMP-MIB and HOST-RESOURCES-MIB. */
#define UCD_MEMORY "1.3.6.1.4.1.2021.4."
#define UCD_LOAD   "1.3.6.1.4.1.2021.10.1.5."
#define UCD_STATS  "1.3.6.1.4.1.2021.11."
#define RESOURCES  "1.3.6.1.2.1.25."
static const struct scalar host_scalars[] = {
    {UCD_LOAD "1", SNMP_HOST_LOAD1, SNMP_AS_HUNDREDTHS},
    {UCD_LOAD "2", SNMP_HOST_LOAD5, SNMP_AS_HUNDREDTHS},
    {UCD_LOAD "3", SNMP_HOST_LOAD15, SNMP_AS_HUNDREDTHS},
    {UCD_STATS "67.0", SNMP_HOST_CPUS, SNMP_AS_UINT},
    {UCD_STATS "50.0", SNMP_HOST_CPU_USER, SNMP_AS_UINT},
    {UCD_STATS "51.0", SNMP_HOST_CPU_NICE, SNMP_AS_UINT},
    {UCD_STATS "52.0", SNMP_HOST_CPU_SYSTEM, SNMP_AS_UINT},
    {UCD_STATS "53.0", SNMP_HOST_CPU_IDLE, SNMP_AS_UINT},
    {UCD_STATS "54.0", SNMP_HOST_CPU_IOWAIT, SNMP_AS_UINT},
    {UCD_STATS "56.0", SNMP_HOST_CPU_IRQ, SNMP_AS_UINT},
    {UCD_STATS "61.0", SNMP_HOST_CPU_SOFTIRQ, SNMP_AS_UINT},
    {UCD_STATS "64.0", SNMP_HOST_CPU_STEAL, SNMP_AS_UINT},
    {UCD_MEMORY "5.0", SNMP_HOST_MEMORY_TOTAL, SNMP_AS_KIB},
    {RESOURCES "2.2.0", SNMP_HOST_MEMORY_TOTAL, SNMP_AS_KIB}, /* hrMemorySize */
    {UCD_MEMORY "6.0", SNMP_HOST_MEMORY_FREE, SNMP_AS_KIB},
    {UCD_MEMORY "27.0", SNMP_HOST_MEMORY_AVAILABLE, SNMP_AS_KIB},
    {UCD_MEMORY "14.0", SNMP_HOST_MEMORY_BUFFERS, SNMP_AS_KIB},
    {UCD_MEMORY "15.0", SNMP_HOST_MEMORY_CACHED, SNMP_AS_KIB},
    {UCD_MEMORY "3.0", SNMP_HOST_SWAP_TOTAL, SNMP_AS_KIB},
    {UCD_MEMORY "4.0", SNMP_HOST_SWAP_FREE, SNMP_AS_KIB},
    {RESOURCES "1.6.0", SNMP_HOST_PROCESSES, SNMP_AS_UINT},
    {RESOURCES "1.5.0", SNMP_HOST_SESSIONS, SNMP_AS_UINT},
    {RESOURCES "1.1.0", SNMP_HOST_UPTIME, SNMP_AS_HUNDREDTHS},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))
_Static_assert(COUNT(system_scalars) <= SCALARS_MAX && COUNT(host_scalars) <= SCALARS_MAX,
               "room for their names");

struct column_spec {
    uint8_t id, field, as;
};

static const struct column_spec ifx_columns[] = {
    {1, SNMP_NAME, SNMP_AS_TEXT},
    {6, SNMP_IF_IN_BYTES, SNMP_AS_UINT},
    {7, SNMP_IF_IN_PACKETS, SNMP_AS_UINT},
    {8, SNMP_IF_IN_MULTICAST, SNMP_AS_UINT},
    {9, SNMP_IF_IN_BROADCAST, SNMP_AS_UINT},
    {10, SNMP_IF_OUT_BYTES, SNMP_AS_UINT},
    {11, SNMP_IF_OUT_PACKETS, SNMP_AS_UINT},
    {12, SNMP_IF_OUT_MULTICAST, SNMP_AS_UINT},
    {13, SNMP_IF_OUT_BROADCAST, SNMP_AS_UINT},
    {15, SNMP_IF_SPEED, SNMP_AS_MEGABITS},
    {18, SNMP_IF_ALIAS, SNMP_AS_TEXT},
};

static const struct column_spec if_columns[] = {
    {2, SNMP_NAME, SNMP_AS_TEXT},
    {3, SNMP_IF_TYPE, SNMP_AS_IF_TYPE},
    {5, SNMP_IF_SPEED, SNMP_AS_SPEED},
    {7, SNMP_IF_ADMIN, SNMP_AS_STATE},
    {8, SNMP_IF_OPER, SNMP_AS_STATE},
    {10, SNMP_IF_IN_BYTES, SNMP_AS_UINT},
    {11, SNMP_IF_IN_PACKETS, SNMP_AS_UINT},
    {13, SNMP_IF_IN_DROPPED, SNMP_AS_UINT},
    {14, SNMP_IF_IN_ERRORS, SNMP_AS_UINT},
    {16, SNMP_IF_OUT_BYTES, SNMP_AS_UINT},
    {17, SNMP_IF_OUT_PACKETS, SNMP_AS_UINT},
    {19, SNMP_IF_OUT_DROPPED, SNMP_AS_UINT},
    {20, SNMP_IF_OUT_ERRORS, SNMP_AS_UINT},
};

/* hrStorageTable. The size of its units goes where no field is. */
enum { STORAGE_UNIT = SNMP_STORAGE_FIELDS };
static const struct column_spec storage_columns[] = {
    {2, SNMP_STORAGE_TYPE, SNMP_AS_STORAGE_TYPE},
    {3, SNMP_NAME, SNMP_AS_TEXT},
    {4, STORAGE_UNIT, SNMP_AS_UINT},
    {5, SNMP_STORAGE_SIZE, SNMP_AS_UINT},
    {6, SNMP_STORAGE_USED, SNMP_AS_UINT},
};
_Static_assert(STORAGE_UNIT < (int)SNMP_IF_FIELDS, "a row has room for it");

static const struct column_spec processor_columns[] = {{2, 0, SNMP_AS_UINT}}; /* hrProcessorLoad */

struct row {
    uint32_t index;
    struct value v[SNMP_IF_FIELDS];
};

struct snmp_work {
    const struct snmp_sensor *options;
    struct snmp_link *link; /* NULL = to be opened */
    struct snmp_name system[SCALARS_MAX], host[SCALARS_MAX], if_table, ifx_table, storage_table,
        processor_table;
    struct snmp_name oids[SNMP_OIDS_MAX];
    struct slice oid_names[SNMP_OIDS_MAX]; /* borrowed from the option */

    /* For one sample. */
    struct snmp_texts texts;
    struct strbuf name;
    struct sensor_out *out;
    /* For one question: what fills which fields, and the rows of a table, by ascending index. */
    const struct scalar *scalars;
    struct value *scalar_row;
    const struct column_spec *columns[SNMP_COLUMNS_MAX];
    struct row *rows;
    size_t n_rows, rows_cap;
};

static int no_memory(struct snmp_work *w)
{
    return diag_set(w->out->why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

static void emit(struct snmp_work *w, unsigned schema, struct value *row)
{
    row[SNMP_TARGET] = snmp_static_text(w->options->target);
    sensor_row(w->out, schema, row);
}

/* ---------------------------------------------------------------- single values */

static int take_scalar(void *arg, size_t at, uint32_t index, const netsnmp_variable_list *v)
{
    struct snmp_work *w = arg;
    const struct scalar *s = &w->scalars[at];
    (void)index; /* of tables */
    if (w->scalar_row[s->field].type == VALUE_NONE)
        w->scalar_row[s->field] = snmp_convert(&w->texts, v, s->as);
    return 0;
}

static int get_scalars(struct snmp_work *w, const struct scalar *scalars, const struct snmp_name *names,
                       size_t n, struct value *row)
{
    w->scalars = scalars;
    w->scalar_row = row;
    return snmp_link_get(w->link, names, n, take_scalar, w, w->out->why);
}

static int read_system(struct snmp_work *w)
{
    struct value row[SNMP_SYS_FIELDS] = {0};
    int r = get_scalars(w, system_scalars, w->system, COUNT(system_scalars), row);
    if (r == 0)
        emit(w, SNMP_SYSTEM, row);
    return r;
}

static const char *why_none(const netsnmp_variable_list *v)
{
    switch (v->type) {
    case SNMP_NOSUCHOBJECT:
        return "the device has no such object";
    case SNMP_NOSUCHINSTANCE:
        return "the device has no such instance of the object";
    default:
        return v->val_len > SNMP_STRING_MAX ? "the value is too long"
                                            : "the value is of a type that is not known";
    }
}

static int take_oid(void *arg, size_t at, uint32_t index, const netsnmp_variable_list *v)
{
    struct snmp_work *w = arg;
    struct value row[SNMP_VALUE_FIELDS] = {[SNMP_NAME] = value_text(w->oid_names[at])};
    uint64_t u;
    (void)index; /* of tables */
    if (v->type == ASN_INTEGER)
        row[SNMP_VALUE_INT] = value_int(*v->val.integer);
    else if (snmp_uint_of(v, &u))
        row[v->type == ASN_COUNTER || v->type == ASN_COUNTER64 ? SNMP_VALUE_COUNTER : SNMP_VALUE_UINT] =
            value_uint(u);
    else if (v->type == ASN_OPAQUE_FLOAT)
        row[SNMP_VALUE_FLOAT] = value_float((double)*v->val.floatVal);
    else if (v->type == ASN_OPAQUE_DOUBLE)
        row[SNMP_VALUE_FLOAT] = value_float(*v->val.doubleVal);
    else if ((row[SNMP_VALUE_TEXT] = snmp_text_of(&w->texts, v)).type == VALUE_NONE)
        row[SNMP_VALUE_WHY] = snmp_static_text(why_none(v));
    emit(w, SNMP_VALUE, row);
    return 0;
}

/* ---------------------------------------------------------------- tables */

/* The row of that number, made if need be; NULL: no memory. Rows mostly come in ascending order. */
static struct row *find_row(struct snmp_work *w, uint32_t index)
{
    size_t low = 0, high = w->n_rows;
    if (high && w->rows[high - 1].index < index)
        low = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->rows[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < w->n_rows && w->rows[low].index == index)
        return &w->rows[low];
    if (w->n_rows == w->rows_cap) {
        size_t cap = w->rows_cap ? w->rows_cap * 2 : 64;
        struct row *rows = mem_try_resize(w->rows, cap * sizeof(struct row));
        if (!rows)
            return NULL;
        w->rows = rows;
        w->rows_cap = cap;
    }
    memmove(&w->rows[low + 1], &w->rows[low], (w->n_rows - low) * sizeof(struct row));
    w->n_rows++;
    w->rows[low] = (struct row){.index = index};
    return &w->rows[low];
}

/* An empty name is none. */
static bool is_missing(const struct row *row, uint8_t field)
{
    struct value v = row->v[field];
    return v.type == VALUE_NONE || (field == SNMP_NAME && v.type == VALUE_TEXT && v.n == 0);
}

static int take_cell(void *arg, size_t at, uint32_t index, const netsnmp_variable_list *v)
{
    struct snmp_work *w = arg;
    const struct column_spec *c = w->columns[at];
    struct row *row = find_row(w, index);
    if (!row)
        return no_memory(w);
    if (w->n_rows > SNMP_ROWS_MAX)
        return diag_set(w->out->why, E_LIMIT, 0, "%s: a table of more than %d rows", w->options->target,
                        SNMP_ROWS_MAX);
    if (is_missing(row, c->field))
        row->v[c->field] = snmp_convert(&w->texts, v, c->as);
    return 0;
}

/* Does every row have that field? Then there is no use in another column for it. */
static bool is_filled(const struct snmp_work *w, uint8_t field)
{
    for (size_t i = 0; i < w->n_rows; i++)
        if (is_missing(&w->rows[i], field))
            return false;
    return w->n_rows > 0;
}

/* Adds to w->rows. */
static int read_table(struct snmp_work *w, const struct snmp_name *table, const struct column_spec *columns,
                      size_t n)
{
    uint8_t ids[SNMP_COLUMNS_MAX];
    size_t n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_filled(w, columns[i].field))
            continue;
        w->columns[n_ids] = &columns[i];
        ids[n_ids++] = columns[i].id;
    }
    return snmp_link_walk(w->link, table, ids, n_ids, take_cell, w, w->out->why);
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    struct value s = x->v[SNMP_NAME], t = y->v[SNMP_NAME];
    int d = memcmp(s.p, t.p, s.n < t.n ? s.n : t.n);
    return d ? d : (s.n > t.n) - (s.n < t.n);
}

/* Rows without a name get their number as one; names that several rows have get it behind them: a name is a
 * key. */
static int name_rows(struct snmp_work *w)
{
    const struct row **sorted = mem_try_alloc((w->n_rows ? w->n_rows : 1) * sizeof(struct row *));
    char number[NUM_TEXT_MAX];
    bool is_same = false;
    if (!sorted)
        return no_memory(w);
    for (size_t i = 0; i < w->n_rows; i++) {
        struct value *name = &w->rows[i].v[SNMP_NAME];
        if (is_missing(&w->rows[i], SNMP_NAME))
            *name = snmp_keep_text(&w->texts, slice_of(number, num_print_uint(number, w->rows[i].index)));
        sorted[i] = &w->rows[i];
    }
    if (w->texts.is_out_of_memory) { /* a name may be among what is missing */
        mem_free(sorted);
        return no_memory(w);
    }
    qsort(sorted, w->n_rows, sizeof *sorted, by_name);
    for (size_t i = 0; i < w->n_rows; i++) {
        struct row *row = &w->rows[sorted[i] - w->rows];
        bool is_next = i + 1 < w->n_rows && value_eq(row->v[SNMP_NAME], sorted[i + 1]->v[SNMP_NAME]);
        if (is_same || is_next) {
            strbuf_reset(&w->name);
            strbuf_add_slice(&w->name, value_slice(row->v[SNMP_NAME]));
            strbuf_printf(&w->name, "#%u", row->index);
            row->v[SNMP_NAME] = snmp_keep_text(&w->texts, strbuf_slice(&w->name));
        }
        is_same = is_next;
    }
    mem_free(sorted);
    return 0;
}

static int read_interfaces(struct snmp_work *w)
{
    w->n_rows = 0;
    int r = read_table(w, &w->ifx_table, ifx_columns, COUNT(ifx_columns));
    if (r == 0)
        r = read_table(w, &w->if_table, if_columns, COUNT(if_columns));
    if (r == 0)
        r = name_rows(w);
    for (size_t i = 0; i < w->n_rows && r == 0; i++) {
        w->rows[i].v[SNMP_IF_INDEX] = value_uint(w->rows[i].index);
        emit(w, SNMP_INTERFACE, w->rows[i].v);
    }
    return r;
}

static struct value in_units(struct value n, struct value unit)
{
    bool is_known =
        n.type == VALUE_UINT && unit.type == VALUE_UINT && unit.u > 0 && n.u <= UINT64_MAX / unit.u;
    return is_known ? value_uint(n.u * unit.u) : value_none();
}

static int read_storage(struct snmp_work *w)
{
    w->n_rows = 0;
    int r = read_table(w, &w->storage_table, storage_columns, COUNT(storage_columns));
    if (r == 0)
        r = name_rows(w);
    for (size_t i = 0; i < w->n_rows && r == 0; i++) {
        struct value *v = w->rows[i].v;
        v[SNMP_STORAGE_SIZE] = in_units(v[SNMP_STORAGE_SIZE], v[STORAGE_UNIT]);
        v[SNMP_STORAGE_USED] = in_units(v[SNMP_STORAGE_USED], v[STORAGE_UNIT]);
        emit(w, SNMP_STORAGE, v);
    }
    return r;
}

/* How many processors there are and how busy. */
static int read_processors(struct snmp_work *w, struct value *host)
{
    double sum = 0;
    size_t n = 0;
    w->n_rows = 0;
    int r = read_table(w, &w->processor_table, processor_columns, COUNT(processor_columns));
    for (size_t i = 0; i < w->n_rows && r == 0; i++) {
        struct value load = w->rows[i].v[0];
        sum += load.type == VALUE_UINT ? (double)load.u : 0;
        n += load.type == VALUE_UINT;
    }
    if (r == 0 && n) {
        host[SNMP_HOST_CPUS] = value_uint(n);
        host[SNMP_HOST_CPU_LOAD] = value_float(sum / (double)n);
    }
    return r;
}

static int read_host(struct snmp_work *w)
{
    struct value row[SNMP_HOST_FIELDS] = {0};
    int r = get_scalars(w, host_scalars, w->host, COUNT(host_scalars), row);
    if (r == 0)
        r = read_processors(w, row);
    if (r < 0)
        return r;
    emit(w, SNMP_HOST, row);
    return read_storage(w);
}

/* ---------------------------------------------------------------- the sensor */

/* NAME=OID. */
static int parse_oid(struct snmp_work *w, size_t at, const char *text, struct diag *why)
{
    const char *equals = strchr(text, '=');
    struct slice name = slice_of(text, equals ? (size_t)(equals - text) : 0);
    if (!equals || name.n == 0)
        return diag_set(why, -EINVAL, 0, "oids: `%s` is not NAME=OID", text);
    if (snmp_name_parse(slice_str(equals + 1), &w->oids[at]) < 0)
        return diag_set(why, -EINVAL, 0, "oids: `%s` is no OID in numbers (1.3.6.1.2.1.1.3.0)", equals + 1);
    for (size_t i = 0; i < at; i++)
        if (slice_eq(w->oid_names[i], name))
            return diag_set(why, -EINVAL, 0, "oids: two are named `%.*s`", (int)name.n, name.p);
    w->oid_names[at] = name;
    return 0;
}

static int check_options(const struct snmp_sensor *s, struct diag *why)
{
    if (!s->target || !s->target[0])
        return diag_set(why, -EINVAL, 0, "target: HOST or HOST:PORT");
    if (strcmp(s->version, "2c") != 0 && strcmp(s->version, "3") != 0)
        return diag_set(why, -EINVAL, 0, "version: `%s` is not 2c or 3", s->version);
    if (s->timeout_ns < NS_PER_S / 1000 || s->timeout_ns > 60 * NS_PER_S)
        return diag_set(why, -EINVAL, 0, "timeout: from 1ms to 60s");
    if (s->retries < 0 || s->retries > SNMP_RETRIES_MAX)
        return diag_set(why, -EINVAL, 0, "retries: from 0 to %d", SNMP_RETRIES_MAX);
    if (s->oids.n > SNMP_OIDS_MAX)
        return diag_set(why, -EINVAL, 0, "oids: at most %d", SNMP_OIDS_MAX);
    return 0;
}

/* One of this file's. */
static void parse_known(const char *text, struct snmp_name *out)
{
    int r = snmp_name_parse(slice_str(text), out);
    assert(r == 0);
    (void)r;
}

static int snmp_sensor_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct snmp_sensor *s = state;
    (void)env; /* the world is elsewhere */
    int r = check_options(s, why);
    if (r < 0)
        return r;
    struct snmp_work *w = s->work = mem_alloc(sizeof *w);
    w->options = s;
    for (size_t i = 0; i < COUNT(system_scalars); i++)
        parse_known(system_scalars[i].name, &w->system[i]);
    for (size_t i = 0; i < COUNT(host_scalars); i++)
        parse_known(host_scalars[i].name, &w->host[i]);
    parse_known("1.3.6.1.2.1.2.2.1", &w->if_table);
    parse_known("1.3.6.1.2.1.31.1.1.1", &w->ifx_table);
    parse_known(RESOURCES "2.3.1", &w->storage_table);
    parse_known(RESOURCES "3.3.1", &w->processor_table);
    for (size_t i = 0; i < s->oids.n && r == 0; i++)
        r = parse_oid(w, i, s->oids.v[i], why);
    return r;
}

static int read_all(struct snmp_work *w)
{
    const struct snmp_sensor *s = w->options;
    snmp_link_begin(w->link, SAMPLE_MAX);
    int r = read_system(w);
    if (r == 0 && s->has_interfaces)
        r = read_interfaces(w);
    if (r == 0 && s->oids.n)
        r = snmp_link_get(w->link, w->oids, s->oids.n, take_oid, w, w->out->why);
    if (r == 0 && s->has_host)
        r = read_host(w);
    return r;
}

static int snmp_sensor_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct snmp_sensor *s = state;
    struct snmp_work *w = s->work;
    if (!env_is_live(env))
        return diag_set(out->why, E_NODATA, 0, "asks a device, not a tree");
    snmp_texts_reset(&w->texts);
    w->out = out;
    int r = w->link ? 0 : snmp_link_open(s, &w->link, out->why);
    if (r == 0)
        r = read_all(w);
    if (r == 0 && w->texts.is_out_of_memory)
        r = no_memory(w);
    if (r < 0) {
        snmp_link_close(w->link);
        w->link = NULL;
    }
    return r;
}

static void snmp_sensor_close(void *state)
{
    struct snmp_sensor *s = state;
    struct snmp_work *w = s->work;
    if (!w)
        return;
    snmp_link_close(w->link);
    snmp_texts_fini(&w->texts);
    strbuf_fini(&w->name);
    mem_free(w->rows);
    mem_free(w);
}

const struct helper_ops helper_snmp = {
    .name = "snmp",
    .open = snmp_sensor_open,
    .sample = snmp_sensor_sample,
    .close = snmp_sensor_close,
};
