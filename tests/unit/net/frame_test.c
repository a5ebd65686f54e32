/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "net/frame.h"

/* The one frame in out. */
static struct frame only_frame(const struct strbuf *out)
{
    struct frame f;
    assert_false(strbuf_failed(out));
    assert_int_equal(frame_read(strbuf_slice(out), FRAME_PAYLOAD_MAX, &f), out->n);
    return f;
}

/* The bytes are fixed for ever: this is HELLO as docs/protocol.md lays it out. */
static void test_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {
        42,   0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, /* head; the checksum is put
                                                                                   in below */
        0,    0,    0,    0,    1,                                              /* versions, role */
        9,    9,    9,    9,    9,    9,    9,    9,    9, 9, 9, 9, 9, 9, 9, 9, 7,
        0,    0,    0,    0,    0,    0,    0,          /* producer, epoch */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* t0 = -2 */
        1,    'h',  2,    'p',  'g',
    };
    struct frame_hello h = {
        .role = PEER_PROGRAM, .t0_ns = -2, .host = SLICE_LIT("h"), .prog = SLICE_LIT("pg")};
    memset(h.origin.producer, 9, 16);
    h.origin.epoch = 7;
    struct strbuf out = {0};
    frame_put_hello(&out, &h);
    assert_int_equal(out.n, sizeof expected);
    assert_memory_equal(out.p, expected, 12);
    assert_memory_equal(out.p + 16, expected + 16, sizeof expected - 16);
    strbuf_reset(&out);
    greeting_put(&out);
    assert_int_equal(out.n, 8);
    assert_memory_equal(out.p, "GRDL\1\0\0\0", 8);
    strbuf_fini(&out);
}

static void test_round_trips(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_origin o = {.producer = {1, 2, 3}, .epoch = UINT64_MAX};

    frame_put_welcome(&out, &(struct frame_welcome){3, 4, 5, UINT64_MAX, INT64_MIN, -1, INT64_MAX, 7});
    struct frame_welcome w;
    assert_int_equal(only_frame(&out).type, FRAME_WELCOME);
    assert_int_equal(frame_get_welcome(only_frame(&out).payload, &w), 0);
    assert_true(w.minor == 3 && w.session == 4 && w.window == 5 && w.seq == UINT64_MAX);
    assert_true(w.t0_ns == INT64_MIN && w.t1_ns == -1 && w.t2_ns == INT64_MAX && w.held == 7);
    struct slice older = only_frame(&out).payload;
    older.n -= 8; /* as gateways said it that did not count */
    assert_int_equal(frame_get_welcome(older, &w), 0);
    assert_true(w.held == 0 && w.t2_ns == INT64_MAX);

    strbuf_reset(&out);
    frame_put_samples_origin(&out, &(struct frame_samples_origin){o, true});
    struct frame_samples_origin so;
    assert_int_equal(only_frame(&out).type, FRAME_SAMPLES_ORIGIN);
    assert_int_equal(frame_get_samples_origin(only_frame(&out).payload, &so), 0);
    assert_memory_equal(&so.origin, &o, sizeof o);
    assert_true(so.wants_ok);
    struct slice payload = only_frame(&out).payload;
    assert_int_equal(frame_get_samples_origin(slice_of(payload.p, 24), &so), 0);
    assert_false(so.wants_ok); /* without flags */
    assert_int_equal(frame_get_samples_origin(slice_of(payload.p, 23), &so), E_PROTO);
    out.p[out.n - 1] = 2; /* a flag that is not known */
    assert_int_equal(frame_get_samples_origin(only_frame(&out).payload, &so), E_PROTO);
    strbuf_reset(&out);
    frame_put_samples_origin(&out, &(struct frame_samples_origin){.origin = {.epoch = 1}}); /* nobody */
    assert_int_equal(frame_get_samples_origin(only_frame(&out).payload, &so), E_PROTO);

    strbuf_reset(&out);
    frame_put_schema_ok(&out, 0, 70000);
    uint32_t schema;
    assert_int_equal(only_frame(&out).type, FRAME_SCHEMA_OK);
    assert_int_equal(frame_get_schema_ok(only_frame(&out).payload, &schema), 0);
    assert_int_equal(schema, 70000);
    strbuf_reset(&out);
    frame_put_stream_ok(&out, 0, &(struct frame_stream_ok){70001, 70002});
    struct frame_stream_ok stream;
    assert_int_equal(only_frame(&out).type, FRAME_STREAM_OK);
    assert_int_equal(frame_get_stream_ok(only_frame(&out).payload, &stream), 0);
    assert_true(stream.stream == 70001 && stream.baseline == 70002);

    strbuf_reset(&out);
    frame_put_ack(&out, &(struct frame_ack){o, 77});
    struct frame_ack a;
    assert_int_equal(only_frame(&out).type, FRAME_ACK);
    assert_int_equal(frame_get_ack(only_frame(&out).payload, &a), 0);
    assert_memory_equal(&a.origin, &o, sizeof o);
    assert_int_equal(a.seq, 77);

    strbuf_reset(&out);
    frame_put_refuse(&out, &(struct frame_refuse){o, 8, 9, REFUSE_LIMIT, 1000, SLICE_LIT("why")});
    struct frame_refuse r;
    assert_int_equal(frame_get_refuse(only_frame(&out).payload, &r), 0);
    assert_true(r.first_seq == 8 && r.count == 9 && r.reason == REFUSE_LIMIT && r.retry_ms == 1000);
    assert_slice(r.text, "why");

    strbuf_reset(&out);
    frame_put_pong(&out, &(struct frame_pong){1, 2, 3, 4});
    struct frame_pong p;
    assert_int_equal(frame_get_pong(only_frame(&out).payload, &p), 0);
    assert_true(p.token == 1 && p.t0_ns == 2 && p.t1_ns == 3 && p.t2_ns == 4);

    strbuf_reset(&out);
    frame_put_bye(&out, BYE_TOO_MANY, SLICE_LIT(""));
    struct frame_bye_reason b;
    assert_int_equal(frame_get_bye(only_frame(&out).payload, &b), 0);
    assert_int_equal(b.reason, BYE_TOO_MANY);
    strbuf_fini(&out);
}

static void test_counts(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_counts c = {.taken = 20, .passed = 10, .queued = 3, .is_final = true}, back;
    c.dropped[1] = 2;
    c.dropped[255] = 5;
    frame_put_counts(&out, &c);
    struct slice payload = only_frame(&out).payload;
    assert_int_equal(frame_get_counts(payload, &back), 0);
    assert_int_equal(back.dropped[255], 5);
    assert_int_equal(back.queued, 3);
    assert_true(back.is_final);
    /* Without the byte that was added later: not final. */
    assert_int_equal(frame_get_counts(slice_of(payload.p, payload.n - 1), &back), 0);
    assert_false(back.is_final);
    assert_int_equal(frame_get_counts(slice_of(payload.p, payload.n - 2), &back), E_PROTO);
    /* A class that there is not. */
    strbuf_reset(&out);
    c.class = 2;
    frame_put_counts(&out, &c);
    assert_int_equal(frame_get_counts(only_frame(&out).payload, &back), E_PROTO);
    c.class = CLASS_EVENTS;
    /* What does not add up is no ledger. */
    strbuf_reset(&out);
    c.taken++;
    frame_put_counts(&out, &c);
    assert_int_equal(frame_get_counts(only_frame(&out).payload, &back), E_PROTO);
    strbuf_reset(&out);
    c.dropped[7] = UINT64_MAX; /* nor one that adds up only modulo 2^64 */
    c.taken--;
    c.dropped[8] = 1;
    frame_put_counts(&out, &c);
    assert_int_equal(frame_get_counts(only_frame(&out).payload, &back), E_PROTO);
    strbuf_fini(&out);
}

static void test_counts_twice(void **state)
{
    (void)state;
    struct strbuf out = {0};
    for (int i = 0; i < 25; i++)
        strbuf_add_char(&out, 0); /* origin, class */
    strbuf_add_u64(&out, 2);
    strbuf_add_u64(&out, 0);
    strbuf_add_u64(&out, 0);
    strbuf_add_varint(&out, 2);
    for (int i = 0; i < 2; i++) {
        strbuf_add_char(&out, 4);
        strbuf_add_u64(&out, 1);
    }
    struct frame_counts c;
    assert_int_equal(frame_get_counts(strbuf_slice(&out), &c), E_PROTO);
    strbuf_fini(&out);
}

/* Every prefix of every payload is refused, or (fields added later) taken as the shorter form. */
static void test_cut_short(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_hello h = {.role = PEER_AGENT, .host = SLICE_LIT("host"), .prog = SLICE_LIT("prog")}, h2;
    frame_put_hello(&out, &h);
    struct slice payload = only_frame(&out).payload;
    for (size_t n = 0; n < payload.n; n++)
        assert_int_equal(frame_get_hello(slice_of(payload.p, n), &h2), E_PROTO);
    assert_int_equal(frame_get_hello(payload, &h2), 0);
    struct frame f;
    for (size_t n = 0; n < out.n; n++)
        assert_int_equal(frame_read(slice_of(out.p, n), FRAME_PAYLOAD_MAX, &f), 0);
    strbuf_fini(&out);
}

static void test_hello_limits(void **state)
{
    (void)state;
    char longer[300];
    memset(longer, 'x', sizeof longer);
    const struct frame_hello bad[] = {
        {.role = 0, .host = SLICE_LIT("h")},          {.role = 5, .host = SLICE_LIT("h")},
        {.role = 1, .minor_low = 2, .minor_high = 1}, {.role = 1, .host = {longer, 256}},
        {.role = 1, .prog = SLICE_LIT("a\nb")},       {.role = 1, .prog = SLICE_LIT("\xff")},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct strbuf out = {0};
        struct frame_hello h;
        frame_put_hello(&out, &bad[i]);
        assert_int_equal(frame_get_hello(only_frame(&out).payload, &h), E_PROTO);
        strbuf_fini(&out);
    }
}

/* A head with any bit flipped is never taken for one. */
static void test_head_damage(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame f;
    frame_put(&out, FRAME_PING, 3, SLICE_LIT("0123456789abcdef"));
    assert_int_equal(frame_read(strbuf_slice(&out), 16, &f), 32);
    assert_int_equal(f.worker, 3);
    assert_int_equal(frame_read(strbuf_slice(&out), 15, &f), E_LIMIT);
    assert_int_equal(frame_size(slice_of(out.p, FRAME_HEAD), 15), E_LIMIT);
    for (size_t bit = 0; bit < FRAME_HEAD * 8; bit++) {
        out.p[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(frame_read(strbuf_slice(&out), FRAME_PAYLOAD_MAX, &f), E_DAMAGE);
        out.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    strbuf_fini(&out);
}

static void test_activate(void **state)
{
    (void)state;
    uint32_t number;
    struct slice list;
    struct frame_activation a;
    assert_int_equal(frame_get_activate(SLICE_LIT("\5\0\0\0\2a*\13\1b\377"), &number, &list), 0);
    assert_int_equal(number, 5);
    assert_int_equal(frame_next_activation(&list, &a), 1);
    assert_slice(a.pattern, "a*");
    assert_int_equal(a.level, 11);
    assert_int_equal(frame_next_activation(&list, &a), 1);
    assert_int_equal(a.level, -1);
    assert_int_equal(frame_next_activation(&list, &a), 0);
    assert_int_equal(frame_get_activate(SLICE_LIT("\5\0\0\0"), &number, &list), 0);
    assert_int_equal(list.n, 0);
    assert_int_equal(frame_get_activate(SLICE_LIT("\5\0\0"), &number, &list), E_PROTO);
    assert_int_equal(frame_get_activate(SLICE_LIT("\5\0\0\0\2a*\16"), &number, &list),
                     E_PROTO); /* no such level */
    assert_int_equal(frame_get_activate(SLICE_LIT("\5\0\0\0\2a*"), &number, &list), E_PROTO);
}

static void test_greetings(void **state)
{
    (void)state;
    const struct {
        struct slice head;
        enum greeting is;
    } cases[] = {
        {SLICE_LIT(""), GREETING_MORE},
        {SLICE_LIT("G"), GREETING_MORE},
        {SLICE_LIT("GRDL\1\0\0"), GREETING_MORE},
        {SLICE_LIT("GRDL\1\0\0\0"), GREETING_FRAMES},
        {SLICE_LIT("GRDL\2\0\0\0"), GREETING_VERSION},
        {SLICE_LIT("GRDX"), GREETING_UNKNOWN},
        {SLICE_LIT("ULM"), GREETING_MORE},
        {SLICE_LIT("ULM\0    "), GREETING_ULM},
        {SLICE_LIT("ULMx"), GREETING_UNKNOWN},
        {SLICE_LIT("DATE"), GREETING_MORE},
        {SLICE_LIT("DATE=2"), GREETING_LINES},
        {SLICE_LIT("t"), GREETING_MORE},
        {SLICE_LIT("ts="), GREETING_LINES},
        {SLICE_LIT("{"), GREETING_LINES},
        {SLICE_LIT("GET / HTTP/1.1"), GREETING_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(greeting_detect(cases[i].head), cases[i].is);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct frame_counts c = {.taken = 0};
    bool has_failed = false;
    for (uint64_t nth = 1; nth < 4; nth++) {
        struct strbuf out = {0};
        mem_fail_after(nth);
        frame_put_counts(&out, &c);
        mem_fail_after(0);
        has_failed = has_failed || strbuf_failed(&out);
        strbuf_fini(&out);
    }
    assert_true(has_failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_counts_twice),
        cmocka_unit_test(test_cut_short),   cmocka_unit_test(test_hello_limits),
        cmocka_unit_test(test_head_damage), cmocka_unit_test(test_activate),
        cmocka_unit_test(test_greetings),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
