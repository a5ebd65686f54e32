/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.c - see upkeep.h.
 *
 * What is known of each partition of raw rows is in memory: at which generation everything was done, and the
 * times at which its rows are to go. At start nothing is known, so each is looked at once: a merge that finds
 * nothing to do, and tiers whose marks say that they are complete. Tiers without raw rows do not change any
 * more.
 *
 * Rows older than what has gone are refused from then on (archive_set_floor): they would be the next to go,
 * and a new partition beside the tiers of the old one would hide these. */
#include "archive/upkeep.h"

#include "archive/archive_internal.h"
#include "archive/merge.h"
#include "archive/reserve.h"
#include "archive/retain.h"
#include "base/mem.h"

#include <errno.h>

#define S(n)     (INT64_C(1000000000) * (n))
#define LOOK_NS  S(30)  /* the folder is read so often */
#define AGAIN_NS S(600) /* late rows are added to tiers no more often */
#define RETRY_NS S(300) /* a partition that could not be worked on is left alone for so long */

/* What has been done of a closed partition: each stage when the one before is. */
enum stage {
    MERGE_RAW,
    MAKE_TIER,
    /* then MERGE_TIER, for each tier in turn */ ALL_DONE = MAKE_TIER + 2 * TIERS
};

struct raw {
    struct retain_file file;
    int64_t to_ns; /* 0: not looked at yet */
    uint64_t gen;  /* at which it was looked at last */
    int stage;
    bool is_closed;
    uint64_t tiered_gen;       /* at which its tiers were complete */
    bool is_hopeless;          /* they can't be made */
    int64_t first_ns, last_ns; /* when the first of its rows are to go, and the last */
    int64_t kept_ns;           /* some event name is kept until then, whatever its age; 0 = none is */
    int64_t again_ns;          /* not before */
    bool is_seen;              /* while the folder is read */
};

struct upkeep {
    struct archive *a;
    struct upkeep_options o;
    struct retain_rules rules;
    struct reserve *reserve;
    struct retain_files files;
    struct raw *raws; /* oldest first */
    size_t n_raws, max_raws;
    int64_t utc_ns, look_ns; /* now; when to read the folder again */
    int64_t floor_ns;        /* what has gone */
    uint64_t flushes;        /* of the archive, when the folder was read: it grows with them */
    int64_t tiers_from_ns; /* the newest partition of which only tiers are left; INT64_MIN = none was seen */
    /* The job at hand: */
    int64_t job_from_ns; /* the partition's */
    struct merge *merge;
    struct tier *tier;
    struct upkeep_counts counts;
};

/* ---------------------------------------------------------------- beginning and end */

static void set_defaults(struct upkeep_options *o)
{
    static const int64_t ages[TIERS] = {S(30 * 86400), S(180 * 86400), S(1830 * INT64_C(86400))};
    for (int i = 0; i < TIERS; i++)
        o->keep_tier_ns[i] = o->keep_tier_ns[i] ? o->keep_tier_ns[i] : ages[i];
    o->size_bytes = o->size_bytes ? o->size_bytes : UINT64_C(10) << 30;
    o->late_ns = o->late_ns ? o->late_ns : S(3600);
}

/* It counts as a part of what the archive may take: of a small one it is an eighth. */
static uint64_t reserve_bytes(uint64_t size_bytes)
{
    return size_bytes / 8 < RESERVE_BYTES ? size_bytes / 8 + 1 : RESERVE_BYTES;
}

/* What does not get to the disk now does with whatever is committed next. */
static void say_rules(struct upkeep *u, const char *keep)
{
    struct catalog *c = archive_catalog(u->a);
    struct slice text = slice_str(keep && *keep ? keep : "*=7d"); /* RETAIN_AGE_NS */
    if (!slice_eq(catalog_setting(c, SLICE_LIT(UPKEEP_KEEP_SETTING)), text) &&
        catalog_set_setting(c, SLICE_LIT(UPKEEP_KEEP_SETTING), text) == 0)
        (void)catalog_commit(c); /* above */
}

int upkeep_create(struct archive *a, const struct upkeep_options *o, struct upkeep **out, struct diag *why)
{
    struct upkeep *u = mem_try_alloc(sizeof *u);
    if (!u)
        return -ENOMEM;
    u->a = a;
    u->o = *o;
    u->floor_ns = u->tiers_from_ns = INT64_MIN;
    set_defaults(&u->o);
    int r = retain_rules_init(&u->rules, o->keep, why);
    if (r == 0)
        say_rules(u, o->keep);
    if (r == 0)
        r = reserve_open(archive_dir(a), reserve_bytes(u->o.size_bytes), &u->reserve, why);
    if (r < 0) {
        upkeep_destroy(u);
        return r;
    }
    retain_sweep(archive_dir(a));
    *out = u;
    return 0;
}

static void end_job(struct upkeep *u)
{
    if (u->merge) {
        struct merge_counts c = merge_counts(u->merge);
        u->counts.merges += c.commits;
        u->counts.doubled += c.doubled;
        u->counts.dropped += c.dropped;
    }
    if (u->tier)
        u->counts.damaged += tier_counts(u->tier).damaged;
    merge_destroy(u->merge);
    tier_destroy(u->tier);
    u->merge = NULL;
    u->tier = NULL;
}

void upkeep_destroy(struct upkeep *u)
{
    if (!u)
        return;
    end_job(u);
    reserve_close(u->reserve);
    retain_rules_fini(&u->rules);
    retain_files_fini(&u->files);
    mem_free(u->raws);
    mem_free(u);
}

struct upkeep_counts upkeep_counts(const struct upkeep *u)
{
    return u->counts;
}

/* ---------------------------------------------------------------- what there is */

static struct raw *find_raw(struct upkeep *u, int64_t from_ns)
{
    for (size_t i = 0; i < u->n_raws; i++)
        if (u->raws[i].file.from_ns == from_ns)
            return &u->raws[i];
    return NULL;
}

static const struct retain_file *find_file(const struct upkeep *u, int64_t from_ns, int64_t step_ns)
{
    for (size_t i = 0; i < u->files.n; i++)
        if (u->files.files[i].from_ns == from_ns && u->files.files[i].step_ns == step_ns)
            return &u->files.files[i];
    return NULL;
}

static int know_raw(struct upkeep *u, const struct retain_file *f)
{
    struct raw *known = find_raw(u, f->from_ns);
    if (!known) {
        if (u->n_raws == u->max_raws) {
            size_t max = u->max_raws ? u->max_raws * 2 : 16;
            struct raw *all = mem_try_resize(u->raws, max * sizeof *all);
            if (!all)
                return -ENOMEM;
            u->raws = all;
            u->max_raws = max;
        }
        size_t at = u->n_raws++;
        for (; at > 0 && u->raws[at - 1].file.from_ns > f->from_ns; at--)
            u->raws[at] = u->raws[at - 1];
        known = &u->raws[at];
        *known = (struct raw){.stage = ALL_DONE};
    }
    known->file = *f;
    known->is_seen = true;
    return 0;
}

static struct partition_span span_of(const struct raw *raw, int64_t step_ns)
{
    return (struct partition_span){raw->file.from_ns, raw->to_ns, step_ns};
}

/* Where a partition ends that is not open: as the file says, else as those do that are made now. */
static int64_t end_of(const struct upkeep *u, const struct retain_file *f)
{
    struct partition *p;
    struct diag why;
    int64_t to = f->from_ns + u->a->o.partition_ns;
    if (partition_open(archive_dir(u->a), f->name, 0, NULL, &p, &why) < 0)
        return to;
    to = partition_span(p)->to_ns;
    partition_close(p);
    return to;
}

/* Rows of partitions that have given way, or of which only tiers are left, are too late. What is too old for
 * its name by the rules is refused where it comes in (archiver_judge): here it was acknowledged, and goes
 * with its partition. */
static void raise_floor(struct upkeep *u)
{
    const struct retain_file *last = NULL;
    for (size_t i = 0; i < u->files.n; i++)
        if (u->files.files[i].step_ns && !find_raw(u, u->files.files[i].from_ns))
            last = &u->files.files[i]; /* the newest that has only tiers */
    if (last && last->from_ns != u->tiers_from_ns) {
        int64_t to = end_of(u, last);
        u->floor_ns = to > u->floor_ns ? to : u->floor_ns;
        u->tiers_from_ns = last->from_ns;
    }
    archive_set_floor(u->a, u->floor_ns);
}

static int look(struct upkeep *u)
{
    int r = retain_files_list(archive_dir(u->a), &u->files);
    size_t kept = 0;
    for (size_t i = 0; i < u->n_raws; i++)
        u->raws[i].is_seen = false;
    for (size_t i = 0; r == 0 && i < u->files.n; i++)
        if (u->files.files[i].step_ns == 0)
            r = know_raw(u, &u->files.files[i]);
    if (r < 0)
        return r;
    for (size_t i = 0; i < u->n_raws; i++)
        if (u->raws[i].is_seen)
            u->raws[kept++] = u->raws[i];
    u->n_raws = kept;
    u->counts.size_bytes = u->files.size_bytes;
    raise_floor(u);
    return 0;
}

static int64_t add_up(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* Rows go by the days (options.partition_ns) that they are of, also those of a partition that spans many. */
static int64_t day_begin(const struct upkeep *u, int64_t time_ns)
{
    int64_t width = u->a->o.partition_ns, rest = time_ns % width;
    return add_up(time_ns, rest < 0 ? -rest - width : -rest);
}

static int64_t gone_at(const struct upkeep *u, const struct partition *p, struct slice name, int64_t time_ns)
{
    int64_t at =
        add_up(add_up(day_begin(u, time_ns), u->a->o.partition_ns), retain_rules_age(&u->rules, name));
    int64_t kept = partition_kept_until(p, name);
    return kept > at ? kept : at;
}

struct seeing {
    const struct upkeep *u;
    const struct partition *p;
    struct raw *raw;
};

static bool see_section(void *arg, const struct partition_section *s)
{
    const struct seeing *see = arg;
    struct raw *raw = see->raw;
    int64_t first = gone_at(see->u, see->p, s->s.name, s->s.min_ns);
    int64_t last = gone_at(see->u, see->p, s->s.name, s->s.max_ns);
    int64_t kept = partition_kept_until(see->p, s->s.name);
    raw->first_ns = first < raw->first_ns ? first : raw->first_ns;
    raw->last_ns = last > raw->last_ns ? last : raw->last_ns;
    raw->kept_ns = kept > raw->kept_ns ? kept : raw->kept_ns;
    return true;
}

static bool is_kept(const struct upkeep *u, const struct raw *raw)
{
    return raw->kept_ns > u->utc_ns;
}

/* What has changed about the partition since it was looked at. */
static int inspect(struct upkeep *u, struct raw *raw)
{
    struct partition_span span = {raw->file.from_ns, raw->file.from_ns + u->a->o.partition_ns, 0};
    int r = 0;
    struct partition *p = archive_partition(u->a, &span, &r);
    if (!p)
        return r;
    raw->to_ns = partition_span(p)->to_ns;
    bool is_closed = raw->to_ns <= u->utc_ns - u->o.late_ns;
    uint64_t gen = partition_gen(p);
    if (gen == raw->gen && is_closed == raw->is_closed)
        return 0;
    struct seeing see = {u, p, raw};
    raw->first_ns = INT64_MAX;
    raw->last_ns = INT64_MIN;
    raw->kept_ns = 0;
    r = partition_sections(p, SLICE_LIT(""), INT64_MIN, INT64_MAX, see_section, &see);
    if (r < 0 ||
        raw->last_ns == INT64_MIN) /* nobody knows, or a crash has left it empty: nothing goes for that */
        raw->first_ns = raw->last_ns = add_up(raw->to_ns, retain_rules_longest(&u->rules));
    raw->gen = r < 0 ? 0 : gen;
    raw->is_closed = is_closed;
    raw->stage = MERGE_RAW;
    return r;
}

/* ---------------------------------------------------------------- jobs */

/* Before it rows of that name are past their age, in the partition of the job; when its tiers are complete.
 */
static int64_t floor_of(void *arg, struct slice name)
{
    struct upkeep *u = arg;
    struct raw *raw = find_raw(u, u->job_from_ns);
    if (!raw || !raw->is_closed || !(raw->is_hopeless || raw->tiered_gen == raw->gen))
        return INT64_MIN;
    struct partition_span span = span_of(raw, 0);
    int r = 0;
    const struct partition *p = archive_partition(u->a, &span, &r);
    if (!p || partition_kept_until(p, name) > u->utc_ns)
        return INT64_MIN;
    return day_begin(u, add_up(u->utc_ns, -retain_rules_age(&u->rules, name)));
}

/* All rows of that name in the partition of the job go. */
static bool drops(void *arg, struct slice name)
{
    struct upkeep *u = arg;
    const struct raw *raw = find_raw(u, u->job_from_ns);
    return raw && floor_of(u, name) >= raw->to_ns;
}

/* What a merge leaves out is remembered before it begins: a crash in between claims too much, not too little.
 */
static int note_drops(struct upkeep *u, const struct raw *raw)
{
    struct partition_span span = span_of(raw, 0);
    uint64_t rows = 0;
    int r = 0;
    if (u->utc_ns < raw->first_ns)
        return 0;
    struct partition *p = archive_partition(u->a, &span, &r);
    if (p)
        r = retain_note(u->a, p, &(struct retain_reason){GONE_AGE, u->utc_ns}, drops, u, &rows);
    if (r == 0 && rows) {
        r = catalog_commit(archive_catalog(u->a));
        archive_baselines_changed(u->a);
    }
    return r;
}

static int begin_merge(struct upkeep *u, const struct raw *raw, int64_t step_ns)
{
    struct partition_span span = span_of(raw, step_ns);
    uint64_t borders[TIERS];
    struct merge_options o = {.is_closed = raw->is_closed, .borders = borders};
    int r = 0;
    for (int i = 0; r == 0 && i < TIERS; i++) {
        struct partition_span tier = {span.from_ns, span.to_ns, tier_steps[i]};
        if (tier.step_ns > step_ns && find_file(u, span.from_ns, tier.step_ns))
            r = tier_mark(u->a, &tier, &borders[o.n_borders++]);
    }
    if (step_ns == 0) {
        o.floor = floor_of;
        o.arg = u;
        r = r < 0 ? r : note_drops(u, raw);
    }
    return r < 0 ? r : merge_create(u->a, &span, &o, &u->merge);
}

/* Of the stages MAKE_TIER and on: which tier, and of what it is made: the finest below that fits. */
static bool find_tier(const struct raw *raw, struct partition_span *from, int64_t *step_ns)
{
    *from = span_of(raw, 0);
    *step_ns = tier_steps[(raw->stage - MAKE_TIER) / 2];
    if (!tier_fits(from, *step_ns))
        return false;
    for (int i = 0; i < TIERS && tier_steps[i] < *step_ns; i++)
        if (tier_fits(from, tier_steps[i]))
            from->step_ns = tier_steps[i];
    return tier_fits(from, *step_ns);
}

/* Would that tier of rows that are kept go at once, if it had to stand for them? Then it is not made. */
static bool is_past_tier(const struct upkeep *u, const struct raw *raw, int64_t step_ns)
{
    for (int k = 0; k < TIERS; k++)
        if (tier_steps[k] == step_ns)
            return is_kept(u, raw) && raw->to_ns <= u->utc_ns - u->o.keep_tier_ns[k];
    return false;
}

/* Begins what the stage asks for. 1: there is a job; 0: nothing is to be done for it. */
static int begin_stage(struct upkeep *u, struct raw *raw)
{
    struct partition_span from;
    int64_t step_ns;
    u->job_from_ns = raw->file.from_ns;
    int r = 0;
    if (raw->stage == MERGE_RAW)
        r = begin_merge(u, raw, 0);
    else if (!find_tier(raw, &from, &step_ns) || is_past_tier(u, raw, step_ns))
        return 0;
    else if ((raw->stage - MAKE_TIER) % 2 == 0)
        r = tier_create(u->a, &from, step_ns, &u->tier);
    else if (find_file(u, raw->file.from_ns, step_ns))
        r = begin_merge(u, raw, step_ns);
    else
        return 0;
    return r < 0 ? r : 1;
}

static void next_stage(struct upkeep *u, struct raw *raw)
{
    raw->stage = raw->is_closed ? raw->stage + 1 : ALL_DONE;
    if (raw->stage >= ALL_DONE && raw->is_closed)
        raw->tiered_gen = raw->gen;
    if (raw->stage >= ALL_DONE)
        raw->again_ns = u->utc_ns + (raw->is_closed ? AGAIN_NS : 0);
}

/* The partition is left alone for a while; and if its tiers can't be made, it need not wait for them to go.
 */
static int put_off(struct upkeep *u, struct raw *raw, int r)
{
    raw->is_hopeless = raw->is_hopeless || raw->stage >= MAKE_TIER || r == E_DAMAGE;
    raw->stage = ALL_DONE;
    raw->gen = 0;
    raw->again_ns = u->utc_ns + RETRY_NS;
    return r;
}

static int step_job(struct upkeep *u)
{
    bool is_tier = u->tier;
    int r = is_tier ? tier_step(u->tier) : merge_step(u->merge);
    if (r > 0)
        return 1;
    uint64_t dropped = is_tier ? 0 : merge_counts(u->merge).dropped;
    bool is_made = is_tier && tier_counts(u->tier).chunks;
    u->counts.tiers += is_made;
    end_job(u);
    struct raw *raw = find_raw(u, u->job_from_ns);
    if (!raw)
        return 1;
    if (r < 0)
        return put_off(u, raw, r);
    if (is_made)
        u->look_ns = 0; /* its file is new */
    if (dropped)
        raw->gen = 0; /* other names, other ages */
    else
        next_stage(u, raw);
    return 1;
}

/* The next partition that something is to be done for. */
static int choose_job(struct upkeep *u)
{
    for (size_t i = 0; i < u->n_raws; i++) {
        struct raw *raw = &u->raws[i];
        if (raw->again_ns > u->utc_ns)
            continue;
        int r = raw->stage >= ALL_DONE ? inspect(u, raw) : 0;
        if (r == 0 && raw->stage >= ALL_DONE && raw->is_closed && u->utc_ns >= raw->first_ns &&
            u->utc_ns < raw->last_ns)
            raw->stage = MERGE_RAW; /* some of its rows go */
        while (r == 0 && raw->stage < ALL_DONE) {
            r = begin_stage(u, raw);
            if (r == 0)
                next_stage(u, raw);
        }
        if (r < 0)
            return put_off(u, raw, r);
        if (r > 0)
            return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- what goes */

static int take_away(struct upkeep *u, const struct retain_file *f, enum gone_why reason, const char *why)
{
    struct retain_file file = *f;
    int64_t to = end_of(u, &file);
    uint64_t rows = 0;
    int r = retain_remove(u->a, &file, &(struct retain_reason){reason, u->utc_ns}, &rows);
    u->look_ns = 0;
    if (r < 0)
        return r;
    u->counts.removed++;
    u->counts.removed_rows += rows;
    if (reason != GONE_AGE && file.step_ns == 0)
        archive_count_shed(u->a, rows);
    if (reason != GONE_AGE && file.step_ns == 0 && to > u->floor_ns)
        u->floor_ns = to; /* older rows would be the next to go */
    if (u->o.gone)
        u->o.gone(u->o.arg, file.name, rows, why);
    return 1;
}

/* Its tiers have all of it, or there can be none. What has come since it was looked at is worked on first. */
static bool may_go(struct upkeep *u, struct raw *raw)
{
    if (raw->is_hopeless)
        return true;
    if (inspect(u, raw) < 0 || raw->stage < ALL_DONE)
        raw->again_ns = 0;
    return raw->is_closed && raw->stage >= ALL_DONE && raw->tiered_gen == raw->gen;
}

static int drop_old_raw(struct upkeep *u)
{
    for (size_t i = 0; i < u->n_raws; i++) {
        struct raw *raw = &u->raws[i];
        if (raw->to_ns && raw->is_closed && u->utc_ns >= raw->last_ns && may_go(u, raw))
            return take_away(u, &raw->file, GONE_AGE, "its events are older than they are kept");
    }
    return 0;
}

static int drop_old_tier(struct upkeep *u)
{
    for (size_t i = 0; i < u->files.n; i++) {
        const struct retain_file *f = &u->files.files[i];
        for (int k = 0; k < TIERS; k++)
            if (f->step_ns == tier_steps[k] && !find_raw(u, f->from_ns) &&
                f->from_ns + u->a->o.partition_ns <= u->utc_ns - u->o.keep_tier_ns[k] &&
                end_of(u, f) <= u->utc_ns - u->o.keep_tier_ns[k])
                return take_away(u, f, GONE_AGE, "the tier is older than it is kept");
    }
    return 0;
}

/* The oldest partition of raw rows but the newest, and but those with rows that are kept; then tiers, the
 * finest first; NULL: there is none. One that is closed waits for its tiers, unless it can't wait. */
static const struct retain_file *find_least_needed(struct upkeep *u, bool can_wait)
{
    for (size_t i = 0; i + 1 < u->n_raws; i++) {
        struct raw *raw = &u->raws[i];
        if ((raw->to_ns == 0 && inspect(u, raw) < 0) || is_kept(u, raw))
            continue;
        bool is_ready = !can_wait || !raw->is_closed || may_go(u, raw);
        return is_ready ? &raw->file : NULL;
    }
    for (int k = 0; k < TIERS; k++)
        for (size_t i = 0; i < u->files.n; i++)
            if (u->files.files[i].step_ns == tier_steps[k])
                return &u->files.files[i];
    return NULL;
}

static int drop_for_size(struct upkeep *u)
{
    if (u->files.size_bytes <= u->o.size_bytes)
        return 0;
    const struct retain_file *f = find_least_needed(u, true);
    return f ? take_away(u, f, GONE_SIZE, "the archive is larger than it may be") : 0;
}

static int drop_something(struct upkeep *u)
{
    int r = drop_old_raw(u);
    if (r == 0)
        r = drop_old_tier(u);
    return r ? r : drop_for_size(u);
}

int upkeep_make_room(struct upkeep *u)
{
    end_job(u); /* it holds a transaction, or is about to write */
    if (reserve_release(u->reserve))
        return 1;
    if (look(u) < 0)
        return 0;
    const struct retain_file *f = find_least_needed(u, false);
    return f && take_away(u, f, GONE_FULL, "the disk is full") > 0;
}

/* ---------------------------------------------------------------- steps */

int upkeep_step(struct upkeep *u, int64_t utc_ns)
{
    int r = 0;
    u->utc_ns = utc_ns;
    if (u->merge || u->tier)
        return step_job(u);
    bool has_grown = u->a->counts.flushes != u->flushes;
    if (utc_ns >= u->look_ns || utc_ns < u->look_ns - LOOK_NS || has_grown) {
        u->look_ns = utc_ns + LOOK_NS;
        u->flushes = u->a->counts.flushes;
        r = look(u);
        (void)reserve_refill(u->reserve); /* no room: later */
    }
    if (r == 0)
        r = choose_job(u);
    return r ? r : drop_something(u);
}
