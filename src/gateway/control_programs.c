/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/control_programs.h"

#include "base/err.h"
#include "base/mem.h"
#include "event/level.h"
#include "net/frame.h"

#include <errno.h>

enum { LEVEL_OFF = -1 };

struct activations {
    struct strbuf list;
    char host[]; /* the map's key */
};

static void destroy(struct activations *a)
{
    strbuf_fini(&a->list);
    mem_free(a);
}

void programs_fini(struct programs *p)
{
    void *v;
    for (size_t i = 0; map_next(&p->hosts, &i, &v);)
        destroy(v);
    map_fini(&p->hosts);
}

static struct activations *find_or_make(struct programs *p, struct slice host)
{
    struct activations *a = map_get(&p->hosts, host);
    if (a)
        return a;
    a = mem_try_alloc(sizeof *a + host.n + 1);
    if (!a)
        return NULL;
    memcpy(a->host, host.p, host.n);
    if (map_put(&p->hosts, slice_of(a->host, host.n), a) < 0) {
        mem_free(a);
        return NULL;
    }
    return a;
}

static int parse_level(struct slice word, int8_t *level, bool *is_default)
{
    uint8_t named = 0;
    *is_default = slice_eq_str(word, "default");
    *level = LEVEL_OFF;
    if (*is_default || slice_eq_str(word, "off"))
        return 0;
    int r = level_parse(word, &named);
    *level = (int8_t)named;
    return r;
}

bool programs_is_level(struct slice word)
{
    int8_t level;
    bool is_default;
    return parse_level(word, &level, &is_default) == 0;
}

static void add(struct strbuf *list, struct slice pattern, int8_t level)
{
    strbuf_add_text(list, pattern);
    strbuf_add_char(list, (char)level);
}

int programs_set(struct programs *p, struct slice host, struct slice pattern, struct slice level,
                 struct slice *list)
{
    struct activations *a = find_or_make(p, host);
    struct strbuf new = {0};
    struct slice rest = a ? strbuf_slice(&a->list) : (struct slice){"", 0};
    struct frame_activation one;
    size_t n = 0;
    int8_t number;
    bool is_default;
    int r = parse_level(level, &number, &is_default);
    while (frame_next_activation(&rest, &one) > 0) {
        if (slice_eq(one.pattern, pattern))
            continue;
        add(&new, one.pattern, one.level);
        n++;
    }
    if (!is_default)
        add(&new, pattern, number);
    if (r == 0)
        r = !a || strbuf_failed(&new) ? -ENOMEM : n + !is_default > PROGRAMS_PATTERNS_MAX ? E_LIMIT : 0;
    if (r < 0) {
        strbuf_fini(&new);
        return r;
    }
    strbuf_fini(&a->list);
    a->list = new;
    *list = strbuf_slice(&a->list);
    return 0;
}
