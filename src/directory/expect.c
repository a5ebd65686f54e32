/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be there. An expectation without sensors is the sensor "*": any will do. */
#include "base/mem.h"
#include "base/text.h"
#include "directory/internal.h"

#include <errno.h>

static struct slice next_word(struct slice *text)
{
    size_t from = 0, n = 0;
    while (from < text->n && (text->p[from] == ' ' || text->p[from] == '\t'))
        from++;
    *text = slice_from(*text, from);
    while (n < text->n && text->p[n] != ' ' && text->p[n] != '\t')
        n++;
    struct slice word = slice_of(text->p, n);
    *text = slice_from(*text, n);
    return word;
}

static bool has_pattern(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr("*?[\\", s.p[i]))
            return true;
    return false;
}

static bool is_meant(const struct expectation *x, const struct host *h)
{
    return x->is_pattern ? text_glob(name_slice(x->host), name_slice(h->name)) : x->host == h->name;
}

static bool is_there(const struct host *h, const struct name *sensor)
{
    bool is_any = slice_eq(name_slice(sensor), SLICE_LIT("*"));
    for (const struct entry *e = h->first; e; e = e->next)
        if (e->kind != ENTRY_EXPECTED && (is_any || e->sensor == sensor))
            return true;
    return false;
}

static void add(struct directory *d, struct host *h, struct name *sensor)
{
    for (const struct entry *e = h->first; e; e = e->next)
        if (e->kind == ENTRY_EXPECTED && e->sensor == sensor)
            return;
    struct entry *e = directory_entry_add(d, h, sensor, ENTRY_EXPECTED);
    if (!e) {
        d->counts.refused_sensors++;
        return;
    }
    e->is_expected = true;
    directory_tell_added(d, h, e);
}

static void mark(struct host *h, const struct name *sensor)
{
    for (struct entry *e = h->first; e; e = e->next)
        e->is_expected = e->is_expected || e->sensor == sensor;
}

void expect_settle(struct directory *d, struct host *h)
{
    for (struct entry *next, *e = h->first; e; e = next) {
        next = e->next;
        if (e->kind == ENTRY_EXPECTED && is_there(h, e->sensor))
            directory_entry_remove(d, h, e);
    }
    for (size_t i = 0; i < d->n_expected; i++) {
        const struct expectation *x = &d->expected[i];
        for (size_t k = 0; is_meant(x, h) && k < x->n; k++)
            if (is_there(h, x->sensors[k]))
                mark(h, x->sensors[k]);
            else
                add(d, h, x->sensors[k]);
    }
}

static void expectation_fini(struct directory *d, struct expectation *x)
{
    for (size_t i = 0; i < x->n; i++)
        names_unref(&d->names, x->sensors[i]);
    mem_free(x->sensors);
    names_unref(&d->names, x->host);
}

void expect_fini(struct directory *d)
{
    for (size_t i = 0; i < d->n_expected; i++)
        expectation_fini(d, &d->expected[i]);
    mem_free(d->expected);
}

static int add_sensor(struct directory *d, struct expectation *x, struct slice word)
{
    struct name **sensors = mem_try_resize(x->sensors, (x->n + 1) * sizeof *sensors);
    if (!sensors)
        return -ENOMEM;
    x->sensors = sensors;
    x->sensors[x->n] = names_get(&d->names, word);
    if (!x->sensors[x->n])
        return -ENOMEM;
    x->n++;
    return 0;
}

static int parse(struct directory *d, struct slice text, struct expectation *x, struct diag *why)
{
    struct slice word = next_word(&text);
    if (word.n == 0 || word.n > EVENT_ORIGIN_MAX)
        return diag_set(why, E_PROTO, 0, "write HOST [SENSOR ...], as in \"node1 cpu memory\"");
    x->is_pattern = has_pattern(word);
    x->host = names_get(&d->names, word);
    int r = x->host ? 0 : -ENOMEM;
    while (r == 0 && (word = next_word(&text)).n) {
        if (word.n > DIRECTORY_NAME_MAX || has_pattern(word))
            return diag_set(why, E_PROTO, 0, "\"%.*s\" is not the name of a sensor",
                            word.n > 80 ? 80 : (int)word.n, word.p);
        r = add_sensor(d, x, word);
    }
    if (r == 0 && x->n == 0)
        r = add_sensor(d, x, SLICE_LIT("*"));
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

static int reserve(struct directory *d)
{
    if (d->n_expected < d->cap_expected)
        return 0;
    size_t cap = d->cap_expected ? d->cap_expected * 2 : 16;
    struct expectation *expected = mem_try_resize(d->expected, cap * sizeof *expected);
    if (!expected)
        return -ENOMEM;
    d->expected = expected;
    d->cap_expected = cap;
    return 0;
}

int directory_expect(struct directory *d, struct slice text, struct diag *why)
{
    struct expectation x = {0};
    struct host *h;
    if (d->n_expected == DIRECTORY_EXPECT_MAX)
        return diag_set(why, E_LIMIT, 0, "more than %d are expected", DIRECTORY_EXPECT_MAX);
    int r = parse(d, text, &x, why);
    if (r < 0) {
        expectation_fini(d, &x);
        return r;
    }
    r = reserve(d);
    if (r == 0 && !x.is_pattern) {
        r = directory_host_make(d, name_slice(x.host), 0, &h);
        if (r == 0)
            h->is_expected = true;
    }
    if (r < 0) {
        expectation_fini(d, &x);
        return diag_set(why, r, 0, "%s", err_text(r));
    }
    d->expected[d->n_expected++] = x;
    for (size_t i = 0; i < d->n_places; i++)
        if (d->hosts[i] && is_meant(&x, d->hosts[i]))
            expect_settle(d, d->hosts[i]);
    return 0;
}
