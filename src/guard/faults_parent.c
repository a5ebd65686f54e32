/* SPDX-License-Identifier: Apache-2.0 */
/* Parents. Whether a fault of an ancestor rule matches is asked by an index: for each set of key columns that
 * a descendant has in common with a rule, how many of the rule's faults pend and fire, by the values of these
 * columns. So a look at a child costs a lookup an ancestor rule, and a parent that fires one an index,
 * however many children there are. Descendants are looked at again once an evaluation of the parent, if
 * something in it has moved. */
#include "base/mem.h"
#include "guard/faults_internal.h"

#include <assert.h>
#include <errno.h>

struct parent_node {
    size_t refs; /* faults with these values, whatever their state */
    struct activity_counts counts;
    size_t n;
    char values[];
};

/* ---------------------------------------------------------------- who is whose ancestor */

static size_t key_names(const struct rule_config *rule, const char *const **out)
{
    static const char *const host[] = {"host"};
    *out = rule->key.n ? rule->key.v : host;
    return rule->key.n ? rule->key.n : 1;
}

static bool has_name(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* In the order of the parent's key, so that the same set is the same list. */
static size_t common_columns(const struct rule_config *parent, const struct rule_config *child,
                             const char **out)
{
    const char *const *theirs, *const *ours;
    size_t n_theirs = key_names(parent, &theirs), n_ours = key_names(child, &ours), n = 0;
    for (size_t i = 0; i < n_theirs && i < RULE_KEY_MAX; i++)
        if (has_name(ours, n_ours, theirs[i]))
            out[n++] = theirs[i];
    return n;
}

static struct parent_index *find_index(struct rule_state *parent, const char *const *columns, size_t n)
{
    for (struct parent_index *x = parent->indices; x; x = x->next) {
        bool is_same = x->n_columns == n;
        for (size_t i = 0; i < n && is_same; i++)
            is_same = strcmp(x->columns[i], columns[i]) == 0;
        if (is_same)
            return x;
    }
    return NULL;
}

static struct parent_index *make_index(struct faults *fs, unsigned parent, const char *const *columns,
                                       size_t n)
{
    struct rule_state *r = &fs->rules[parent];
    struct parent_index *x = find_index(r, columns, n);
    if (x)
        return x;
    x = arena_alloc(&fs->arena, sizeof *x);
    if (!x)
        return NULL;
    *x = (struct parent_index){.rule = parent, .n_columns = n, .next = r->indices};
    for (size_t i = 0; i < n; i++)
        x->columns[i] = columns[i];
    return r->indices = x;
}

/* Marks in depth[] every ancestor of the rule: 1 = its parent, 2 = further up. A list of rules to go through,
 * no recursion: the depth of a configuration is not ours. */
static int find_ancestors(const struct guard_config *config, unsigned rule, uint8_t *depth, unsigned *todo)
{
    size_t n = 0, done = 0;
    memset(depth, 0, config->n_rules);
    todo[n++] = rule;
    for (; done < n; done++) {
        const struct rule_config *c = &config->rules[todo[done]];
        for (size_t i = 0; i < c->parents.n; i++) {
            unsigned parent = c->parent_rules[i];
            if (parent == rule)
                return -ELOOP;
            if (!depth[parent])
                todo[n++] = parent;
            if (!depth[parent] || done == 0)
                depth[parent] = done == 0 ? 1 : 2;
        }
    }
    return (int)n - 1;
}

static int64_t longest_wait(const struct rule_config *parent, const struct rule_config *child)
{
    int64_t sum = 0;
    const int64_t parts[] = {parent->every_ns, parent->policy.for_ns, parent->policy.hold_down_ns,
                             child->every_ns};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (__builtin_add_overflow(sum, parts[i], &sum))
            return INT64_MAX;
    return sum > INT64_MAX / 2 ? INT64_MAX : 2 * sum;
}

static int add_ancestor(struct faults *fs, unsigned rule, unsigned ancestor, bool is_parent)
{
    const struct rule_config *child = fs->rules[rule].config, *parent = fs->rules[ancestor].config;
    const char *columns[RULE_KEY_MAX];
    size_t n = common_columns(parent, child, columns);
    if (!parent->is_enabled || (!is_parent && n == 0))
        return 0;
    struct parent_index *x = make_index(fs, ancestor, columns, n);
    if (!x)
        return -ENOMEM;
    struct rule_state *r = &fs->rules[rule];
    r->ancestors[r->n_ancestors++] = x;
    int64_t wait_ns = longest_wait(parent, child);
    r->wait_max_ns = wait_ns > r->wait_max_ns ? wait_ns : r->wait_max_ns;
    fs->rules[ancestor].n_descendants++;
    return 0;
}

static int add_ancestors(struct faults *fs, unsigned rule, uint8_t *depth, unsigned *todo)
{
    int n = find_ancestors(fs->config, rule, depth, todo);
    if (n <= 0)
        return n;
    struct rule_state *r = &fs->rules[rule];
    r->ancestors = arena_alloc(&fs->arena, (size_t)n * sizeof *r->ancestors);
    if (!r->ancestors)
        return -ENOMEM;
    for (unsigned i = 0; i < fs->n_rules; i++) {
        int err = depth[i] ? add_ancestor(fs, rule, i, depth[i] == 1) : 0;
        if (err < 0)
            return err;
    }
    return 0;
}

/* The other way round; n_descendants is known. */
static int add_descendants(struct faults *fs)
{
    for (size_t i = 0; i < fs->n_rules; i++) {
        struct rule_state *r = &fs->rules[i];
        if (!r->n_descendants)
            continue;
        r->descendants = arena_alloc(&fs->arena, r->n_descendants * sizeof *r->descendants);
        if (!r->descendants)
            return -ENOMEM;
        r->n_descendants = 0;
    }
    for (unsigned i = 0; i < fs->n_rules; i++)
        for (size_t a = 0; a < fs->rules[i].n_ancestors; a++) {
            struct rule_state *r = &fs->rules[fs->rules[i].ancestors[a]->rule];
            r->descendants[r->n_descendants++] = i;
        }
    return 0;
}

int parents_create(struct faults *fs)
{
    uint8_t *depth = mem_try_alloc(fs->n_rules + 1);
    unsigned *todo = mem_try_alloc((fs->n_rules + 1) * sizeof *todo);
    int err = depth && todo ? 0 : -ENOMEM;
    for (unsigned i = 0; i < fs->n_rules && !err; i++)
        err = add_ancestors(fs, i, depth, todo);
    if (!err)
        err = add_descendants(fs);
    mem_free(depth);
    mem_free(todo);
    return err;
}

void parents_destroy(struct faults *fs)
{
    for (size_t i = 0; fs->rules && i < fs->n_rules; i++)
        for (struct parent_index *x = fs->rules[i].indices; x; x = x->next) {
            void *node;
            for (size_t at = 0; map_next(&x->by_values, &at, &node);)
                mem_free(node);
            map_fini(&x->by_values);
        }
}

/* ---------------------------------------------------------------- the index */

/* The values of the index's columns, each with its length, in fs->text. False: one is not in the fault's key.
 */
static bool project(struct faults *fs, const struct parent_index *x, const struct entry *e, struct slice *out)
{
    strbuf_reset(&fs->text);
    for (size_t c = 0; c < x->n_columns; c++) {
        size_t i = 0;
        while (i < e->f.n_key && !slice_eq_str(e->f.fields[i].name, x->columns[c]))
            i++;
        if (i == e->f.n_key)
            return false;
        strbuf_add_text(&fs->text, e->f.fields[i].value);
    }
    assert(!strbuf_failed(&fs->text));
    *out = strbuf_slice(&fs->text);
    return true;
}

static struct parent_node *node_of(struct faults *fs, const struct parent_index *x, const struct entry *e)
{
    struct slice values;
    return project(fs, x, e, &values) ? map_get(&x->by_values, values) : NULL;
}

static int hold(struct faults *fs, struct parent_index *x, const struct entry *e)
{
    struct slice values;
    if (!project(fs, x, e, &values))
        return 0;
    struct parent_node *node = map_get(&x->by_values, values);
    if (!node) {
        node = mem_try_alloc(sizeof *node + values.n);
        if (!node)
            return -ENOMEM;
        node->n = values.n;
        if (values.n)
            memcpy(node->values, values.p, values.n);
        if (map_put(&x->by_values, slice_of(node->values, node->n), node) < 0) {
            mem_free(node);
            return -ENOMEM;
        }
    }
    node->refs++;
    return 0;
}

static void release(struct faults *fs, struct parent_index *x, const struct entry *e)
{
    struct parent_node *node = node_of(fs, x, e);
    if (!node || --node->refs)
        return;
    map_remove(&x->by_values, slice_of(node->values, node->n));
    mem_free(node);
}

int parents_hold(struct faults *fs, struct entry *e)
{
    struct rule_state *r = rule_of(fs, e);
    for (struct parent_index *x = r->indices; x; x = x->next) {
        if (hold(fs, x, e) == 0)
            continue;
        for (struct parent_index *y = r->indices; y != x; y = y->next)
            release(fs, y, e);
        return -ENOMEM;
    }
    return 0;
}

void parents_release(struct faults *fs, struct entry *e)
{
    assert(e->activity == ACTIVITY_NONE);
    for (struct parent_index *x = rule_of(fs, e)->indices; x; x = x->next)
        release(fs, x, e);
}

static void move(const struct faults *fs, struct activity_counts *c, enum activity from, enum activity to)
{
    c->v[from] -= from != ACTIVITY_NONE;
    c->v[to] += to != ACTIVITY_NONE;
    if (from == ACTIVITY_FIRES && !c->v[from]) {
        c->ended_seq = fs->seq;
        c->ended_ns = fs->now_ns;
    }
}

void parents_set_activity(struct faults *fs, struct entry *e, enum activity to)
{
    struct rule_state *r = rule_of(fs, e);
    if (e->activity == to)
        return;
    for (struct parent_index *x = r->indices; x; x = x->next) {
        struct parent_node *node = node_of(fs, x, e);
        move(fs, node ? &node->counts : &x->any, e->activity, to);
        move(fs, &x->all, e->activity, to);
    }
    e->activity = (uint8_t)to;
    r->has_moved = true;
}

/* The counts of those that match the fault, in one or two parts. */
static size_t matching(struct faults *fs, struct parent_index *x, const struct entry *e,
                       struct activity_counts *out[2])
{
    struct slice values;
    if (!project(fs, x, e, &values)) { /* what they have in common is nothing: all match */
        out[0] = &x->all;
        return 1;
    }
    struct parent_node *node = map_get(&x->by_values, values);
    out[0] = &x->any;
    out[1] = node ? &node->counts : NULL;
    return node ? 2 : 1;
}

/* ---------------------------------------------------------------- children */

bool parents_hide(struct faults *fs, const struct entry *e)
{
    const struct rule_state *r = rule_of(fs, e);
    for (size_t i = 0; i < r->n_ancestors; i++) {
        struct activity_counts *parts[2];
        size_t n = r->ancestors[i]->all.v[ACTIVITY_FIRES] ? matching(fs, r->ancestors[i], e, parts) : 0;
        for (size_t p = 0; p < n; p++)
            if (parts[p]->v[ACTIVITY_FIRES])
                return true;
    }
    return false;
}

/* Is this part of an ancestor's faults known? One that ended while the fault was there must be behind its
 * last sight: as it was with its parent, is it still without? *since_ns becomes when that was, if it is
 * later. */
static bool is_part_known(struct activity_counts *part, const struct entry *e, int64_t now_ns,
                          int64_t *since_ns)
{
    if (part->ended_seq <= e->parents_seq)
        return !part->v[ACTIVITY_PENDS];
    if (part->ended_ns > now_ns) /* the clock has gone back */
        part->ended_ns = now_ns;
    *since_ns = part->ended_ns > *since_ns ? part->ended_ns : *since_ns;
    return !part->v[ACTIVITY_PENDS] && e->present_seq > part->ended_seq;
}

int64_t parents_wait(struct faults *fs, const struct entry *e, int64_t now_ns)
{
    const struct rule_state *r = rule_of(fs, e);
    int64_t since_ns = e->waits_ns, until_ns;
    bool is_known = true;
    for (size_t i = 0; i < r->n_ancestors; i++) {
        struct parent_index *x = r->ancestors[i];
        struct activity_counts *parts[2];
        is_known &= fs->rules[x->rule].evaluated_seq > e->parents_seq;
        for (size_t n = matching(fs, x, e, parts); n > 0; n--)
            is_known &= is_part_known(parts[n - 1], e, now_ns, &since_ns);
    }
    if (is_known)
        return now_ns;
    return __builtin_add_overflow(since_ns, r->wait_max_ns, &until_ns) ? INT64_MAX : until_ns;
}

void parents_evaluated(struct faults *fs, struct rule_state *r)
{
    for (size_t i = 0; i < r->n_descendants; i++) {
        struct rule_state *child = &fs->rules[r->descendants[i]];
        if (child->entries.n && (r->has_moved || child->n_waiting))
            faults_dirty(fs, child);
    }
}

/* ---------------------------------------------------------------- invariants */

static void check_index(const struct parent_index *x, const struct rule_state *r)
{
    struct activity_counts sum = x->any, all = {0};
    void *v;
    size_t refs = 0;
    for (size_t at = 0; map_next(&x->by_values, &at, &v);) {
        const struct parent_node *node = v;
        refs += node->refs;
        assert(node->refs && node->counts.v[ACTIVITY_PENDS] + node->counts.v[ACTIVITY_FIRES] <= node->refs);
        for (size_t a = 0; a < 3; a++)
            sum.v[a] += node->counts.v[a];
    }
    for (const struct entry *e = r->entries.first; e; e = e->in_rule.next)
        all.v[e->activity] += e->activity != ACTIVITY_NONE;
    assert(refs <= r->entries.n && memcmp(sum.v, x->all.v, sizeof sum.v) == 0);
    assert(memcmp(all.v, x->all.v, sizeof all.v) == 0);
}

void parents_check(const struct faults *fs)
{
    for (size_t i = 0; i < fs->n_rules; i++)
        for (const struct parent_index *x = fs->rules[i].indices; x; x = x->next)
            check_index(x, &fs->rules[i]);
}
