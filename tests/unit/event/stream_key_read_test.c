/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/stream_key.h"

static const struct field fields[] = {
    {.name = {"device", 6}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_KEY},
    {.name = {"reads", 5}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_UINT, .role = ROLE_VALUE},
    {.name = {"part", 4}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_INT, .role = ROLE_KEY},
    {.name = {"tag", 3}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_BYTES, .role = ROLE_KEY},
};

static struct schema *schema;
static struct value values[4];

static struct event event_of(const char *device, uint64_t reads, int64_t part)
{
    values[0] = value_text(slice_str(device));
    values[1] = value_uint(reads);
    values[2] = value_int(part);
    values[3] = value_none();
    return (struct event){
        .host = SLICE_LIT("h1"), .prog = SLICE_LIT("p"), .schema = schema, .values = values};
}

static int set_up(void **unused)
{
    (void)unused;
    return schema_create(SLICE_LIT("disk"), fields, 4, &schema);
}

static int tear_down(void **unused)
{
    (void)unused;
    schema_unref(schema);
    return 0;
}

static void equal_when_the_streams_are(void **unused)
{
    struct strbuf a = {0}, b = {0}, c = {0};
    (void)unused;
    struct event e = event_of("sda", 1, -2);
    stream_key_put(&a, &e);
    e = event_of("sda", 99, -2);
    stream_key_put(&b, &e);
    e = event_of("sda", 1, -3);
    stream_key_put(&c, &e);
    assert_true(slice_eq(strbuf_slice(&a), strbuf_slice(&b)));
    assert_false(slice_eq(strbuf_slice(&a), strbuf_slice(&c)));
    strbuf_fini(&a);
    strbuf_fini(&b);
    strbuf_fini(&c);
}

static void says_what_it_was_made_of(void **unused)
{
    struct strbuf key = {0};
    struct slice name;
    struct value v;
    (void)unused;
    struct event e = event_of("sd\0a", 1, -2);
    values[0].n = 4; /* the NUL, too */
    values[3] = value_bytes(SLICE_LIT(""));
    stream_key_put(&key, &e);
    struct stream_key_parts parts = stream_key_split(strbuf_slice(&key));
    assert_slice(parts.host, "h1");
    assert_slice(parts.prog, "p");
    assert_slice(parts.name, "disk");
    assert_true(stream_key_next(&parts.fields, &name, &v));
    assert_slice(name, "device");
    assert_true(value_eq(v, values[0]));
    assert_true(stream_key_next(&parts.fields, &name, &v));
    assert_slice(name, "part");
    assert_true(value_eq(v, value_int(-2)));
    assert_true(stream_key_next(&parts.fields, &name, &v));
    assert_slice(name, "tag");
    assert_true(value_eq(v, value_bytes(SLICE_LIT(""))));
    assert_false(stream_key_next(&parts.fields, &name, &v));
    strbuf_fini(&key);
}

static void for_a_person(void **unused)
{
    struct strbuf text = {0};
    (void)unused;
    struct event e = event_of("sda", 1, -2);
    stream_key_print(&text, &e);
    assert_slice(strbuf_slice(&text), "device=sda,part=-2");
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_when_the_streams_are),
        cmocka_unit_test(says_what_it_was_made_of),
        cmocka_unit_test(for_a_person),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
