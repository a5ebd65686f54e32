/* SPDX-License-Identifier: Apache-2.0 */
/* Records of faults (first byte even) and of silences. What is read back must be written as it was, and the
 * set that has it must hold together while it is evaluated, told, ended and forgotten. */
#include "base/clock.h"
#include "guard/faults.h"

#include <stdlib.h>

static const char *const key[] = {"host", "mount"};
static const struct action_config actions[] = {{.name = "operators"}};
static const unsigned on_clear[] = {0}, parent_rules[] = {0};
static const char *const parents[] = {"host-down"}, *const quiet[] = {"22:00-06:00 utc"};
static const struct rule_config rules[] = {
    {.name = "host-down",
     .query = "q",
     .clear_query = "",
     .summary = "",
     .key = {key, 1},
     .is_enabled = true},
    {.name = "disk-full",
     .query = "q",
     .clear_query = "c",
     .summary = "",
     .key = {key, 2},
     .policy = {.for_ns = NS_PER_S, .clear_for_ns = NS_PER_S, .hold_down_ns = NS_PER_S},
     .parents = {parents, 1},
     .parent_rules = parent_rules,
     .quiet = {quiet, 1},
     .on_clear = {on_clear, 1},
     .repeat_ns = NS_PER_S,
     .escalate_ns = NS_PER_S,
     .is_enabled = true},
    {.name = "load", .query = "q", .clear_query = "", .summary = ""}, /* not enabled */
};
static const struct guard_config config = {
    .rules = rules, .n_rules = 3, .actions = actions, .n_actions = 1, .faults_max = 100};
static struct strbuf out, twice; /* reused: the cost would be in malloc */

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void hear(void *arg, const struct notice *n)
{
    size_t *told = arg;
    check(n->kind != NOTICE_CLEAR || n->episode > 0);
    (*told)++;
}

/* Numbers can be written longer than need be: what counts is that it is the same from then on. */
static int same_fault(void *arg, const struct fault *f)
{
    struct faults *other = arg;
    fault_pack(f, &config, &out);
    check(faults_restore_fault(other, strbuf_slice(&out)) == 0);
    fault_pack(faults_find(other, f->id), &config, &twice);
    check(slice_eq(strbuf_slice(&out), strbuf_slice(&twice)));
    return 0;
}

static int silence_again(void *arg, const struct silence *s)
{
    silence_pack(s, arg);
    return 0;
}

static int same_silence(void *arg, const struct silence *s)
{
    struct faults *other = arg;
    silence_pack(s, &out);
    check(faults_restore_silence(other, strbuf_slice(&out)) == 0);
    (void)faults_silences(other, silence_again, &twice);
    check(slice_eq(strbuf_slice(&out), strbuf_slice(&twice)));
    return 0;
}

/* A few evaluations of everything, nothing seen; then the set is as empty as it can be. */
static void live_on(struct faults *f)
{
    size_t told = 0;
    int64_t now = 1800000000 * NS_PER_S;
    faults_restored(f, now);
    for (int i = 0; i < 4; i++, now += 2 * NS_PER_S) {
        for (unsigned rule = 0; rule < 3; rule++) {
            faults_begin(f, rule, now);
            faults_end(f, i == 1);
        }
        check(faults_notices(f, now, 1000, hear, &told) < 1000);
        check(faults_next(f, now) > now);
        faults_check(f);
    }
    faults_forget(f, now, 0);
    faults_check(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct faults_calls calls = {0};
    struct faults *f = NULL, *other = NULL;
    if (size == 0)
        return 0;
    check(faults_create(&config, &calls, &f) == 0 && faults_create(&config, &calls, &other) == 0);
    struct slice record = {(const char *)data + 1, size - 1};
    bool is_fault = data[0] % 2 == 0;
    strbuf_reset(&out);
    strbuf_reset(&twice);
    if ((is_fault ? faults_restore_fault : faults_restore_silence)(f, record) == 0) {
        if (is_fault)
            (void)faults_each(f, same_fault, other);
        else
            (void)faults_silences(f, same_silence, other);
        check(out.n > 0);
        live_on(f);
    }
    faults_destroy(f);
    faults_destroy(other);
    return 0;
}
