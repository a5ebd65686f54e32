/* SPDX-License-Identifier: Apache-2.0 */
#include "client/activate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "client/handle.h"
#include "client/site.h"
#include "event/level.h"
#include "event/limits.h"
#include "net/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AGENT_MISSED = 3 };

struct rule {
    struct slice pattern;
    int level;
};

/* One allocation: struct, rules, text. */
struct rules {
    int level;             /* where no pattern matches */
    bool is_enabled;       /* false: all off, the handle has no destination yet */
    struct rules *retired; /* the next one waiting to be freed */
    size_t n;
    struct rule at[];
};

/* By handle slot. Readers hold `readers` up while they look; a replaced object may be freed when that is seen
 * at 0. */
static struct rules *_Atomic current[HANDLES];
static _Atomic unsigned readers;
static _Atomic uint64_t epoch;

static pthread_mutex_t change_lock = PTHREAD_MUTEX_INITIALIZER; /* one change at a time; guards `retired` */
static struct rules *retired;

void activate_fork_lock(void)
{
    (void)pthread_mutex_lock(&change_lock); /* a normal mutex: can't fail */
}
void activate_fork_unlock(void)
{
    (void)pthread_mutex_unlock(&change_lock);
}

uint64_t activate_epoch(void)
{
    return atomic_load(&epoch);
}

static bool rules_allow(const struct rules *r, int level, struct slice event)
{
    if (!r || !r->is_enabled)
        return false;
    for (size_t i = r->n; i-- > 0;)
        if (text_glob(r->at[i].pattern, event))
            return level <= r->at[i].level;
    return level <= r->level;
}

unsigned activate_bits(int level, struct slice event)
{
    unsigned bits = 0;
    atomic_fetch_add(&readers, 1);
    for (unsigned i = 1; i < HANDLES; i++)
        bits |= (unsigned)rules_allow(atomic_load(&current[i]), level, event) << i;
    atomic_fetch_sub(&readers, 1);
    return bits;
}

bool activate_is_on(const struct gridline *g, int level, struct slice event)
{
    atomic_fetch_add(&readers, 1);
    bool on = rules_allow(atomic_load(&current[g->slot]), level, event);
    atomic_fetch_sub(&readers, 1);
    return on;
}

/* Puts in new rules (NULL = none) and sets the sites' bits. The old ones are freed now if nobody reads, or
 * with a later change. The lock is held. */
static void put_rules(unsigned slot, struct rules *fresh)
{
    struct rules *old = atomic_exchange(&current[slot], fresh);
    atomic_fetch_add(&epoch, 1);
    site_update_all();
    if (old) {
        old->retired = retired;
        retired = old;
    }
    if (atomic_load(&readers) != 0)
        return;
    while (retired) {
        struct rules *next = retired->retired;
        mem_free(retired);
        retired = next;
    }
}

static struct rules *make_rules(int level, bool is_enabled, const struct rule *from, size_t n)
{
    size_t text = 0;
    for (size_t i = 0; i < n; i++)
        text += from[i].pattern.n;
    struct rules *r = mem_try_alloc(sizeof *r + n * sizeof *r->at + text);
    if (!r)
        return NULL;
    char *at = (char *)&r->at[n];
    r->level = level;
    r->is_enabled = is_enabled;
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, from[i].pattern.p, from[i].pattern.n);
        r->at[i] = (struct rule){{at, from[i].pattern.n}, from[i].level};
        at += from[i].pattern.n;
    }
    return r;
}

/* The handle's rules as they are, with changes. */
static int change(struct gridline *g, const int *level, const bool *is_enabled, const struct rule *list,
                  size_t n)
{
    const struct rules *old = atomic_load(&current[g->slot]);
    struct rules *fresh = make_rules(level ? *level : old->level, is_enabled ? *is_enabled : old->is_enabled,
                                     list ? list : old->at, list ? n : old->n);
    if (!fresh)
        return -ENOMEM;
    put_rules(g->slot, fresh);
    return 0;
}

int activate_open(struct gridline *g, int level)
{
    struct rules *fresh = make_rules(level, false, NULL, 0);
    if (!fresh)
        return -ENOMEM;
    activate_fork_lock();
    put_rules(g->slot, fresh);
    activate_fork_unlock();
    return 0;
}

void activate_close(struct gridline *g)
{
    activate_fork_lock();
    put_rules(g->slot, NULL);
    activate_fork_unlock();
}

int activate_enable(struct gridline *g)
{
    activate_fork_lock();
    int r = change(g, NULL, &(bool){true}, NULL, 0);
    activate_fork_unlock();
    return r;
}

static bool level_is_known(int level)
{
    return level >= LEVEL_OFF && level < LEVEL_COUNT;
}

void gridline_set_level(gridline *g, int level)
{
    if (!g)
        return;
    level = level < LEVEL_OFF ? LEVEL_OFF : level >= LEVEL_COUNT ? LEVEL_COUNT - 1 : level;
    activate_fork_lock();
    (void)change(g, &level, NULL, NULL, 0); /* without memory the old level stays, as gridline.h says */
    activate_fork_unlock();
}

/* All rules but one for the same pattern, and then the new one: the last match counts. */
static int append_rule(struct gridline *g, struct rule rule)
{
    const struct rules *old = atomic_load(&current[g->slot]);
    struct rule *list = mem_try_alloc((old->n + 1) * sizeof *list);
    size_t n = 0;
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < old->n; i++)
        if (!slice_eq(old->at[i].pattern, rule.pattern))
            list[n++] = old->at[i];
    list[n++] = rule;
    int r = n > RULES_MAX ? -ENOSPC : change(g, NULL, NULL, list, n);
    mem_free(list);
    return r;
}

int gridline_set_event_level(gridline *g, const char *pattern, int level)
{
    if (!g)
        return 0;
    if (!pattern || !*pattern || strlen(pattern) > EVENT_NAME_MAX || !level_is_known(level))
        return -EINVAL;
    activate_fork_lock();
    int r = append_rule(g, (struct rule){slice_str(pattern), level});
    activate_fork_unlock();
    return r;
}

static int replace_rules(struct gridline *g, const struct rule *list, size_t n)
{
    static const struct rule none;
    activate_fork_lock();
    int r = change(g, NULL, NULL, n ? list : &none, n);
    activate_fork_unlock();
    return r;
}

void activate_list(void *handle, struct slice list)
{
    struct gridline *g = handle;
    struct frame_activation a;
    struct slice rest = list;
    size_t n = 0;
    int more;
    while ((more = frame_next_activation(&rest, &a)) > 0 && n <= RULES_MAX)
        n++;
    struct rule *rules = more == 0 && n <= RULES_MAX ? mem_try_alloc((n ? n : 1) * sizeof *rules) : NULL;
    if (!rules)
        return;
    bool ok = true;
    for (size_t i = 0; i < n && frame_next_activation(&list, &a) > 0; i++) {
        rules[i] = (struct rule){a.pattern, a.level};
        ok = ok && a.pattern.n && level_is_known(a.level);
    }
    if (ok)
        (void)replace_rules(g, rules, n); /* without memory the old rules stay */
    mem_free(rules);
}

/* ---------------------------------------------------------------- the control file */

/* The next blank-separated word of *line, cut off it. */
static struct slice next_word(struct slice *line)
{
    size_t i = 0, k;
    while (i < line->n && strchr(" \t\r", line->p[i]))
        i++;
    for (k = i; k < line->n && !strchr(" \t\r", line->p[k]);)
        k++;
    struct slice word = slice_of(line->p + i, k - i);
    *line = slice_from(*line, k);
    return word;
}

static int parse_level(struct slice word, int *out)
{
    uint8_t level;
    int64_t number;
    if (slice_eq_nocase(word, SLICE_LIT("off"))) {
        *out = LEVEL_OFF;
        return 0;
    }
    if (level_parse(word, &level) == 0) {
        *out = level;
        return 0;
    }
    if (num_parse_int(word, &number) < 0 || number < LEVEL_OFF || number >= LEVEL_COUNT)
        return E_PROTO;
    *out = (int)number;
    return 0;
}

int activate_parse_level(const char *word, int *out)
{
    return parse_level(slice_str(word), out);
}

/* PATTERN LEVEL. NULL, or what is wrong; an empty line leaves rule->pattern.n 0. */
static const char *parse_line(struct slice line, struct rule *rule)
{
    rule->pattern = next_word(&line);
    if (rule->pattern.n == 0 || rule->pattern.p[0] == '#') {
        rule->pattern.n = 0;
        return NULL;
    }
    if (memchr(rule->pattern.p, 0, rule->pattern.n) || rule->pattern.n > EVENT_NAME_MAX)
        return "the pattern is longer than a name can be, or holds a NUL";
    struct slice level = next_word(&line), rest = next_word(&line);
    if (level.n == 0)
        return "no level behind the pattern";
    if (parse_level(level, &rule->level) < 0)
        return "not a level";
    return rest.n && rest.p[0] != '#' ? "more than a pattern and a level" : NULL;
}

/* The program hears of a bad control file as an event: nobody reads a return value here. */
static void complain(struct gridline *g, uint64_t line, const char *why)
{
    struct gridline_value v[] = {
        {.name = "path", .type = 't', .v.p = g->watch.read, .n = (size_t)-1},
        {.name = "line", .type = 'u', .v.u = line},
        {.name = "reason", .type = 't', .v.p = why, .n = (size_t)-1},
    };
    (void)gridline_write_values(g, 0, GRIDLINE_WARNING, "gridline.control", v,
                                3); /* a drop is counted there */
}

static void parse_control(struct gridline *g, struct slice text)
{
    struct rule *rules = mem_try_alloc(RULES_MAX * sizeof *rules);
    size_t n = 0;
    if (!rules)
        return;
    for (uint64_t line = 1; text.n; line++) {
        const char *end = memchr(text.p, '\n', text.n);
        struct slice one = end ? slice_of(text.p, (size_t)(end - text.p)) : text;
        text = slice_from(text, one.n + 1);
        struct rule rule;
        const char *wrong = parse_line(one, &rule);
        if (!wrong && rule.pattern.n && n == RULES_MAX)
            wrong = "too many patterns";
        if (wrong)
            complain(g, line, wrong);
        else if (rule.pattern.n)
            rules[n++] = rule;
    }
    if (replace_rules(g, rules, n) < 0)
        complain(g, 0, err_text(-ENOMEM));
    mem_free(rules);
}

static int read_whole(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int r = 0;
    for (;;) {
        char *to = strbuf_room(out, 4096);
        ssize_t n = to ? read(fd, to, 4096) : -1;
        if (!to || n < 0)
            r = to ? -errno : -ENOMEM;
        if (r == -EINTR) {
            r = 0;
            continue;
        }
        if (r < 0 || n == 0)
            break;
        strbuf_advance(out, (size_t)n);
        if (out->n > CONTROL_MAX) {
            r = -EFBIG;
            break;
        }
    }
    (void)close(fd); /* only read */
    return r;
}

static void read_control(struct gridline *g)
{
    struct strbuf text = {0};
    int r = read_whole(g->watch.read, &text);
    if (r < 0)
        complain(g, 0, err_text(r));
    else
        parse_control(g, strbuf_slice(&text));
    strbuf_fini(&text);
}

/* Is it a file, and one that may tell us? The agent's is found, not named by the program, so whose it is matters. */
static bool is_there(const struct watch *w, const char *path, struct stat *st)
{
    if (!path || stat(path, st) < 0 || !S_ISREG(st->st_mode))
        return false;
    return !w->is_agents || st->st_uid == 0 || st->st_uid == geteuid();
}

/* The file to look at; NULL: it is not there. */
static const char *find_file(const struct watch *w, struct stat *st)
{
    if (w->is_agents && is_there(w, ACTIVATION_FILE, st))
        return ACTIVATION_FILE;
    return is_there(w, w->path, st) ? w->path : NULL;
}

/* True when the file is not what it was; remembers what it is. */
static bool has_changed(struct watch *w)
{
    struct stat st;
    const char *file = find_file(w, &st);
    if (!file) {
        w->was_there = false; /* the last rules stay: a file being replaced is away for a moment */
        return false;
    }
    bool same = w->was_there && st.st_mtim.tv_sec == w->mtime.tv_sec &&
                st.st_mtim.tv_nsec == w->mtime.tv_nsec && st.st_size == w->size && st.st_ino == w->inode;
    w->was_there = true;
    w->missed = 0;
    w->read = file;
    w->mtime = st.st_mtim;
    w->size = st.st_size;
    w->inode = st.st_ino;
    return !same;
}

void activate_look(struct gridline *g, int64_t now_mono_ns)
{
    struct watch *w = &g->watch;
    if ((!w->path && !w->is_agents) || now_mono_ns < w->next_mono_ns)
        return;
    w->next_mono_ns = now_mono_ns + NS_PER_S;
    if (has_changed(w))
        read_control(g);
    /* The agent takes its file with it: what it wanted is over. */
    if (!w->was_there && w->is_agents && w->read && ++w->missed == AGENT_MISSED) {
        (void)replace_rules(g, NULL, 0); /* without memory they stay */
        w->read = NULL;
    }
}

void activate_follow_agent(struct gridline *g)
{
    const char *folder = secure_getenv("XDG_RUNTIME_DIR");
    struct strbuf path = {0};
    g->watch.is_agents = true;
    if (!folder || folder[0] != '/')
        return;
    strbuf_printf(&path, "%s/gridline/activate", folder);
    if (!strbuf_failed(&path))
        g->watch.path = path.p; /* mem_free's from now on */
    else
        strbuf_fini(&path);
}

void watch_fini(struct watch *w)
{
    mem_free(w->path);
    *w = (struct watch){0};
}

int gridline_watch(gridline *g, const char *path)
{
    if (!g)
        return 0;
    if (!path || !*path)
        return -EINVAL;
    size_t n = strlen(path) + 1;
    char *copy = mem_try_alloc(n);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, path, n);
    (void)pthread_mutex_lock(&g->lock);
    watch_fini(&g->watch);
    g->watch.path = copy;
    activate_look(g, clock_mono_ns());
    (void)pthread_mutex_unlock(&g->lock);
    return 0;
}
