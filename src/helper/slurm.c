/* SPDX-License-Identifier: Apache-2.0 */
/* The sensor slurm: asks squeue and sinfo each period, and says what has changed.
 *
 * A job is known by Slurm's number of it. One that is first seen, or whose state is not the one we know, is
 * an event. Until slurmctld forgets an ended job (MinJobAge, 300 s by default) squeue lists it with its end
 * state, so that no end is missed as long as the period is shorter. States between two looks are not seen. A
 * job that is gone without an end is looked up in sacct, SACCT_TRIES times because slurmdbd may lag; then it
 * is GONE.
 *
 * Of an array, the tasks that wait are one job with the array's number; each that starts gets a number of its
 * own, but for the last, which keeps the array's. So a number's states are one story, the same that
 * slurmctld's log tells.
 *
 * Nothing is kept over a restart: the jobs' states do not fit a position, and a time would not do where
 * clocks differ. All jobs are then first seen again, which says nothing that was not so. A sample goes
 * through as a whole or not at all: if squeue or sinfo fails or prints what we can't read, nothing is sent
 * and nothing forgotten. */
#include "sensor/slurm.h"
#include "helper/helper.h"
#include "helper/slurm_json.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "event/limits.h"
#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

_Static_assert((int)SLURM_JOBS_MAX == (int)SLURM_JSON_ROWS_MAX, "what is read can be known");

enum {
    SACCT_TRIES = 3,
    SACCT_JOBS = 256,     /* a run of sacct: their numbers are arguments */
    PART_BYTES = 2 << 20, /* of events go to the agent at a time: it holds no more than REMOTE_HELD_MAX */
    EVENT_BYTES = 512     /* of an event without its texts, about */
};

/* What is kept of a job: what an event about it needs when Slurm has forgotten it. */
enum kept { KEPT_ID, KEPT_JOB, KEPT_STATE, KEPT_USER, KEPT_ACCOUNT, KEPT_PARTITION, KEPT_NAME, KEPT };
static const uint8_t kept_fields[KEPT] = {SLURM_JOB_ID,   SLURM_JOB_JOB,     SLURM_JOB_STATE,
                                          SLURM_JOB_USER, SLURM_JOB_ACCOUNT, SLURM_JOB_PARTITION,
                                          SLURM_JOB_NAME};

struct known {
    struct slice kept[KEPT]; /* in text */
    uint64_t round;          /* in which squeue listed it last */
    unsigned asked;          /* how often sacct was asked for its end */
    char text[];
};

struct slurm_partition {
    struct slurm_partition *next;
    struct value row[SLURM_QUEUE_FIELDS];
};

/* ---------------------------------------------------------------- states */

static const struct {
    const char *state;
    uint8_t level;
} ends[] = {
    {"BOOT_FAIL", LEVEL_ERROR},  {"CANCELLED", LEVEL_NOTICE},      {"COMPLETED", LEVEL_INFO},
    {"DEADLINE", LEVEL_WARNING}, {"FAILED", LEVEL_WARNING},        {"GONE", LEVEL_WARNING},
    {"NODE_FAIL", LEVEL_ERROR},  {"OUT_OF_MEMORY", LEVEL_WARNING}, {"PREEMPTED", LEVEL_NOTICE},
    {"REVOKED", LEVEL_NOTICE},   {"TIMEOUT", LEVEL_WARNING},
};

/* The level of an end; LEVEL_COUNT: it is no end. */
static uint8_t end_level(struct slice state)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (slice_eq_str(state, ends[i].state))
            return ends[i].level;
    return LEVEL_COUNT;
}

static bool is_end(struct slice state)
{
    return end_level(state) != LEVEL_COUNT;
}

/* ---------------------------------------------------------------- programs */

/* Waits until it has ended; all it prints goes to out. */
static int wait_child(struct child *c, struct strbuf *out, struct diag *why)
{
    bool is_running;
    do {
        struct pollfd fd = {.fd = child_wait_fd(c), .events = POLLIN};
        if (poll(&fd, 1, -1) < 0 && errno != EINTR)
            return diag_set(why, -errno, 0, "poll: %s", err_text(-errno));
        is_running = child_pump(c, clock_mono_ns());
        struct slice text = child_output(c);
        strbuf_add_slice(out, text);
        child_consume(c, text.n);
    } while (is_running && !strbuf_failed(out));
    if (strbuf_failed(out))
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    const struct child_end *end = child_end(c);
    return end->reason == CHILD_BY_ITSELF && end->code == 0 ? 0 : child_explain(c, why);
}

/* What the program prints, into out. until_ns is monotonic. */
static int run(const struct slurm *s, const char *const *argv, int64_t until_ns, struct strbuf *out,
               struct diag *why)
{
    struct child *c = NULL;
    int64_t now = clock_mono_ns();
    if (now >= until_ns)
        return diag_set(why, -ETIMEDOUT, 0, "%s: no time left: raise `timeout`", argv[0]);
    const struct child_options o = {.argv = argv, .max_run_ns = until_ns - now, .max_bytes = s->max_bytes};
    strbuf_reset(out);
    int r = child_start(&o, now, &c, why);
    if (r == 0)
        r = wait_child(c, out, why);
    child_destroy(c);
    return r;
}

static bool is_given(const char *option)
{
    return option && *option;
}

/* The value of "NAME    = value" in what scontrol prints. Empty: not there. */
static struct slice config_value(struct slice text, const char *name)
{
    while (text.n) {
        const char *lf = memchr(text.p, '\n', text.n);
        struct slice line = slice_of(text.p, lf ? (size_t)(lf - text.p) : text.n);
        const char *equals = line.n ? memchr(line.p, '=', line.n) : NULL;
        text = slice_from(text, line.n + (lf != NULL));
        if (!equals || !slice_starts(line, slice_str(name)))
            continue;
        struct slice value = slice_from(line, (size_t)(equals - line.p) + 1);
        while (value.n && value.p[0] == ' ')
            value = slice_from(value, 1);
        while (value.n && value.p[value.n - 1] == ' ')
            value.n--;
        return value;
    }
    return (struct slice){"", 0};
}

/* The target of all rows: once, and only when it is sure, so that it never changes. */
static int find_target(struct slurm *s, int64_t until_ns, struct diag *why)
{
    const char *const argv[] = {s->scontrol, "show", "config", NULL};
    struct strbuf text = {0};
    struct slice name;
    int r = 0;
    if (s->target.n)
        return 0;
    if (is_given(s->cluster)) {
        name = slice_str(s->cluster);
    } else {
        r = run(s, argv, until_ns, &text, why);
        name = config_value(strbuf_slice(&text), "ClusterName ");
    }
    if (r == 0 && (name.n == 0 || name.n > EVENT_ORIGIN_MAX || !text_is_utf8(name)))
        r = diag_set(why, E_PROTO, 0, "%s: prints no name of the cluster: set the option `cluster`",
                     s->scontrol);
    if (r == 0)
        strbuf_add_slice(&s->target, name);
    strbuf_fini(&text);
    return r < 0 || !strbuf_failed(&s->target) ? r : -ENOMEM;
}

/* ---------------------------------------------------------------- partitions */

static int partition_of(struct slurm *s, struct slice name, struct slurm_partition **out)
{
    struct slurm_partition *p = map_get(&s->partitions, name);
    if (!p) {
        if (s->partitions.n >= SLURM_PARTITIONS_MAX)
            return diag_set(s->why, E_LIMIT, 0, "more than %d partitions", SLURM_PARTITIONS_MAX);
        name = arena_copy(&s->arena, name);
        p = arena_alloc(&s->arena, sizeof *p);
        if (!p || !name.p || map_put(&s->partitions, name, p) < 0)
            return -ENOMEM;
        *p = (struct slurm_partition){.next = NULL};
        p->row[SLURM_QUEUE_TARGET] = value_text(strbuf_slice(&s->target));
        p->row[SLURM_QUEUE_PARTITION] = value_text(name);
        p->row[SLURM_QUEUE_PENDING] = p->row[SLURM_QUEUE_RUNNING] = value_uint(0);
        *s->last = p;
        s->last = &p->next;
    }
    *out = p;
    return 0;
}

/* What is missing adds nothing; a sum of nothing is missing. */
static void add(struct slurm_partition *p, enum slurm_queue_field field, struct value v)
{
    if (v.type == VALUE_UINT)
        p->row[field] = value_uint(p->row[field].u + v.u); /* at most 65536 numbers of 2^53 */
}

static bool has_word(struct slice words, const char *const *list, size_t n)
{
    while (words.n) {
        struct slice word = slurm_word(&words);
        for (size_t i = 0; i < n; i++)
            if (slice_eq_nocase(word, slice_str(list[i])))
                return true;
    }
    return false;
}

static uint64_t count_or(struct value v, uint64_t otherwise)
{
    return v.type == VALUE_UINT ? v.u : otherwise;
}

/* Nodes with one state, one or many, as counts for a partition. The idle CPUs of a node that takes no jobs
 * can't be had. */
static void count_nodes(const struct value *in, struct value *row)
{
    static const char *const busy[] = {"ALLOCATED", "MIXED", "COMPLETING"}, *const idle[] = {"IDLE"};
    static const char *const bad[] = {"DOWN", "DRAIN",   "DRAINED",       "ERROR",
                                      "FAIL", "FAILING", "NOT_RESPONDING"};
    struct slice states = value_slice(in[NODE_STATE]);
    uint64_t n = count_or(in[NODE_NODES], 1);
    bool is_busy = has_word(states, busy, 3), is_bad = has_word(states, bad, sizeof bad / sizeof *bad);
    bool is_idle = !is_busy && has_word(states, idle, 1);
    uint64_t allocated = count_or(in[NODE_NODES_ALLOCATED], is_busy ? n : 0);
    uint64_t free = count_or(in[NODE_NODES_IDLE], is_idle ? n : 0);
    row[SLURM_QUEUE_NODES] = value_uint(n);
    row[SLURM_QUEUE_NODES_ALLOCATED] = value_uint(allocated);
    row[SLURM_QUEUE_NODES_IDLE] = value_uint(is_bad ? 0 : free);
    row[SLURM_QUEUE_NODES_DOWN] = value_uint(is_bad && n > allocated ? n - allocated : 0);
    row[SLURM_QUEUE_CPUS] = in[NODE_CPUS];
    row[SLURM_QUEUE_CPUS_ALLOCATED] = in[NODE_CPUS_ALLOCATED];
    row[SLURM_QUEUE_CPUS_IDLE] =
        is_bad && in[NODE_CPUS_IDLE].type == VALUE_UINT ? value_uint(0) : in[NODE_CPUS_IDLE];
    if (in[NODE_CPUS].type == VALUE_UINT && in[NODE_CPUS_ALLOCATED].type == VALUE_UINT &&
        in[NODE_CPUS_IDLE].type == VALUE_UINT) {
        uint64_t used = in[NODE_CPUS_ALLOCATED].u + row[SLURM_QUEUE_CPUS_IDLE].u;
        row[SLURM_QUEUE_CPUS_OTHER] = value_uint(in[NODE_CPUS].u > used ? in[NODE_CPUS].u - used : 0);
    }
}

static int take_node(void *arg, const struct value *in)
{
    struct slurm *s = arg;
    struct value row[SLURM_QUEUE_FIELDS] = {0};
    struct slice names = value_slice(in[NODE_PARTITIONS]);
    count_nodes(in, row);
    while (names.n) {
        struct slurm_partition *p;
        int r = partition_of(s, slurm_word(&names), &p);
        if (r < 0)
            return r;
        for (enum slurm_queue_field i = SLURM_QUEUE_CPUS; i < SLURM_QUEUE_FIELDS; i++)
            add(p, i, row[i]);
    }
    return 0;
}

static int count_job(struct slurm *s, struct slice state, struct slice names)
{
    bool is_pending = slice_eq_str(state, "PENDING");
    if (!is_pending && !slice_eq_str(state, "RUNNING"))
        return 0;
    while (names.n) {
        struct slurm_partition *p;
        int r = partition_of(s, slurm_word(&names), &p);
        if (r < 0)
            return r;
        add(p, is_pending ? SLURM_QUEUE_PENDING : SLURM_QUEUE_RUNNING, value_uint(1));
    }
    return 0;
}

/* ---------------------------------------------------------------- jobs */

/* Room for the texts that are made of numbers: "4294967295_4294967295", at most 2 * 16 digits here. */
struct job_names {
    char id[NUM_TEXT_MAX], job[2 * NUM_TEXT_MAX];
};

/* Only what is so now: Slurm also has times that it expects, and codes of jobs that run. */
static void fill_job(const struct slurm *s, const struct value *in, struct job_names *names,
                     struct value *row)
{
    struct slice words = value_slice(in[JOB_STATE]);
    struct slice state = slurm_word(&words);
    size_t id_n = num_print_uint(names->id, in[JOB_ID].u), n;
    row[SLURM_JOB_TARGET] = value_text(strbuf_slice(&s->target));
    row[SLURM_JOB_ID] = row[SLURM_JOB_JOB] = value_text(slice_of(names->id, id_n));
    if (in[JOB_ARRAY].type == VALUE_UINT && in[JOB_ARRAY].u && in[JOB_TASK].type == VALUE_UINT) {
        n = num_print_uint(names->job, in[JOB_ARRAY].u);
        names->job[n++] = '_';
        n += num_print_uint(names->job + n, in[JOB_TASK].u);
        row[SLURM_JOB_JOB] = value_text(slice_of(names->job, n));
    }
    row[SLURM_JOB_STATE] = value_text(state);
    row[SLURM_JOB_USER] = in[JOB_USER];
    row[SLURM_JOB_ACCOUNT] = in[JOB_ACCOUNT];
    row[SLURM_JOB_PARTITION] = in[JOB_PARTITION];
    row[SLURM_JOB_NAME] = in[JOB_NAME];
    row[SLURM_JOB_NODES] = in[JOB_NODES];
    row[SLURM_JOB_NODE_COUNT] = in[JOB_NODE_COUNT];
    row[SLURM_JOB_CPUS] = in[JOB_CPUS];
    row[SLURM_JOB_SUBMIT] = in[JOB_SUBMIT];
    row[SLURM_JOB_REASON] = in[JOB_REASON];
    if (!slice_eq_str(state, "PENDING"))
        row[SLURM_JOB_START] = in[JOB_START];
    if (!is_end(state))
        return;
    row[SLURM_JOB_END] = in[JOB_END];
    row[SLURM_JOB_EXIT] = in[JOB_EXIT];
    row[SLURM_JOB_SIGNAL] = in[JOB_SIGNAL];
    if (in[JOB_WAIT_STATUS].type == VALUE_UINT) {
        row[SLURM_JOB_EXIT] = value_uint(in[JOB_WAIT_STATUS].u >> 8 & 0xff);
        row[SLURM_JOB_SIGNAL] = value_uint(in[JOB_WAIT_STATUS].u & 0x7f);
    }
}

static struct known *known_create(const struct slurm *s, const struct value *row)
{
    size_t n = 0;
    for (size_t i = 0; i < KEPT; i++)
        n += row[kept_fields[i]].type == VALUE_TEXT ? row[kept_fields[i]].n : 0;
    struct known *k = mem_try_alloc(sizeof *k + n);
    char *to = k ? k->text : NULL;
    for (size_t i = 0; k && i < KEPT; i++) {
        struct value v = row[kept_fields[i]];
        k->kept[i] = slice_of(to, v.type == VALUE_TEXT ? v.n : 0);
        if (k->kept[i].n)
            memcpy(to, v.p, k->kept[i].n);
        to += k->kept[i].n;
    }
    if (k)
        k->round = s->round;
    return k;
}

/* Lets what was sent so far go out by itself. The position is not used, but it is what ends a part. */
static void end_part(struct slurm *s, const struct value *row)
{
    s->part_bytes += EVENT_BYTES;
    for (size_t i = 0; i < SLURM_JOB_FIELDS; i++)
        s->part_bytes += row[i].type == VALUE_TEXT ? row[i].n : 0;
    if (s->part_bytes < PART_BYTES)
        return;
    sensor_mark(s->out, SLICE_LIT("-"));
    s->part_bytes = 0;
}

static void emit(struct slurm *s, const struct known *old, struct value *row)
{
    if (old)
        row[SLURM_JOB_PREVIOUS] = value_text(old->kept[KEPT_STATE]);
    s->has_sent = true;
    sensor_row_at(s->out, SLURM_JOB, s->out->time_ns, end_level(value_slice(row[SLURM_JOB_STATE])), row);
    end_part(s, row);
}

static int take_job(void *arg, const struct value *in)
{
    struct slurm *s = arg;
    struct job_names names;
    struct value row[SLURM_JOB_FIELDS] = {0};
    fill_job(s, in, &names, row);
    struct slice id = value_slice(row[SLURM_JOB_ID]), state = value_slice(row[SLURM_JOB_STATE]);
    struct known *old = map_get(&s->jobs, id);
    int r = count_job(s, state, value_slice(in[JOB_PARTITION]));
    if (r < 0)
        return r;
    if (old && slice_eq(old->kept[KEPT_STATE], state)) {
        old->round = s->round;
        old->asked = 0;
        return 0;
    }
    struct known *k = known_create(s, row);
    if (!k || map_put(&s->jobs, k->kept[KEPT_ID], k) < 0) {
        mem_free(k);
        return -ENOMEM;
    }
    emit(s, old, row);
    mem_free(old);
    return 0;
}

/* ---------------------------------------------------------------- jobs that squeue no more lists */

static void forget(struct slurm *s, struct known *k)
{
    (void)map_remove(&s->jobs, k->kept[KEPT_ID]); /* k itself */
    mem_free(k);
}

static int take_ended(void *arg, const struct value *in)
{
    struct slurm *s = arg;
    struct job_names names;
    struct value row[SLURM_JOB_FIELDS] = {0};
    fill_job(s, in, &names, row);
    struct known *k = map_get(&s->jobs, value_slice(row[SLURM_JOB_ID]));
    if (!k || k->round == s->round || !is_end(value_slice(row[SLURM_JOB_STATE])))
        return 0; /* sacct gives a whole array for one of its tasks; or slurmdbd lags */
    emit(s, k, row);
    forget(s, k);
    return 0;
}

static void emit_gone(struct slurm *s, const struct known *k, const char *reason)
{
    struct value row[SLURM_JOB_FIELDS] = {0};
    for (size_t i = 0; i < KEPT; i++)
        if (k->kept[i].n)
            row[kept_fields[i]] = value_text(k->kept[i]);
    row[SLURM_JOB_TARGET] = value_text(strbuf_slice(&s->target));
    row[SLURM_JOB_STATE] = value_text(SLICE_LIT("GONE"));
    if (*reason)
        row[SLURM_JOB_REASON] = value_text(slice_str(reason));
    emit(s, k, row);
}

/* Asks sacct for the jobs and takes those that it says have ended. Its failing fails no sample: accounting
 * may be off, and the reason goes out with the jobs. */
static void ask_sacct(struct slurm *s, struct known *const *jobs, size_t n, int64_t until_ns,
                      struct diag *why)
{
    struct strbuf list = {0}, text = {0};
    strbuf_add_str(&list, "--jobs=");
    for (size_t i = 0; i < n; i++) {
        strbuf_add_str(&list, i ? "," : "");
        strbuf_add_slice(&list, jobs[i]->kept[KEPT_ID]);
    }
    const char *const argv[] = {s->sacct, "--json", "--allusers", list.p, NULL};
    int r = strbuf_failed(&list) ? -ENOMEM : run(s, argv, until_ns, &text, why);
    if (r == 0)
        r = slurm_json_read(&slurm_jobs, strbuf_slice(&text), take_ended, s, why);
    if (r < 0 && !why->message[0])
        (void)diag_set(why, r, 0, "%s: %s", s->sacct, err_text(r)); /* said with the jobs */
    strbuf_fini(&list);
    strbuf_fini(&text);
}

static int by_id(const void *a, const void *b)
{
    const struct known *x = *(struct known *const *)a, *y = *(struct known *const *)b;
    struct slice p = x->kept[KEPT_ID], q = y->kept[KEPT_ID];
    return p.n != q.n ? (p.n < q.n ? -1 : 1) : memcmp(p.p, q.p, p.n);
}

/* Those that squeue does not list, ordered by number, in *out (of the arena). Those that have ended are
 * simply forgotten. */
static int find_missing(struct slurm *s, struct known ***out, size_t *n)
{
    struct known **v = arena_alloc(&s->arena, (s->jobs.n ? s->jobs.n : 1) * sizeof(struct known *));
    size_t all = 0, kept = 0;
    void *job;
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; map_next(&s->jobs, &i, &job);)
        if (((struct known *)job)->round != s->round)
            v[all++] = job;
    for (size_t i = 0; i < all; i++) {
        if (is_end(v[i]->kept[KEPT_STATE]))
            forget(s, v[i]);
        else
            v[kept++] = v[i];
    }
    if (kept)
        qsort(v, kept, sizeof *v, by_id);
    *out = v;
    *n = kept;
    return 0;
}

static int settle_missing(struct slurm *s, int64_t until_ns)
{
    struct known **v;
    size_t n;
    bool has_sacct = is_given(s->sacct);
    struct diag why = {0};
    int r = find_missing(s, &v, &n);
    if (r < 0 || n == 0)
        return r;
    if (has_sacct && n > SACCT_JOBS)
        n = SACCT_JOBS; /* the others with the next sample */
    for (size_t i = 0; i < n; i++)
        v[i]->asked++;
    if (has_sacct)
        ask_sacct(s, v, n, until_ns, &why);
    r = find_missing(s, &v, &n); /* without those whose end is known now */
    for (size_t i = 0; r == 0 && i < n; i++) {
        bool can_wait = s->jobs.n <= SLURM_JOBS_MAX;
        if (can_wait && (v[i]->asked == 0 || (has_sacct && v[i]->asked < SACCT_TRIES)))
            continue;
        emit_gone(s, v[i], why.message);
        forget(s, v[i]);
    }
    return r;
}

static void forget_all(struct slurm *s)
{
    void *job;
    for (size_t i = 0; map_next(&s->jobs, &i, &job);)
        mem_free(job);
    map_fini(&s->jobs);
    s->jobs = (struct map){0};
}

/* ---------------------------------------------------------------- the sensor */

int slurm_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct slurm *s = state;
    (void)env; /* no files */
    if (!is_given(s->squeue))
        return diag_set(why, -EINVAL, 0, "slurm.squeue: a program is needed");
    if (!is_given(s->scontrol) && !is_given(s->cluster))
        return diag_set(why, -EINVAL, 0, "slurm: one of `cluster` and `scontrol` is needed");
    if (s->timeout_ns <= 0 || s->max_bytes == 0)
        return diag_set(why, -EINVAL, 0, "slurm: `timeout` and `max_bytes` are more than 0");
    return 0;
}

static int take_answer(struct slurm *s, const char *program, const struct slurm_form *form, struct slice text,
                       slurm_row_fn fn)
{
    struct diag why = {0};
    s->why = &why;
    int r = slurm_json_read(form, text, fn, s, &why);
    if (r < 0)
        (void)diag_set(s->out->why, r, 0, "%s --json: %s", program,
                       why.message[0] ? why.message : err_text(r)); /* r it is */
    return r;
}

/* What both programs say, taken only when both said it. */
static int take_answers(struct slurm *s, struct slice jobs, struct slice nodes)
{
    int r = is_given(s->sinfo) ? take_answer(s, s->sinfo, &slurm_nodes, nodes, take_node) : 0;
    if (r == 0)
        r = take_answer(s, s->squeue, &slurm_jobs, jobs, take_job);
    if (r < 0)
        return r;
    for (struct slurm_partition *p = s->first; p; p = p->next)
        sensor_row(s->out, SLURM_QUEUE, p->row);
    return 0;
}

int slurm_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct slurm *s = state;
    const char *const squeue[] = {s->squeue, "--json", "--all", "--states=all", NULL};
    const char *const sinfo[] = {s->sinfo, "--json", "--all", NULL};
    int64_t until_ns = clock_mono_ns() + s->timeout_ns;
    struct strbuf jobs = {0}, nodes = {0};
    if (!env_is_live(env))
        return diag_set(out->why, E_NODATA, 0, "a captured tree has no Slurm");
    s->out = out;
    s->first = NULL;
    s->last = &s->first;
    s->has_sent = false;
    s->part_bytes = 0;
    s->round++;
    int r = find_target(s, until_ns, out->why);
    if (r == 0 && is_given(s->sinfo))
        r = run(s, sinfo, until_ns, &nodes, out->why);
    if (r == 0)
        r = run(s, squeue, until_ns, &jobs, out->why);
    if (r == 0)
        r = take_answers(s, strbuf_slice(&jobs), strbuf_slice(&nodes));
    if (r == 0)
        r = settle_missing(s, until_ns);
    if (r < 0 && s->has_sent)
        forget_all(s); /* a sample that failed half-way: rather all again than some not at all */
    strbuf_fini(&jobs);
    strbuf_fini(&nodes);
    map_fini(&s->partitions);
    s->partitions = (struct map){0};
    arena_reset(&s->arena);
    return r;
}

void slurm_close(void *state)
{
    struct slurm *s = state;
    forget_all(s);
    map_fini(&s->partitions);
    arena_fini(&s->arena);
    strbuf_fini(&s->target);
}

const struct helper_ops helper_slurm = {
    .name = "slurm",
    .open = slurm_open,
    .sample = slurm_sample,
    .close = slurm_close,
};
