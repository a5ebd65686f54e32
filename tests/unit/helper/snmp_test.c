/* SPDX-License-Identifier: Apache-2.0 */
/* With a device of this test that knows all questions but has no value for any; tests/flow/snmp_test.py has
 * real ones. */
#include "unit/test.h"

#include "base/mem.h"
#include "helper/helper.h"
#include "helper/snmp_link.h"
#include "helper/snmp_value.h"
#include "unit/sensor/sense.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct device {
    int fd;
    char at[64];
    pthread_t thread;
};

static void device_open(struct device *d)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof in;
    d->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(d->fd >= 0);
    assert_int_equal(bind(d->fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(d->fd, (struct sockaddr *)&in, &n), 0);
    (void)snprintf(d->at, sizeof d->at, "127.0.0.1:%u", ntohs(in.sin_port));
}

/* Sends each GET back as an answer, its values NULL as they came; in a GETBULK they become "end of MIB view".
 * Its kind is the first byte after version and community, which are short: their lengths are one byte each.
 */
static void *echo(void *arg)
{
    const struct device *d = arg;
    unsigned char p[4096];
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t n;
    while ((n = recvfrom(d->fd, p, sizeof p, 0, (struct sockaddr *)&from, &size)) > 1) {
        size_t at = p[1] & 0x80 ? 2u + (p[1] & 0x7fu) : 2u; /* the message's own length */
        at += 2u + p[at + 1];                               /* version */
        at += 2u + p[at + 1];                               /* community */
        bool is_bulk = p[at] == SNMP_MSG_GETBULK;
        size_t body = p[at + 1] & 0x80 ? at + 2 + (p[at + 1] & 0x7fu) : at + 2;
        size_t reqid = body, non_repeaters = reqid + 2 + p[reqid + 1], rows = non_repeaters + 3;
        p[at] = SNMP_MSG_RESPONSE;
        if (is_bulk)
            p[rows + 2] = 0;
        for (size_t i = rows + 3; is_bulk && i + 1 < (size_t)n; i++)
            if (p[i] == ASN_NULL && p[i + 1] == 0)
                p[i] = SNMP_ENDOFMIBVIEW;
        assert_int_equal(sendto(d->fd, p, (size_t)n, 0, (struct sockaddr *)&from, size), n);
        size = sizeof from;
    }
    return NULL;
}

static void device_start(struct device *d)
{
    device_open(d);
    assert_int_equal(pthread_create(&d->thread, NULL, echo, d), 0);
}

static void device_stop(struct device *d)
{
    struct sockaddr_in to;
    socklen_t n = sizeof to;
    assert_int_equal(getsockname(d->fd, (struct sockaddr *)&to, &n), 0);
    assert_int_equal(sendto(d->fd, "", 1, 0, (struct sockaddr *)&to, n), 1); /* one byte: the end */
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    assert_int_equal(close(d->fd), 0);
}

/* The sensor's functions as gridline-helper calls them. */
extern const struct helper_ops helper_snmp;

struct run {
    struct sensor_out out; /* first */
    struct sensor_env env;
    struct snmp_sensor *state;
    struct strbuf text;
    struct diag why;
};

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    struct run *r = (struct run *)out;
    const struct sensor_ops *ops = sensor_find(SLICE_LIT("snmp"));
    (void)time_ns, (void)level; /* not compared */
    assert_non_null(ops);
    strbuf_add_str(&r->text, ops->schemas[schema].name);
    for (size_t i = 1; i < ops->schemas[schema].n_fields; i++) /* without the target */
        sense_add_value(&r->text, ops->schemas[schema].fields[i].name, values[i]);
    strbuf_add_char(&r->text, '\n');
}

static void run_init(struct run *r, const char *target)
{
    *r = (struct run){.out = {.row = on_row}};
    env_init(&r->env, "");
    r->out.why = &r->why;
    r->state = mem_alloc(sizeof *r->state);
    *r->state = (struct snmp_sensor){.target = target,
                                     .version = "2c",
                                     .auth = "SHA",
                                     .has_interfaces = true,
                                     .has_host = true,
                                     .timeout_ns = INT64_C(20) * 1000 * 1000};
}

static int run_open(struct run *r)
{
    return helper_snmp.open(r->state, &r->env, &r->why);
}

static int run_sample(struct run *r)
{
    strbuf_reset(&r->text);
    return helper_snmp.sample(r->state, &r->env, &r->out);
}

static void run_fini(struct run *r)
{
    helper_snmp.close(r->state);
    mem_free(r->state);
    strbuf_fini(&r->text);
    env_fini(&r->env);
}

static void nothing_to_tell(void **state)
{
    static const char *const oids[] = {"a=1.3.6.1.4.1.1.0", "b=.1.3.6.1.4.1.2.0"};
    struct device d;
    struct run r;
    (void)state;
    device_start(&d);
    run_init(&r, d.at);
    r.state->timeout_ns = INT64_C(60) * 1000 * 1000 * 1000;
    r.state->oids = (struct parameter_list){oids, 2};
    assert_int_equal(run_open(&r), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_sample(&r), 0);
        assert_string_equal(r.text.p,
                            "snmp.system\n"
                            "snmp.value item=\"a\" why=\"the value is of a type that is not known\"\n"
                            "snmp.value item=\"b\" why=\"the value is of a type that is not known\"\n"
                            "snmp.host\n");
    }
    run_fini(&r);
    device_stop(&d);
}

static void no_answer_then_one(void **state)
{
    struct device d;
    struct run r;
    char expected[128];
    (void)state;
    device_open(&d);
    run_init(&r, d.at);
    assert_int_equal(run_open(&r), 0);
    (void)snprintf(expected, sizeof expected, "no answer from %s within 0.02s", d.at);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_sample(&r), -ETIMEDOUT);
        assert_string_equal(r.why.message, expected);
    }
    r.state->timeout_ns = INT64_C(60) * 1000 * 1000 * 1000; /* for the next session */
    assert_int_equal(pthread_create(&d.thread, NULL, echo, &d), 0);
    assert_int_equal(run_sample(&r), 0);
    run_fini(&r);
    device_stop(&d);
}

static void no_answer_v3(void **state)
{
    struct device d;
    struct run r;
    (void)state;
    device_open(&d);
    run_init(&r, d.at);
    r.state->version = "3";
    r.state->user = "alice";
    assert_int_equal(run_open(&r), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_sample(&r), -ETIMEDOUT);
    run_fini(&r);
    assert_int_equal(close(d.fd), 0);
}

static void options_refused(void **state)
{
    static const char *many[SNMP_OIDS_MAX + 1];
    struct run r;
    (void)state;
    for (size_t i = 0; i < SNMP_OIDS_MAX + 1; i++)
        many[i] = "x=1.3.6";
    run_init(&r, "127.0.0.1:9");
    r.state->oids = (struct parameter_list){many, SNMP_OIDS_MAX + 1};
    assert_int_equal(run_open(&r), -EINVAL);
    assert_string_equal(r.why.message, "oids: at most 64");
    run_fini(&r);
    run_init(&r, "");
    assert_int_equal(run_open(&r), -EINVAL);
    run_fini(&r);
}

static void not_a_tree(void **state)
{
    struct run r;
    (void)state;
    run_init(&r, "127.0.0.1:9");
    r.env.root = "/nowhere";
    assert_int_equal(run_open(&r), 0);
    assert_int_equal(run_sample(&r), E_NODATA);
    run_fini(&r);
}

static void names(void **state)
{
    static const char *const bad[] = {"",      ".",      "1",    ".1",     "1.",  "1..3",          "1.3.",
                                      "1.3.x", "1.3.-1", " 1.3", "1.40.1", "3.1", "1.3.4294967296"};
    struct snmp_name n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(snmp_name_parse(slice_str(bad[i]), &n), E_PROTO);
    assert_int_equal(snmp_name_parse(SLICE_LIT(".1.3.6.4294967295"), &n), 0);
    assert_int_equal(n.n, 4);
    assert_true(n.v[0] == 1 && n.v[1] == 3 && n.v[2] == 6 && n.v[3] == 4294967295u);
    assert_int_equal(snmp_name_parse(SLICE_LIT("2.999"), &n), 0);
}

static struct value text_of(struct snmp_texts *t, u_char type, const void *p, size_t n)
{
    netsnmp_variable_list v = {.type = type, .val.string = (u_char *)(uintptr_t)p, .val_len = n};
    return snmp_text_of(t, &v);
}

static void assert_text(struct value v, const char *expected)
{
    assert_int_equal(v.type, VALUE_TEXT);
    assert_true(slice_eq_str(value_slice(v), expected));
}

static void texts(void **state)
{
    static const oid object[] = {1, 3, 4294967295u};
    static char large[SNMP_STRING_MAX + 1];
    struct snmp_texts t = {0};
    (void)state;
    assert_text(text_of(&t, ASN_OCTET_STR, "a\r\nb\0\0", 6), "a\r\nb");
    assert_text(text_of(&t, ASN_OCTET_STR, "\xc3\xbc", 2), "\xc3\xbc");
    assert_text(text_of(&t, ASN_OCTET_STR, "\xc3", 1), "c3");
    assert_text(text_of(&t, ASN_OCTET_STR, "\x00\x1a\x2b", 3), "00:1a:2b");
    assert_text(text_of(&t, ASN_OCTET_STR, NULL, 0), "");
    assert_text(text_of(&t, ASN_IPADDRESS, "\x7f\0\0\1", 4), "127.0.0.1");
    assert_text(text_of(&t, ASN_IPADDRESS, "\x7f", 1), "7f");
    assert_text(text_of(&t, ASN_OBJECT_ID, object, sizeof object), "1.3.4294967295");
    assert_int_equal(text_of(&t, ASN_OCTET_STR, large, sizeof large).type, VALUE_NONE);
    assert_int_equal(text_of(&t, ASN_NULL, NULL, 0).type, VALUE_NONE);
    assert_false(t.is_out_of_memory);
    snmp_texts_fini(&t);
}

static struct value convert(u_char type, long n, enum snmp_as as)
{
    struct snmp_texts t = {0};
    netsnmp_variable_list v = {.type = type, .val.integer = &n, .val_len = sizeof n};
    struct value made = snmp_convert(&t, &v, as);
    assert_null(t.arena.blocks); /* numbers only */
    return made;
}

static void numbers(void **state)
{
    (void)state;
    assert_true(value_eq(convert(ASN_COUNTER, 4294967295, SNMP_AS_UINT), value_uint(4294967295)));
    assert_true(value_eq(convert(ASN_COUNTER, -1, SNMP_AS_UINT),
                         value_uint(4294967295))); /* 32 bits, as longs may be */
    assert_int_equal(convert(ASN_INTEGER, -1, SNMP_AS_UINT).type, VALUE_NONE);
    assert_int_equal(convert(SNMP_NOSUCHOBJECT, 0, SNMP_AS_UINT).type, VALUE_NONE);
    assert_true(value_eq(convert(ASN_INTEGER, 3, SNMP_AS_KIB), value_uint(3072)));
    assert_true(value_eq(convert(ASN_TIMETICKS, 150, SNMP_AS_HUNDREDTHS), value_float(1.5)));
    assert_true(value_eq(convert(ASN_GAUGE, 1544000, SNMP_AS_SPEED), value_uint(1544000)));
    assert_int_equal(convert(ASN_GAUGE, 0, SNMP_AS_SPEED).type, VALUE_NONE);
    assert_int_equal(convert(ASN_GAUGE, 4294967295, SNMP_AS_SPEED).type, VALUE_NONE);
    assert_int_equal(convert(ASN_GAUGE, 4294, SNMP_AS_MEGABITS).type, VALUE_NONE); /* ifSpeed tells */
    assert_true(value_eq(convert(ASN_GAUGE, 10000, SNMP_AS_MEGABITS), value_uint(UINT64_C(10000000000))));
    assert_text(convert(ASN_INTEGER, 7, SNMP_AS_STATE), "lower_layer_down");
    assert_int_equal(convert(ASN_INTEGER, 0, SNMP_AS_STATE).type, VALUE_NONE);
    assert_int_equal(convert(ASN_INTEGER, 8, SNMP_AS_STATE).type, VALUE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(texts),
        cmocka_unit_test(numbers),
        cmocka_unit_test(nothing_to_tell),
        cmocka_unit_test(no_answer_then_one),
        cmocka_unit_test(no_answer_v3),
        cmocka_unit_test(options_refused),
        cmocka_unit_test(not_a_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
