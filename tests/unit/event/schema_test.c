/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "event/schema.h"
#include "event/schema_bytes.h"

#include <errno.h>

static struct named_value named(const char *name, struct value v)
{
    return (struct named_value){slice_str(name), v};
}

static void test_learn_grows(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    const struct schema *a, *b, *c;
    uint16_t index[4];
    struct named_value one[] = {named("x", value_int(1))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), one, 1, &a, index), 0);
    assert_int_equal(a->n_fields, 1);
    uint64_t first = a->hash;
    struct named_value two[] = {named("y", value_text(SLICE_LIT("t"))), named("x", value_int(2))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), two, 2, &b, index), 0);
    assert_int_equal(b->n_fields, 2);
    assert_int_not_equal(b->hash, first);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[1], 0);
    /* fewer fields: no new version */
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), one, 1, &c, index), 0);
    assert_ptr_equal(c, b);
    /* another type: both are kept */
    struct named_value other[] = {named("x", value_float(1.5))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), other, 1, &c, index), 0);
    assert_int_equal(c->n_fields, 3);
    assert_int_equal(index[0], 2);
    assert_false(c->names_once);
    registry_destroy(r);
}

static void test_refuses(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    const struct schema *s = NULL;
    uint16_t index[EVENT_FIELDS_MAX + 1];
    struct named_value twice[] = {named("x", value_int(1)), named("x", value_int(2))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), twice, 2, &s, index), E_PROTO);
    struct named_value both[] = {named("x", value_int(1)), named("x", value_float(2))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), both, 2, &s, index), E_PROTO);
    /* also once the schema knows both types */
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), both, 1, &s, index), 0);
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), both + 1, 1, &s, index), 0);
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), both, 2, &s, index), E_PROTO);
    struct named_value bad[] = {named("a b", value_int(1))};
    assert_int_equal(registry_learn(r, SLICE_LIT("e"), bad, 1, &s, index), E_PROTO);
    assert_int_equal(registry_learn(r, SLICE_LIT(""), both, 1, &s, index), E_PROTO);
    registry_destroy(r);
}

/* Past 256 fields the next version starts from the event's own. */
static void test_field_limit(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    const struct schema *s;
    uint16_t index[1];
    char name[16];
    for (int i = 0; i <= EVENT_FIELDS_MAX; i++) {
        (void)snprintf(name, sizeof name, "f%d", i);
        struct named_value v[] = {named(name, value_int(i))};
        assert_int_equal(registry_learn(r, SLICE_LIT("e"), v, 1, &s, index), 0);
        assert_int_equal(s->n_fields, i < EVENT_FIELDS_MAX ? i + 1 : 1);
        assert_int_equal(index[0], i < EVENT_FIELDS_MAX ? i : 0);
    }
    registry_destroy(r);
}

static void test_name_limit(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    const struct schema *s;
    uint16_t index[1];
    char name[16];
    for (int i = 0; i < REGISTRY_NAMES_MAX * 2 + 10; i++) { /* bounded, and goes on */
        (void)snprintf(name, sizeof name, "e%d", i);
        struct named_value v[] = {named("x", value_int(i))};
        assert_int_equal(registry_learn(r, slice_str(name), v, 1, &s, index), 0);
        assert_slice(s->name, name);
    }
    registry_destroy(r);
}

static void test_intern(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    struct field f = {.name = SLICE_LIT("x"), .type = VALUE_INT, .unit = SLICE_LIT("s"), .kind = KIND_GAUGE};
    struct schema *a, *b;
    const struct schema *one, *two;
    assert_int_equal(schema_create(SLICE_LIT("e"), &f, 1, &a), 0);
    assert_int_equal(schema_create(SLICE_LIT("e"), &f, 1, &b), 0);
    assert_int_equal(a->hash, b->hash);
    assert_int_equal(registry_intern(r, a, &one), 0);
    assert_int_equal(registry_intern(r, b, &two), 0);
    assert_ptr_equal(one, two);
    assert_ptr_equal(registry_by_hash(r, one->hash), one);
    f.unit = SLICE_LIT("ms"); /* any part of a field is part of the version */
    assert_int_equal(schema_create(SLICE_LIT("e"), &f, 1, &a), 0);
    assert_int_not_equal(a->hash, one->hash);
    schema_unref(a);
    registry_destroy(r);
}

/* Every allocation fails in turn; nothing leaks (ASan) and the registry goes on. */
static void test_no_memory(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) {
        struct registry *r = registry_create();
        const struct schema *s;
        uint16_t index[1];
        struct named_value v[] = {named("x", value_int(1))};
        mem_fail_after(nth);
        int rc = registry_learn(r, SLICE_LIT("e"), v, 1, &s, index);
        mem_fail_after(0);
        assert_int_equal(registry_learn(r, SLICE_LIT("e"), v, 1, &s, index), 0);
        registry_destroy(r);
        if (rc == 0)
            break;
        assert_int_equal(rc, -ENOMEM);
    }
}

/* One that is known is read without making it; whatever byte is another, or missing, it is not that one, and
 * the cursor stays. */
static void test_read_known(void **state)
{
    (void)state;
    const struct field fields[] = {
        {.name = SLICE_LIT("device"), .type = VALUE_TEXT, .role = ROLE_KEY},
        {.name = SLICE_LIT("bytes"),
         .unit = SLICE_LIT("B"),
         .help = SLICE_LIT("so many"),
         .type = VALUE_UINT,
         .kind = KIND_COUNTER},
    };
    struct strbuf bytes = {0};
    struct schema *s;
    assert_int_equal(schema_create(SLICE_LIT("disk"), fields, 2, &s), 0);
    schema_write(&bytes, s);
    size_t n = bytes.n;
    strbuf_add_char(&bytes, 'x'); /* what follows is not its */
    struct cursor c = cursor_of(strbuf_slice(&bytes));
    assert_true(schema_read_known(&c, s));
    assert_int_equal(cursor_left(&c), 1);
    for (size_t i = 0; i < n; i++) {
        c = cursor_of(slice_of(bytes.p, i));
        assert_false(schema_read_known(&c, s));
        assert_int_equal(cursor_left(&c), i);
        assert_false(c.bad);
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes.p[i] ^= (char)(1u << bit);
            c = cursor_of(strbuf_slice(&bytes));
            assert_false(schema_read_known(&c, s));
            assert_int_equal(cursor_left(&c), bytes.n);
            bytes.p[i] ^= (char)(1u << bit);
        }
    }
    schema_unref(s);
    strbuf_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learn_grows), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_field_limit), cmocka_unit_test(test_name_limit),
        cmocka_unit_test(test_intern),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
