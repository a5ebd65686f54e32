/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are equal exactly when host, prog, name and the values of the key fields are. */
#include "unit/test.h"

#include "event/stream_key.h"

#include <math.h>

#define FIELD(z, t, r)                                                                    \
    {                                                                                     \
        .name = {z, sizeof z - 1}, .unit = {"", 0}, .help = {"", 0}, .type = t, .role = r \
    }

static const struct field fields[] = {
    FIELD("device", VALUE_TEXT, ROLE_KEY),  FIELD("unit", VALUE_UINT, ROLE_KEY),
    FIELD("load", VALUE_FLOAT, ROLE_VALUE), FIELD("id", VALUE_BYTES, ROLE_KEY),
    FIELD("at", VALUE_INT, ROLE_KEY),       FIELD("part", VALUE_FLOAT, ROLE_KEY),
    FIELD("on", VALUE_BOOL, ROLE_KEY),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static struct schema *make_schema(const char *name, size_t from)
{
    struct schema *s;
    assert_int_equal(schema_create(slice_str(name), fields + from, FIELDS - from, &s), 0);
    return s;
}

static struct event make_event(const struct schema *s, const char *host, const char *prog,
                               const struct value *v)
{
    return (struct event){.host = slice_str(host), .prog = slice_str(prog), .schema = s, .values = v};
}

static bool is_same(const struct event *a, const struct event *b)
{
    struct strbuf ka = {0}, kb = {0};
    stream_key_put(&ka, a);
    stream_key_put(&kb, b);
    assert_false(strbuf_failed(&ka) || strbuf_failed(&kb));
    bool same = slice_eq(strbuf_slice(&ka), strbuf_slice(&kb));
    assert_true(same || !stream_key_repeats(a, b)); /* a look can miss it, and not be wrong */
    strbuf_fini(&ka);
    strbuf_fini(&kb);
    return same;
}

static void only_what_names_the_stream(void **state)
{
    (void)state;
    struct schema *disk = make_schema("disk", 0), *other = make_schema("disk2", 0);
    const struct value a[FIELDS] = {value_text(SLICE_LIT("sda")), value_uint(1), value_float(0.5)};
    const struct value busy[FIELDS] = {value_text(SLICE_LIT("sda")), value_uint(1), value_float(7)};
    const struct value b[FIELDS] = {value_text(SLICE_LIT("sdb")), value_uint(1), value_float(0.5)};
    const struct value none[FIELDS] = {{.u = 0}};
    const struct value empty[FIELDS] = {value_text(SLICE_LIT(""))};
    struct event e = make_event(disk, "h", "p", a), x = e;
    x.time_ns = 5;
    x.level = LEVEL_ERROR;
    x.values = busy;
    assert_true(is_same(&e, &x)); /* time, level and values do not matter */
    x = make_event(disk, "h", "p", b);
    assert_false(is_same(&e, &x));
    x = make_event(disk, "h2", "p", a);
    assert_false(is_same(&e, &x));
    x = make_event(disk, "h", "", a);
    assert_false(is_same(&e, &x));
    x = make_event(other, "h", "p", a);
    assert_false(is_same(&e, &x));
    e = make_event(disk, "h", "p", none);
    x = make_event(disk, "h", "p", empty);
    assert_false(is_same(&e, &x)); /* missing is not "" */
    e = make_event(disk, "ab", "c", none);
    x = make_event(disk, "a", "bc", none);
    assert_false(is_same(&e, &x)); /* nothing runs together */
    schema_unref(disk);
    schema_unref(other);
}

/* What follows in a batch is known without a key, as far as a look tells. */
static void repeats(void **state)
{
    (void)state;
    char host[] = "h", same[] = "h";
    struct schema *disk = make_schema("disk", 0), *load;
    const struct field value = FIELD("load", VALUE_FLOAT, ROLE_VALUE);
    const struct value a[FIELDS] = {value_text(SLICE_LIT("sda")), value_uint(1), value_float(0.5)};
    const struct value b[FIELDS] = {value_text(SLICE_LIT("sda")), value_uint(1), value_float(7)};
    const struct value c[FIELDS] = {value_text(SLICE_LIT("sda")), value_none(), value_float(7)};
    assert_int_equal(schema_create(SLICE_LIT("load"), &value, 1, &load), 0);
    assert_true(disk->has_keys && !load->has_keys);
    struct event e = make_event(disk, host, "", a), x = e;
    x.values = b;
    assert_true(stream_key_repeats(&e, &x));
    x.values = c;
    assert_false(stream_key_repeats(&e, &x));
    e.schema = x.schema = load; /* then none of the values matters */
    assert_true(stream_key_repeats(&e, &x));
    x.host = slice_str(same);
    assert_true(is_same(&e, &x));
    assert_false(stream_key_repeats(&e, &x)); /* that would take reading */
    schema_unref(disk);
    schema_unref(load);
}

/* The same key fields in another version of the schema. */
static void versions(void **state)
{
    (void)state;
    struct schema *whole = make_schema("disk", 0), *part = make_schema("disk", 1);
    const struct value a[FIELDS] = {value_none(), value_uint(1), value_float(0.5)};
    const struct value b[FIELDS] = {value_uint(1), value_float(0.25)};
    struct event e = make_event(whole, "h", "p", a), x = make_event(part, "h", "p", b);
    assert_true(is_same(&e, &x));
    schema_unref(whole);
    schema_unref(part);
}

static void for_a_person(void **state)
{
    (void)state;
    struct schema *disk = make_schema("disk", 0);
    const struct value all[FIELDS] = {value_text(SLICE_LIT("sda")),
                                      value_uint(UINT64_MAX),
                                      value_float(3),
                                      value_bytes(SLICE_LIT("\x01\x02")),
                                      value_int(-5),
                                      value_float(0.5),
                                      value_bool(true)};
    const struct value none[FIELDS] = {value_none(), value_none(), value_float(3)};
    struct event e = make_event(disk, "h", "p", all);
    struct strbuf out = {0};
    stream_key_print(&out, &e);
    assert_slice(strbuf_slice(&out), "device=sda,unit=18446744073709551615,id=2 bytes,at=-5,part=0.5,on=1");
    strbuf_reset(&out);
    e.values = none;
    stream_key_print(&out, &e);
    assert_int_equal(out.n, 0);
    strbuf_fini(&out);
    schema_unref(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_names_the_stream),
        cmocka_unit_test(repeats),
        cmocka_unit_test(versions),
        cmocka_unit_test(for_a_person),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
