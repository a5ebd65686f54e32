/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of values that only the guard has. */
#include "guard/config_internal.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/text.h"
#include "event/limits.h"
#include "guard/quiet.h"

#include <errno.h>

enum { RATE_COUNT_MAX = 100000 }; /* each start is remembered for as long as it counts */
#define RATE_MAX_NS           (INT64_C(366) * 86400 * NS_PER_S)
#define member(v, base, type) (*(type *)(void *)((char *)(base) + (v)->key->offset))

/* All enums here are those of their words, in order. */
static int store_enum(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    unsigned place;
    (void)n; /* one, as it is no list */
    int r = config_word_place(v, texts[0], &place);
    if (r == 0 && base)
        member(v, base, unsigned) = place;
    return r;
}
_Static_assert(sizeof(enum severity) == sizeof(unsigned) && sizeof(enum no_data) == sizeof(unsigned) &&
                   sizeof(enum rule_place) == sizeof(unsigned) &&
                   sizeof(enum after_crash) == sizeof(unsigned),
               "store_enum writes an unsigned");

static int store_host(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice t = slice_str(texts[0]);
    (void)n; /* one, as it is no list */
    if (t.n > EVENT_ORIGIN_MAX || text_has_control(t) || strpbrk(t.p, " /"))
        return config_refuse(v, "\"%.80s\" is not the name of a host; it has at most %d bytes and no blanks",
                             t.p, EVENT_ORIGIN_MAX);
    if (base)
        member(v, base, const char *) = t.p;
    return 0;
}

static bool is_address(struct slice t)
{
    bool has_kind = slice_starts(t, SLICE_LIT("unix:/")) || slice_starts(t, SLICE_LIT("tcp://")) ||
                    slice_starts(t, SLICE_LIT("tls://"));
    return has_kind && t.n > 6 && !text_has_control(t) && !memchr(t.p, ' ', t.n) && !memchr(t.p, ',', t.n);
}

static int store_addresses(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice word;
    for (size_t i = 0; i < n; i++)
        for (struct slice rest = slice_str(texts[i]); rest.n && config_next_word(&rest, ',', &word);)
            if (!is_address(word))
                return config_refuse(
                    v, "\"%.*s\" is not an address; write unix:/PATH, tcp://HOST:PORT or tls://HOST:PORT",
                    word.n > 80 ? 80 : (int)word.n, word.p);
    return base ? config_store_joined(v, texts, n, ',', &member(v, base, const char *)) : 0;
}

static int store_socket(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice t = slice_str(texts[0]);
    (void)n; /* one, as it is no list */
    if (t.n && !(slice_starts(t, SLICE_LIT("unix:/")) && is_address(t)))
        return config_refuse(v, "\"%.80s\" is not a socket of this host; write unix:/PATH", t.p);
    if (base)
        member(v, base, const char *) = t.p;
    return 0;
}

/* ---------------------------------------------------------------- lists */

static int store_texts(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    if (base)
        member(v, base, struct config_texts) = (struct config_texts){texts, n};
    return 0;
}

static int store_columns(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    if (n > RULE_KEY_MAX)
        return config_refuse(v, "a fault is told apart by at most %d columns", RULE_KEY_MAX);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++)
            if (!*texts[i] || (k < i && strcmp(texts[i], texts[k]) == 0))
                return config_refuse(v, "\"%.80s\" is %s", texts[i],
                                     *texts[i] ? "there twice" : "no column's name");
    return store_texts(v, texts, n, base);
}

static int store_quiet(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct diag why = {0};
    struct quiet quiet;
    for (size_t i = 0; i < n; i++)
        if (quiet_parse(slice_str(texts[i]), &quiet, &why) < 0)
            return config_refuse(v, "\"%.60s\": %s", texts[i], why.message);
    return store_texts(v, texts, n, base);
}

/* "10/1h" */
static int store_rate(const struct config_value *v, const char *const *texts, size_t n, void *base)
{
    struct slice t = slice_str(texts[0]), count, time = t;
    struct action_config *a = base;
    uint64_t number;
    int64_t ns;
    (void)n; /* one, as it is no list */
    if (!config_next_word(&time, '/', &count) || num_parse_uint(count, &number) < 0 || number < 1 ||
        num_parse_duration(time, &ns) < 0 || ns <= 0)
        return config_refuse(v, "\"%.40s\" is not a rate; write how many runs in what time: 10/1h", t.p);
    if (number > RATE_COUNT_MAX || ns > RATE_MAX_NS)
        return config_refuse(v, "\"%.40s\" is too much for a rate: at most %d runs, in at most 366d", t.p,
                             RATE_COUNT_MAX);
    if (a) {
        a->rate_count = (uint32_t)number;
        a->rate_ns = ns;
    }
    return 0;
}

const struct config_own guard_own_severity = {"word", false, store_enum};
const struct config_own guard_own_no_data = {"word", false, store_enum};
const struct config_own guard_own_place = {"word", false, store_enum};
const struct config_own guard_own_crash = {"word", false, store_enum};
const struct config_own guard_own_host = {"text", false, store_host};
const struct config_own guard_own_addresses = {"list of addresses", true, store_addresses};
const struct config_own guard_own_socket = {"address", false, store_socket};
const struct config_own guard_own_texts = {"list", true, store_texts};
const struct config_own guard_own_columns = {"list of columns", true, store_columns};
const struct config_own guard_own_quiet = {"list of times", true, store_quiet};
const struct config_own guard_own_rate = {"rate", false, store_rate};
