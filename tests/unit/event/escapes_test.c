/* SPDX-License-Identifier: Apache-2.0 */
/* Backslashes in quoted values: the two dialects, how a file shows which it has, and that what we write is read back whichever
 * is meant. */
#include "unit/event/codec.h"

#include "event/encodings.h"

static struct registry *registry;

static int setup(void **state)
{
    (void)state;
    registry = registry_create();
    return registry ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    registry_destroy(registry);
    return 0;
}

static enum escapes vote(struct slice text, size_t cut)
{
    struct escapes_votes v = {0};
    escapes_vote(&v, slice_of(text.p, cut));
    escapes_vote(&v, slice_from(text, cut));
    return escapes_result(&v);
}

static void test_votes(void **state)
{
    static const struct {
        const char *text;
        enum escapes want;
    } cases[] = {
        {"a=\"one\\ntwo\"\n", ESCAPES_C},
        {"a=\"no \\\"escape\\\" \\\\ of either\"\n", ESCAPES_PLAIN},
        {"a=\"C:\\temp\\new\"\n", ESCAPES_PLAIN},                        /* a drive */
        {"a=\"\\\\server\\temp\"\n", ESCAPES_PLAIN},                     /* a share */
        {"a=\"C:\\\\temp\\nat C:\\\\new\\n\"\n", ESCAPES_C},             /* backslashes are doubled */
        {"a=\"temp\\new\\Users\"\n", ESCAPES_PLAIN},                     /* \U is nobody's escape */
        {"a=\"\\d+\\t\"\nb=\"\\w\"\nc=\"x\\ny\"\n", ESCAPES_PLAIN},      /* two of three */
        {"a=\"\\d\"\nb=\"x\\ny\" c=\"x\\ny\"\n", ESCAPES_C},
        {"a=\"\\b\\f\"\n", ESCAPES_PLAIN},                               /* no votes */
        {"a=x\\ny b=\"\"\n", ESCAPES_PLAIN},                             /* bare: no escapes at all */
        {"a=\"never closed\\n\nb=\"\\d\"\n", ESCAPES_PLAIN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slice text = slice_str(cases[i].text);
        for (size_t cut = 0; cut <= text.n; cut++)
            if (vote(text, cut) != cases[i].want)
                fail_msg("case %zu, cut at %zu: %s", i, cut, cases[i].text);
    }
}

static struct batch *decode(const struct encoding *enc, enum escapes escapes, escapes_look look, void *arg, const char *text)
{
    struct batch_builder *builder = batch_builder_create(registry, BUILDER_KEEP_RAW);
    struct decoder *d;
    struct diag why;
    size_t used;
    assert_int_equal(decoder_create(enc, &d), 0);
    decoder_set_escapes(d, escapes, look, arg);
    assert_int_equal(decoder_run(d, slice_str(text), true, builder, &used, &why), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    return b;
}

static void assert_msg(const struct batch *b, size_t i, const char *want)
{
    struct value v = event_get(&b->events[i], SLICE_LIT("m"));
    assert_int_equal(v.type, VALUE_TEXT);
    assert_int_equal(v.n, strlen(want));
    assert_memory_equal(v.p, want, v.n);
}

static void test_dialects(void **state)
{
    static const char line[] = "ts=2026-11-15T21:20:28Z event=e m=\"a\\nb\\tc\\rd \\\"q\\\" C:\\\\x \\q\"\n";
    struct batch *b = decode(&encoding_bp, ESCAPES_C, NULL, NULL, line);
    (void)state;
    assert_msg(b, 0, "a\nb\tc\rd \"q\" C:\\x \\q");
    assert_int_equal(b->raw[0].n, 0); /* the line means something else to others */
    batch_unref(b);
    b = decode(&encoding_bp, ESCAPES_PLAIN, NULL, NULL, line);
    assert_msg(b, 0, "a\\nb\\tc\\rd \"q\" C:\\x \\q");
    assert_int_equal(b->raw[0].n, sizeof line - 2);
    batch_unref(b);
}

static bool look_c(void *arg, struct escapes_votes *out)
{
    ++*(int *)arg;
    out->c = 1;
    return true;
}

/* What was decided holds to the end; the whole file, where it can be looked at, decides, and once. */
static void test_auto(void **state)
{
    static const char lines[] = "DATE=20261115212028 m=\"plain\"\nDATE=20261115212028 m=\"x\\ny\"\n"
                                "DATE=20261115212028 m=\"C:\\temp\"\nDATE=20261115212028 m=\"\\d\"\n";
    int looks = 0;
    struct batch *b = decode(&encoding_ulm, ESCAPES_AUTO, NULL, NULL, lines);
    (void)state;
    assert_msg(b, 1, "x\\ny");
    assert_msg(b, 2, "C:\\temp");
    batch_unref(b);
    b = decode(&encoding_ulm, ESCAPES_AUTO, look_c, &looks, lines);
    assert_msg(b, 1, "x\ny");
    assert_msg(b, 2, "C:\temp");
    assert_msg(b, 3, "\\d");
    assert_int_equal(looks, 1);
    batch_unref(b);
}

/* Our own lines have no backslash that the dialects read differently. */
static void test_own(void **state)
{
    static const char *const texts[] = {"C:\\temp\\new", "a\nb", "\\n", "\\\\n", "\"\\t\"", "\\", "x\\", "\\\"n", "%e:\\n"};
    static const enum escapes all[] = {ESCAPES_AUTO, ESCAPES_PLAIN, ESCAPES_C};
    static const struct encoding *const encodings[] = {&encoding_ulm, &encoding_bp};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct batch_builder *builder = batch_builder_create(registry, 0);
        struct event_head head = {.time_ns = 1, .name = SLICE_LIT("e"), .host = SLICE_LIT(""), .prog = SLICE_LIT("")};
        struct named_value v = {SLICE_LIT("m"), value_text(slice_str(texts[i]))};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
        struct batch *b = batch_builder_finish(builder, NULL);
        for (size_t k = 0; k < 6; k++) {
            struct strbuf out = {0};
            codec_encode(encodings[k % 2], b, &out);
            struct batch *back = decode(encodings[k % 2], all[k / 2], NULL, NULL, out.p);
            assert_msg(back, 0, texts[i]);
            batch_unref(back);
            strbuf_fini(&out);
        }
        batch_unref(b);
        batch_builder_destroy(builder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
