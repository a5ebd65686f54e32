/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "gateway/live_request.h"

static int parse(const char *text, struct live_request *out, struct diag *why)
{
    *out = (struct live_request){.n = 0};
    *why = (struct diag){0};
    return live_request_parse(slice_str(text), out, why);
}

static void what_is_asked_is_taken(void **state)
{
    (void)state;
    struct live_request r;
    struct diag why;
    struct strbuf tile = {0};
    assert_int_equal(
        parse("{\"lanes\":[{\"lane\":7,\"kind\":\"series\",\"name\":\"c\\u0070u\",\"level\":14,"
              "\"params\":{\"field\":\"us\\\"er\",\"id\":42}},"
              "{\"level\":0,\"name\":\"*\",\"kind\":\"points\",\"lane\":65535}],\"every\":\"1s\"}",
              &r, &why),
        0);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.every_ns, NS_PER_S);
    assert_int_equal(r.lanes[0].number, 7);
    assert_int_equal(r.lanes[1].number, 65535);
    live_lane_tile(&r.lanes[0], -3, true, &tile);
    static const char expected[] = "series\0cpu\0"
                                   "14\0-3\0field=us\"er\0id=42\0as=json";
    assert_int_equal(tile.n, sizeof expected);
    assert_memory_equal(tile.p, expected, sizeof expected);
    strbuf_reset(&tile);
    live_lane_tile(&r.lanes[1], 5, false, &tile);
    static const char second[] = "points\0*\0"
                                 "0\0"
                                 "5";
    assert_int_equal(tile.n, sizeof second);
    assert_memory_equal(tile.p, second, sizeof second);
    strbuf_fini(&tile);
    live_request_fini(&r);
    /* the list alone */
    assert_int_equal(parse("[{\"lane\":1,\"kind\":\"edges\",\"name\":\"id\",\"level\":26}]", &r, &why), 0);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.every_ns, 0);
    live_request_fini(&r);
}

#define LANE       "{\"lane\":1,\"kind\":\"a\",\"name\":\"*\",\"level\":1}"
#define LANE_AGAIN ("[" LANE "," LANE "]")

static void what_is_wrong_is_said(void **state)
{
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "7",
        "{\"lanes\":{}}",
        "{\"lanes\":[7]}",
        "{\"lanes\":[{}]}",
        "{\"lanes\":[],\"lanes\":[]}",
        "{\"more\":1}",
        "[{\"lane\":0,\"kind\":\"points\",\"name\":\"*\",\"level\":1}]",
        "[{\"lane\":65536,\"kind\":\"points\",\"name\":\"*\",\"level\":1}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":27}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":-1}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1.5}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\"}]",
        "[{\"lane\":1,\"kind\":\"\",\"name\":\"*\",\"level\":1}]",
        "[{\"lane\":1,\"kind\":\"a\",\"kind\":\"b\",\"name\":\"*\",\"level\":1}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"a\\u0000b\",\"level\":1}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"\xff\",\"level\":1}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1,\"params\":[]}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1,\"params\":{\"a=b\":\"c\"}}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1,\"params\":{\"a\":{}}}]",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1,\"more\":1}]",
        LANE_AGAIN,
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1}] x",
        "[{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":1}",
        "{\"every\":\"1ms\",\"lanes\":[]}",
        "{\"every\":\"1h\",\"lanes\":[]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct live_request r;
        struct diag why;
        assert_true(parse(wrong[i], &r, &why) < 0);
        assert_true(why.message[0] != '\0');
        live_request_fini(&r);
    }
}

static void lanes_are_bounded(void **state)
{
    (void)state;
    for (int n = LIVE_LANES_MAX; n <= LIVE_LANES_MAX + 1; n++) {
        struct live_request r = {.n = 0};
        struct diag why = {0};
        struct strbuf text = {0};
        for (int i = 1; i <= n; i++)
            strbuf_printf(&text, "%s{\"lane\":%d,\"kind\":\"points\",\"name\":\"*\",\"level\":1}",
                          i == 1 ? "[" : ",", i);
        strbuf_add_char(&text, ']');
        assert_int_equal(live_request_parse(strbuf_slice(&text), &r, &why),
                         n == LIVE_LANES_MAX ? 0 : E_LIMIT);
        live_request_fini(&r);
        strbuf_fini(&text);
    }
}

static void tiles_hold_their_time(void **state)
{
    (void)state;
    struct live_lane lane = {.level = 0}; /* 256 ns */
    assert_int_equal(live_lane_index(&lane, 0), 0);
    assert_int_equal(live_lane_index(&lane, 255), 0);
    assert_int_equal(live_lane_index(&lane, 256), 1);
    assert_int_equal(live_lane_index(&lane, -1), -1);
    assert_int_equal(live_lane_index(&lane, -256), -1);
    assert_int_equal(live_lane_index(&lane, -257), -2);
    lane.level = LIVE_LEVEL_MAX;
    assert_int_equal(live_lane_index(&lane, INT64_C(1) << 60), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_is_taken),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(lanes_are_bounded),
        cmocka_unit_test(tiles_hold_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
