/* SPDX-License-Identifier: Apache-2.0 */
/* A text is {"meta": ..., "errors": [...], "jobs": [entry, entry, ...]}. Inside an entry each scalar has a
 * path, the keys on the way to it joined by dots ("exit_code.return_code"; an array adds nothing, so that its
 * elements have its path), and a table says which column it belongs to. Numbers may be objects: the parts
 * "number", "set" and "infinite" of one belong to the column of the object. */
#include "helper/slurm_json.h"

#include "base/arena.h"
#include "base/num.h"
#include "base/text.h"
#include "event/json.h"

#include <errno.h>

enum { COLUMNS_MAX = 32, PATH_MAX_BYTES = 64, NOWHERE = 255, ENTRY_DEPTH = 3 };
#define NUMBER_MAX (UINT64_C(1) << 53)

enum type { TYPE_TEXT, TYPE_WORDS, TYPE_UINT, TYPE_TIME };

struct member {
    struct slice path;
    uint8_t type, column;
};
#define MEMBER(path, type, column) {{path, sizeof(path) - 1}, TYPE_##type, column}

struct slurm_form {
    const char *lists[2]; /* the key of the list, by version */
    const struct member *members;
    size_t n_members;
    uint32_t needed; /* columns, as bits */
};

static const struct member job_members[] = {
    MEMBER("job_id", UINT, JOB_ID),
    MEMBER("job_state", WORDS, JOB_STATE),
    MEMBER("state.current", WORDS, JOB_STATE),
    MEMBER("array_job_id", UINT, JOB_ARRAY),
    MEMBER("array.job_id", UINT, JOB_ARRAY),
    MEMBER("array_task_id", UINT, JOB_TASK),
    MEMBER("array.task_id", UINT, JOB_TASK),
    MEMBER("array.task", UINT, JOB_TASK),
    MEMBER("state_reason", TEXT, JOB_REASON),
    MEMBER("state.reason", TEXT, JOB_REASON),
    MEMBER("user_name", TEXT, JOB_USER),
    MEMBER("user", TEXT, JOB_USER),
    MEMBER("account", TEXT, JOB_ACCOUNT),
    MEMBER("partition", TEXT, JOB_PARTITION),
    MEMBER("name", TEXT, JOB_NAME),
    MEMBER("nodes", TEXT, JOB_NODES),
    MEMBER("node_count", UINT, JOB_NODE_COUNT),
    MEMBER("allocation_nodes", UINT, JOB_NODE_COUNT),
    MEMBER("cpus", UINT, JOB_CPUS),
    MEMBER("submit_time", TIME, JOB_SUBMIT),
    MEMBER("time.submission", TIME, JOB_SUBMIT),
    MEMBER("start_time", TIME, JOB_START),
    MEMBER("time.start", TIME, JOB_START),
    MEMBER("end_time", TIME, JOB_END),
    MEMBER("time.end", TIME, JOB_END),
    MEMBER("exit_code", UINT, JOB_WAIT_STATUS),
    MEMBER("exit_code.return_code", UINT, JOB_EXIT),
    MEMBER("exit_code.signal.id", UINT, JOB_SIGNAL),
    MEMBER("exit_code.signal.signal_id", UINT, JOB_SIGNAL),
};

static const struct member node_members[] = {
    MEMBER("partitions", WORDS, NODE_PARTITIONS),
    MEMBER("partition.name", WORDS, NODE_PARTITIONS),
    MEMBER("state", WORDS, NODE_STATE),
    MEMBER("state_flags", WORDS, NODE_STATE),
    MEMBER("node.state", WORDS, NODE_STATE),
    MEMBER("cpus", UINT, NODE_CPUS),
    MEMBER("cpus.total", UINT, NODE_CPUS),
    MEMBER("alloc_cpus", UINT, NODE_CPUS_ALLOCATED),
    MEMBER("cpus.allocated", UINT, NODE_CPUS_ALLOCATED),
    MEMBER("idle_cpus", UINT, NODE_CPUS_IDLE),
    MEMBER("alloc_idle_cpus", UINT, NODE_CPUS_IDLE),
    MEMBER("cpus.idle", UINT, NODE_CPUS_IDLE),
    MEMBER("nodes.total", UINT, NODE_NODES),
    MEMBER("nodes.allocated", UINT, NODE_NODES_ALLOCATED),
    MEMBER("nodes.idle", UINT, NODE_NODES_IDLE),
};

const struct slurm_form slurm_jobs = {
    {"jobs", "jobs"}, job_members, sizeof job_members / sizeof *job_members, 1u << JOB_ID | 1u << JOB_STATE};
const struct slurm_form slurm_nodes = {
    {"nodes", "sinfo"}, node_members, sizeof node_members / sizeof *node_members, 1u << NODE_STATE};
_Static_assert((int)JOB_COLUMNS <= (int)COLUMNS_MAX && (int)NODE_COLUMNS <= (int)COLUMNS_MAX,
               "bits and values for all");

struct walk {
    const struct slurm_form *form;
    struct json_reader reader;
    struct arena *arena; /* unescaped and joined texts of the entry */
    struct diag *why;
    slurm_row_fn fn; /* NULL: only looks whether all is well */
    void *arg;
    unsigned depth; /* open objects and arrays */
    bool has_list, in_list, in_errors;
    size_t rows;
    struct value row[COLUMNS_MAX];
    uint32_t unset; /* columns whose number is an object that says so */
    char path[PATH_MAX_BYTES];
    /* Of the container at each depth; NOWHERE: longer than all that we know. */
    uint8_t path_n[JSON_DEPTH_MAX + 1];
};

/* ---------------------------------------------------------------- paths and columns */

/* The path of a key in the innermost container, written behind the container's: its length, or NOWHERE. */
static uint8_t path_of(struct walk *w, struct slice key)
{
    size_t n = w->path_n[w->depth];
    if (key.n == 0 || n == NOWHERE)
        return (uint8_t)n;
    if (n + 1 + key.n > PATH_MAX_BYTES)
        return NOWHERE;
    if (n)
        w->path[n++] = '.';
    memcpy(w->path + n, key.p, key.n);
    return (uint8_t)(n + key.n);
}

static const struct member *find_member(const struct walk *w, uint8_t path_n)
{
    if (path_n == NOWHERE)
        return NULL;
    for (size_t i = 0; i < w->form->n_members; i++)
        if (slice_eq(slice_of(w->path, path_n), w->form->members[i].path))
            return &w->form->members[i];
    return NULL;
}

/* The text itself, VALUE_NONE if it can't be one of ours. */
static int text_of(struct walk *w, const struct json_item *item, struct value *out)
{
    struct slice text = item->text;
    *out = value_none();
    if (text.n > SLURM_JSON_TEXT_MAX)
        return 0;
    if (item->escaped) {
        size_t n;
        char *to = arena_alloc(w->arena, text.n);
        int r = to ? json_unescape(&w->reader, text, to, &n) : -ENOMEM;
        if (r < 0)
            return r;
        text = slice_of(to, n);
    }
    if (text.n && text_is_utf8(text))
        *out = value_text(text);
    return 0;
}

/* Joins it to those that are there. */
static int add_word(struct walk *w, struct value *to, struct value word)
{
    if (to->type == VALUE_NONE || word.type == VALUE_NONE) {
        *to = word.type == VALUE_NONE ? *to : word;
        return 0;
    }
    size_t n = (size_t)to->n + 1 + word.n;
    if (n > SLURM_JSON_WORDS_MAX)
        return diag_set(w->why, E_LIMIT, 0, "a list of more than %d bytes", SLURM_JSON_WORDS_MAX);
    char *p = arena_alloc(w->arena, n);
    if (!p)
        return -ENOMEM;
    memcpy(p, to->p, to->n);
    p[to->n] = ',';
    memcpy(p + to->n + 1, word.p, word.n);
    *to = value_text(slice_of(p, n));
    return 0;
}

static struct value number_of(const struct json_item *item, uint8_t type)
{
    uint64_t u;
    double f;
    if (item->kind != JSON_NUMBER)
        return value_none();
    if (num_parse_uint(item->text, &u) == 0 && u <= NUMBER_MAX) {
        if (type == TYPE_UINT)
            return value_uint(u);
        return u ? value_float((double)u) : value_none(); /* Slurm: no such time yet */
    }
    if (type == TYPE_TIME && num_parse_float(item->text, &f) == 0 && f > 0 && f < (double)NUMBER_MAX)
        return value_float(f);
    return value_none();
}

/* A part of a number that is an object; m is the object's. */
static void take_part(struct walk *w, const struct member *m, const struct json_item *item)
{
    if (slice_eq_str(item->key, "number"))
        w->row[m->column] = number_of(item, m->type);
    else if ((slice_eq_str(item->key, "set") && item->kind == JSON_FALSE) ||
             (slice_eq_str(item->key, "infinite") && item->kind == JSON_TRUE))
        w->unset |= 1u << m->column;
}

static int take_scalar(struct walk *w, const struct json_item *item)
{
    const struct member *m = find_member(w, path_of(w, item->key));
    struct value text;
    if (!m) {
        m = w->path_n[w->depth] ? find_member(w, w->path_n[w->depth]) : NULL;
        if (m && m->type >= TYPE_UINT)
            take_part(w, m, item);
        return 0;
    }
    if (m->type >= TYPE_UINT) {
        w->row[m->column] = number_of(item, m->type);
        return 0;
    }
    if (item->kind != JSON_STRING)
        return 0;
    int r = text_of(w, item, &text);
    if (r < 0)
        return r;
    if (m->type == TYPE_WORDS)
        return add_word(w, &w->row[m->column], text);
    w->row[m->column] = text;
    return 0;
}

/* ---------------------------------------------------------------- the tree */

static void begin_entry(struct walk *w)
{
    arena_reset(w->arena);
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        w->row[i] = value_none();
    w->unset = 0;
}

static int end_entry(struct walk *w)
{
    if (++w->rows > SLURM_JSON_ROWS_MAX)
        return diag_set(w->why, E_LIMIT, 0, "more than %d entries", SLURM_JSON_ROWS_MAX);
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        if (w->unset & 1u << i)
            w->row[i] = value_none();
        if ((w->form->needed & 1u << i) && w->row[i].type == VALUE_NONE)
            return diag_set(w->why, E_PROTO, 0,
                            "entry %zu of '%s' lacks what each has: not a form that we know", w->rows,
                            w->form->lists[0]);
    }
    return w->fn ? w->fn(w->arg, w->row) : 0;
}

static int open_container(struct walk *w, const struct json_item *item)
{
    uint8_t path_n = 0;
    if (w->depth == 0 && item->kind != JSON_OBJECT)
        return diag_set(w->why, E_PROTO, 0, "not an object");
    if (w->depth == 1) {
        bool is_array = item->kind == JSON_ARRAY;
        w->in_errors = is_array && slice_eq_str(item->key, "errors");
        w->in_list = is_array && (slice_eq_str(item->key, w->form->lists[0]) ||
                                  slice_eq_str(item->key, w->form->lists[1]));
        w->has_list |= w->in_list;
    }
    if (w->in_list && w->depth == 2) {
        if (item->kind != JSON_OBJECT)
            return diag_set(w->why, E_PROTO, 0, "an entry of '%s' is not an object", w->form->lists[0]);
        begin_entry(w);
    } else if (w->in_list && w->depth >= ENTRY_DEPTH) {
        path_n = path_of(w, item->key);
    }
    w->path_n[++w->depth] = path_n;
    return 0;
}

static int close_container(struct walk *w)
{
    int r = w->in_list && w->depth == ENTRY_DEPTH ? end_entry(w) : 0;
    w->depth--;
    if (w->depth == 1)
        w->in_list = w->in_errors = false;
    return r;
}

/* Anything in "errors" means that the list may not be whole. Says so in Slurm's words if it has some. */
static int refuse_error(const struct walk *w, const struct json_item *item)
{
    struct slice said =
        text_is_utf8(item->text) && item->text.n <= 100 ? item->text : SLICE_LIT("not said which");
    return diag_set(w->why, E_PROTO, 0, "Slurm reports an error: %.*s", SLICE_ARG(said));
}

static int take_item(struct walk *w, const struct json_item *item)
{
    bool is_end = item->kind == JSON_OBJECT_END || item->kind == JSON_ARRAY_END;
    if (item->kind == JSON_OBJECT || item->kind == JSON_ARRAY)
        return open_container(w, item);
    if (w->in_errors && (!is_end || w->depth > 2))
        return refuse_error(w, item);
    if (is_end)
        return close_container(w);
    if (w->depth == 0)
        return diag_set(w->why, E_PROTO, 0, "not an object");
    if (!w->in_list)
        return 0;
    if (w->depth < ENTRY_DEPTH)
        return diag_set(w->why, E_PROTO, 0, "an entry of '%s' is not an object", w->form->lists[0]);
    return take_scalar(w, item);
}

static int walk_text(const struct slurm_form *form, struct slice text, struct arena *arena, slurm_row_fn fn,
                     void *arg, struct diag *why)
{
    struct walk w = {.form = form, .arena = arena, .why = why, .fn = fn, .arg = arg};
    struct json_item item;
    int r;
    json_init(&w.reader, text, JSON_DEPTH_MAX, why);
    while ((r = json_next(&w.reader, &item)) == 0 && item.kind != JSON_END)
        if ((r = take_item(&w, &item)) < 0)
            return r;
    if (r == 0 && !w.has_list)
        return diag_set(why, E_PROTO, 0, "no list '%s'", form->lists[0]);
    return r;
}

int slurm_json_read(const struct slurm_form *form, struct slice text, slurm_row_fn fn, void *arg,
                    struct diag *why)
{
    struct arena arena = {0};
    int r = walk_text(form, text, &arena, NULL, NULL, why);
    if (r == 0)
        r = walk_text(form, text, &arena, fn, arg, why);
    arena_fini(&arena);
    return r;
}

struct slice slurm_word(struct slice *rest)
{
    const char *comma = rest->n ? memchr(rest->p, ',', rest->n) : NULL;
    struct slice word = slice_of(rest->p, comma ? (size_t)(comma - rest->p) : rest->n);
    *rest = slice_from(*rest, word.n + (comma != NULL));
    return word;
}
