/* SPDX-License-Identifier: Apache-2.0 */
/* The table, and the contract of decoder_run and encoder_run, on a made-up encoding and on lines. */
#include "unit/event/codec.h"

#include "base/err.h"
#include "base/mem.h"
#include "event/encodings.h"

#include <errno.h>

static void test_table(void **state)
{
    (void)state;
    static const char *const names[] = {"ulm", "bp", "ndjson", "xml", "csv", "binary"};
    size_t n = 0;
    for (; encoding_at(n); n++) {
        const struct encoding *enc = encoding_at(n);
        assert_ptr_equal(encoding_by_name(slice_str(enc->name)), enc);
        assert_ptr_equal(encoding_by_suffix(slice_str(enc->suffix)), enc);
        assert_non_null(enc->mime);
        assert_non_null(enc->summary);
        assert_non_null(enc->encoder);
        assert_true(enc->decoder || enc == &encoding_csv);
    }
    assert_int_equal(n, sizeof names / sizeof *names);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(encoding_by_name(slice_str(names[i]))->name, names[i]);
}

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(encoding_by_name(SLICE_LIT("ULM")), &encoding_ulm);
    assert_ptr_equal(encoding_by_name(SLICE_LIT("json")), &encoding_ndjson);
    assert_ptr_equal(encoding_by_name(SLICE_LIT("JSONL")), &encoding_ndjson);
    assert_null(encoding_by_name(SLICE_LIT("")));
    assert_null(encoding_by_name(SLICE_LIT("ul")));
    assert_ptr_equal(encoding_by_suffix(SLICE_LIT("/var/log/a.bp.ulm")), &encoding_ulm);
    assert_ptr_equal(encoding_by_suffix(SLICE_LIT("x.JSON")), &encoding_ndjson);
    assert_null(encoding_by_suffix(SLICE_LIT("ulm")));
    assert_null(encoding_by_suffix(SLICE_LIT("a.")));
    assert_null(encoding_by_suffix(SLICE_LIT("")));
    assert_null(encoding_detect(SLICE_LIT("")));
    assert_null(encoding_detect(SLICE_LIT("no format of ours")));
    assert_ptr_equal(encoding_detect(SLICE_LIT("DATE=20261115212028 A=1")), &encoding_ulm);
    assert_ptr_equal(encoding_detect(SLICE_LIT("ts=1 event=e")), &encoding_bp);
    struct decoder *d;
    assert_int_equal(decoder_create(&encoding_csv, &d), -ENOTSUP);
    decoder_destroy(NULL);
    encoder_destroy(NULL);
}

/* An encoding whose units are single bytes and say what happens. */
struct toy {
    uint64_t zero;
};

static int toy_init_result, toy_finis;

static int toy_init(void *state)
{
    const struct toy *t = state;
    assert_int_equal(t->zero, 0);
    return toy_init_result;
}

static void toy_fini(void *state)
{
    (void)state;
    toy_finis++;
}

static int toy_step(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                    struct diag *why)
{
    (void)state;
    struct event_head head = {.name = SLICE_LIT("e"), .level = LEVEL_INFO};
    *used = 1;
    switch (data.p[0]) {
    case 'e':
        return batch_builder_add(out, &head, NULL, 0, why);
    case 'b':
        return diag_set(why, E_PROTO, 7, "bad");
    case 'm':
        return -ENOMEM;
    case 'f':
        *used = 0;
        return DECODE_FULL;
    case '2': /* a unit of two bytes */
        *used = data.n >= 2 ? 2 : at_end;
        return data.n < 2 && at_end ? E_PROTO : 0;
    default:
        return 0; /* a unit without an event */
    }
}

static void toy_begin(void *state, struct strbuf *out)
{
    (void)state;
    strbuf_add_char(out, '<');
}

static int toy_run(void *state, const struct batch *b, struct strbuf *out)
{
    (void)state;
    for (size_t i = 0; i < b->n; i++)
        strbuf_add_char(out, 'e');
    return 0;
}

static void toy_end(void *state, struct strbuf *out)
{
    (void)state;
    strbuf_add_char(out, '>');
}

static const struct decoder_ops toy_decoder = {
    .state_size = sizeof(struct toy), .init = toy_init, .fini = toy_fini, .step = toy_step};
static const struct encoder_ops toy_encoder = {sizeof(struct toy), toy_init, toy_fini,
                                               toy_begin,          toy_run,  toy_end};
static const struct encoding toy = {.name = "toy", .decoder = &toy_decoder, .encoder = &toy_encoder};

static void test_failed_init(void **state)
{
    (void)state;
    struct decoder *d = NULL;
    struct encoder *e = NULL;
    toy_init_result = -EIO;
    toy_finis = 0;
    assert_int_equal(decoder_create(&toy, &d), -EIO);
    assert_int_equal(encoder_create(&toy, &e), -EIO);
    assert_null(d);
    assert_null(e);
    assert_int_equal(toy_finis, 2);
    toy_init_result = 0;
    mem_fail_after(1);
    assert_int_equal(decoder_create(&toy, &d), -ENOMEM);
    mem_fail_after(1);
    assert_int_equal(encoder_create(&toy, &e), -ENOMEM);
    assert_null(d);
    assert_null(e);
}

static void test_decoder_contract(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        bool at_end;
        size_t max_events;
        int result;
        size_t used, events;
    } cases[] = {
        {"", true, 9, 0, 0, 0},
        {"eee", false, 9, 0, 3, 3},
        {"e.e", false, 9, 0, 3, 2},
        {"eeee", false, 2, DECODE_FULL, 2, 2},
        {"ee", false, 2, 0, 2, 2}, /* nothing left: not told that it is full */
        {"e2xe2", false, 9, 0, 4, 2},
        {"e2", true, 9, E_PROTO, 2, 1},
        {"eebee", false, 9, E_PROTO, 3, 2},
        {"eemee", false, 9, -ENOMEM, 2, 2},
        {"eefee", false, 9, DECODE_FULL, 2, 2},
    };
    struct registry *registry = registry_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct batch_builder *builder = batch_builder_create(registry, 0);
        struct decoder *d;
        struct diag why = {.line = 99, .col = 99};
        size_t used = 99;
        batch_builder_limit(builder, cases[i].max_events, SIZE_MAX);
        assert_int_equal(decoder_create(&toy, &d), 0);
        assert_int_equal(decoder_run(d, slice_str(cases[i].data), cases[i].at_end, builder, &used, &why),
                         cases[i].result);
        assert_int_equal(used, cases[i].used);
        assert_int_equal(batch_builder_count(builder), cases[i].events);
        assert_int_equal(why.line, 0);
        decoder_destroy(d);
        batch_builder_destroy(builder);
    }
    registry_destroy(registry);
}

static void test_encoder_contract(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    struct batch *b = codec_decode(&toy, registry, SLICE_LIT("eee"));
    struct encoder *e;
    struct strbuf out = {0};
    assert_int_equal(encoder_create(&toy, &e), 0);
    assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_end(e, &out), 0);
    assert_string_equal(out.p, "<eeeeee>");
    encoder_destroy(e);
    strbuf_reset(&out); /* no events: a head all the same */
    assert_int_equal(encoder_create(&toy, &e), 0);
    assert_int_equal(encoder_end(e, &out), 0);
    assert_string_equal(out.p, "<>");
    encoder_destroy(e);
    strbuf_fini(&out);
    assert_int_equal(encoder_create(&toy, &e), 0);
    mem_fail_after(1);
    assert_int_equal(encoder_run(e, b, &out), -ENOMEM);
    mem_fail_after(0);
    encoder_destroy(e);
    strbuf_fini(&out);
    batch_unref(b);
    registry_destroy(registry);
}

/* Feeds text in pieces of n bytes, as a reader with a growing buffer would; gives the lines of the errors. */
static struct batch *feed(struct registry *registry, struct slice text, size_t n, uint64_t *bad,
                          size_t *n_bad)
{
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct strbuf held = {0};
    struct decoder *d;
    size_t given = 0;
    bool at_end = false;
    *n_bad = 0;
    assert_int_equal(decoder_create(&encoding_ulm, &d), 0);
    while (!at_end) {
        size_t piece = text.n - given < n ? text.n - given : n;
        strbuf_add(&held, text.p + given, piece);
        given += piece;
        at_end = given == text.n;
        assert_true(held.n <= EVENT_LINE_MAX + 2 + n); /* what a reader must hold is bounded */
        for (int r = -1; r < 0;) {
            struct diag why;
            size_t used;
            r = decoder_run(d, strbuf_slice(&held), at_end, builder, &used, &why);
            if (r < 0) {
                assert_true(used > 0 && *n_bad < 8);
                bad[(*n_bad)++] = why.line;
            }
            strbuf_consume(&held, used);
        }
    }
    assert_int_equal(held.n, 0);
    strbuf_fini(&held);
    struct batch *b = batch_builder_finish(builder, NULL);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    return b;
}

#define LINE(ends) "DATE=20261115212028 A=1" ends

static void test_lines_in_pieces(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    struct slice text = SLICE_LIT(LINE("\n") "\n\r\n" LINE("\r\n") "bad\n" LINE("  \n") " \t\n" LINE("\r"));
    for (size_t n = 1; n <= text.n; n++) {
        uint64_t bad[8];
        size_t n_bad;
        struct batch *b = feed(registry, text, n, bad, &n_bad);
        assert_int_equal(b->n, 4);
        assert_int_equal(n_bad, 1);
        assert_int_equal(bad[0], 5);
        batch_unref(b);
    }
    registry_destroy(registry);
}

/* DATE=… M="xxx…" of exactly n bytes without its end; not an event if n is large, but well formed. */
static void add_long_line(struct strbuf *out, size_t n)
{
    size_t start = out->n;
    strbuf_add_str(out, "DATE=20261115212028");
    while (out->n - start < n)
        strbuf_add_char(out, ' ');
}

static void test_long_lines(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    static const char *const ends[] = {"\n", "\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct strbuf text = {0};
        strbuf_add_str(&text, LINE("\n"));
        add_long_line(&text, EVENT_LINE_MAX); /* as long as allowed */
        strbuf_add_str(&text, ends[i]);
        add_long_line(&text, EVENT_LINE_MAX + 1);
        strbuf_add_str(&text, ends[i]);
        strbuf_add_str(&text, LINE("\n"));
        add_long_line(&text, 3 * (size_t)EVENT_LINE_MAX);
        strbuf_add_str(&text, ends[i]);
        strbuf_add_str(&text, LINE("\nbad\n"));
        add_long_line(&text, EVENT_LINE_MAX + 5); /* ended by the input */
        const size_t pieces[] = {text.n, 65536, 1000003};
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            uint64_t bad[8];
            size_t n_bad;
            struct batch *b = feed(registry, strbuf_slice(&text), pieces[k], bad, &n_bad);
            assert_int_equal(b->n, 4);
            assert_int_equal(n_bad, 4);
            assert_int_equal(bad[0], 3);
            assert_int_equal(bad[1], 5);
            assert_int_equal(bad[2], 7);
            assert_int_equal(bad[3], 8);
            batch_unref(b);
        }
        strbuf_fini(&text);
    }
    registry_destroy(registry);
}

/* A line given again after -ENOMEM keeps its number. */
static void test_line_numbers_without_memory(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct decoder *d;
    struct diag why;
    size_t used;
    struct slice text = SLICE_LIT(LINE("\n") "bad\n");
    assert_int_equal(decoder_create(&encoding_ulm, &d), 0);
    mem_fail_after(1);
    assert_int_equal(decoder_run(d, text, true, builder, &used, &why), -ENOMEM);
    mem_fail_after(0);
    assert_int_equal(used, 0);
    assert_int_equal(decoder_run(d, text, true, builder, &used, &why), E_PROTO);
    assert_int_equal(why.line, 2);
    assert_int_equal(used, text.n);
    assert_int_equal(batch_builder_count(builder), 1);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

static void test_csv_columns(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    struct batch *b = codec_decode(&encoding_ulm, registry, SLICE_LIT(LINE(" B=2 C=3")));
    struct encoder *e;
    struct strbuf out = {0};
    struct slice column = SLICE_LIT("B");
    assert_int_equal(encoder_create(&encoding_csv, &e), 0);
    assert_int_equal(encoder_csv_columns(e, &column, 1), 0);
    assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_csv_left_out(e), 2);
    assert_string_equal(out.p,
                        "time,host,prog,level,name,B\r\n2026-11-15T21:20:28.000000Z,,,info,event,2\r\n");
    encoder_destroy(e);
    strbuf_fini(&out);
    batch_unref(b);
    registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_failed_init),
        cmocka_unit_test(test_decoder_contract),
        cmocka_unit_test(test_encoder_contract),
        cmocka_unit_test(test_lines_in_pieces),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_line_numbers_without_memory),
        cmocka_unit_test(test_csv_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
