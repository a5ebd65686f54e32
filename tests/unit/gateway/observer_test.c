/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "unit/gateway/observed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>

static struct observers *create(const struct observer_config *c, size_t n)
{
    struct observers *o = NULL;
    struct diag why = {0};
    if (observers_create(c, n, &o, &why) < 0)
        fail_msg("%s", why.message);
    return o;
}

static void read_file(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    strbuf_reset(out);
    take_all(fd, out);
    (void)close(fd);
}

static size_t count_lines(struct slice text, const char *with)
{
    size_t n = 0;
    for (size_t i = 0; i + strlen(with) <= text.n; i++)
        n += memcmp(text.p + i, with, strlen(with)) == 0;
    return n;
}

/* ---------------------------------------------------------------- filters */

static void test_filters(void **unused)
{
    static const struct {
        const char *events, *where;
        size_t passed;
    } cases[] = {
        {"", "", 30},
        {"job.*", "", 20},
        {"disk,job.end", "", 20},
        {"nothing", "", 0},
        {"", "number > 10", 20},
        {"job.*", "level <= 'warning'", 10},
        {"job.*", "number IN (5, 15, 25)", 2},
        {NULL, NULL, 30},
    };
    struct strbuf text = {0};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct maker m;
        const struct observer_config c = {
            .name = "one", .type = "file", .events = cases[i].events, .where = cases[i].where, .path = "out"};
        maker_init(&m);
        struct observers *o = create(&c, 1);
        give(o, &m, "job.start", 10);
        give(o, &m, "disk", 10);
        give(o, &m, "job.end", 10);
        observers_tick(o, clock_mono_ns());
        struct observer_counts n = counts_of(o);
        assert_int_equal(n.taken, 30);
        assert_int_equal(n.passed, cases[i].passed);
        assert_int_equal(n.filtered, 30 - cases[i].passed);
        assert_int_equal(n.dropped + n.queued, 0);
        observers_destroy(o);
        read_file("out", &text);
        assert_int_equal(count_lines(strbuf_slice(&text), "\n"), cases[i].passed);
        assert_int_equal(unlink("out"), 0);
        maker_fini(&m);
    }
    strbuf_fini(&text);
}

/* Events of several names in one batch, some of which pass. */
static void test_mixed_batch(void **unused)
{
    const struct observer_config c = {
        .name = "one", .type = "file", .events = "b*", .path = "out", .encoding = "ndjson"};
    struct strbuf text = {0};
    struct maker m;
    (void)unused;
    maker_init(&m);
    struct observers *o = create(&c, 1);
    for (int i = 0; i < 9; i++) {
        const struct event_head head = {.time_ns = i,
                                        .name = slice_str(i % 3 == 0   ? "a"
                                                          : i % 3 == 1 ? "b"
                                                                       : "bc")};
        assert_int_equal(batch_builder_add(m.builder, &head, NULL, 0, NULL), 0);
    }
    struct batch *b = batch_builder_finish(m.builder, NULL);
    observers_batch(o, b);
    batch_unref(b);
    struct observer_counts n = counts_of(o);
    assert_int_equal(n.taken, 9);
    assert_int_equal(n.filtered, 3);
    assert_int_equal(n.queued, 6); /* until the tick */
    assert_int_equal(n.passed, 0);
    observers_destroy(o);
    read_file("out", &text);
    assert_int_equal(count_lines(strbuf_slice(&text), "\"b\""), 3);
    assert_int_equal(count_lines(strbuf_slice(&text), "\"bc\""), 3);
    assert_int_equal(count_lines(strbuf_slice(&text), "\n"), 6);
    strbuf_fini(&text);
    maker_fini(&m);
}

/* One that fails does not disturb the other. */
static void test_two(void **unused)
{
    const struct observer_config c[] = {
        {.name = "full", .type = "file", .path = "/dev/full"},
        {.name = "fine", .type = "file", .path = "out", .where = "number <= 500"},
    };
    struct observer_counts n;
    const char *name;
    struct maker m;
    (void)unused;
    maker_init(&m);
    struct observers *o = create(c, 2);
    assert_true(observers_has_any(o));
    for (int i = 0; i < 10; i++)
        give(o, &m, "e", 100);
    observers_tick(o, clock_mono_ns());
    assert_true(observers_counts(o, 0, &name, &n));
    assert_string_equal(name, "full");
    assert_int_equal(n.passed, 0);
    assert_int_equal(n.queued + n.dropped, 1000);
    assert_true(observers_counts(o, 1, &name, &n));
    assert_string_equal(name, "fine");
    assert_int_equal(n.passed, 500);
    assert_int_equal(n.filtered, 500);
    assert_false(observers_counts(o, 2, &name, &n));
    observers_destroy(o);
    maker_fini(&m);
}

static void test_refusals(void **unused)
{
    static const struct {
        struct observer_config c;
        int code;
        const char *says;
    } cases[] = {
        {{.name = "x", .type = "tape"}, -EINVAL, "observer x: there is no type 'tape'"},
        {{.name = "x", .type = "text", .encoding = "morse"},
         -EINVAL,
         "observer x: there is no encoding 'morse'"},
        {{.name = "x", .type = "file", .path = "a", .compression = "rar"},
         -EINVAL,
         "observer x: there is no compression 'rar'"},
        {{.name = "x", .type = "file", .path = "no/such/folder"},
         -ENOENT,
         "observer x: no/such/folder: No such file or directory"},
        {{.name = "x", .type = "file", .path = "a", .where = "level <"},
         E_PROTO,
         "observer x: the predicate ends where a value or field should come"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct observers *o = NULL;
        struct diag why = {0};
        assert_int_equal(observers_create(&cases[i].c, 1, &o, &why), cases[i].code);
        assert_null(o);
        assert_string_equal(why.message, cases[i].says);
    }
    observers_destroy(NULL);
    assert_false(observers_has_any(NULL));
}

static void test_none(void **unused)
{
    (void)unused;
    struct observers *o = create(NULL, 0);
    assert_false(observers_has_any(o));
    observers_tick(o, 1);
    observers_reopen(o);
    observers_destroy(o);
}

/* ---------------------------------------------------------------- text */

static int saved = -1;

static void redirect(int fd)
{
    (void)fflush(stdout);
    saved = dup(STDOUT_FILENO);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
}

static void restore(void)
{
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    (void)close(saved);
}

static const struct observer_config text_config = {.name = "t", .type = "text"};

/* To a file: ULM. It is there at once, not at the next tick. */
static void test_text(void **unused)
{
    struct strbuf text = {0};
    struct maker m;
    int64_t next = 1;
    size_t bad;
    (void)unused;
    maker_init(&m);
    int fd = open("out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    redirect(fd);
    struct observers *o = NULL;
    int r = observers_create(&text_config, 1, &o, NULL);
    if (r == 0)
        give(o, &m, "e", 7);
    restore();
    assert_int_equal(r, 0);
    assert_int_equal(counts_of(o).passed, 7);
    observers_destroy(o);
    read_file("out", &text);
    assert_int_equal(read_events(strbuf_slice(&text), "ulm", &next, &bad), 7);
    assert_int_equal(bad, 0);
    (void)close(fd);
    strbuf_fini(&text);
    maker_fini(&m);
}

/* A pipe that nobody reads: nothing blocks, memory is bounded, the counts add up, and lines stay whole. */
static void test_slow_reader(void **unused)
{
    enum { BATCHES = 200, EACH = 500 };
    struct strbuf text = {0};
    struct maker m;
    int ends[2];
    (void)unused;
    maker_init(&m);
    assert_int_equal(pipe(ends), 0);
    redirect(ends[1]);
    struct observers *o = NULL;
    int r = observers_create(&text_config, 1, &o, NULL);
    for (int i = 0; r == 0 && i < BATCHES; i++)
        give(o, &m, "e", EACH);
    struct observer_counts full = {0}, after = {0};
    const char *name;
    (void)observers_counts(o, 0, &name, &full);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    for (size_t before = SIZE_MAX; before != text.n;) { /* until neither end moves */
        before = text.n;
        take_all(ends[0], &text);
        observers_tick(o, clock_mono_ns());
    }
    (void)observers_counts(o, 0, &name, &after);
    restore();
    assert_int_equal(r, 0);
    assert_true(full.queued > 0 && full.dropped > 0);
    assert_int_equal(full.taken, BATCHES * EACH);
    assert_int_equal(full.taken, full.passed + full.dropped + full.queued);
    assert_int_equal(after.queued, 0);
    assert_int_equal(after.dropped, full.dropped);
    assert_int_equal(count_lines(strbuf_slice(&text), "\n"), after.passed);
    assert_int_equal(text.p[text.n - 1], '\n');
    observers_destroy(o);
    (void)close(ends[0]);
    (void)close(ends[1]);
    strbuf_fini(&text);
    maker_fini(&m);
}

/* On a terminal: short lines, and nothing in them that a terminal obeys. */
static void test_terminal(void **unused)
{
    static const char evil[] = "a\x1b[2J\xc2\x9b"
                               "c\nd";
    const struct named_value values[] = {
        {SLICE_LIT("i"), value_int(-3)},
        {SLICE_LIT("u"), value_uint(7)},
        {SLICE_LIT("f"), value_float(0.5)},
        {SLICE_LIT("b"), value_bool(true)},
        {SLICE_LIT("plain"), value_text(SLICE_LIT("/a/b"))},
        {SLICE_LIT("empty"), value_text(SLICE_LIT(""))},
        {SLICE_LIT("evil"), value_text(slice_str(evil))},
        {SLICE_LIT("bytes"), value_bytes(SLICE_LIT("\x00\xff"))},
    };
    const struct event_head head = {.time_ns = INT64_C(1800000000123456789),
                                    .name = SLICE_LIT("job.state"),
                                    .host = SLICE_LIT("node7"),
                                    .level = LEVEL_WARNING};
    struct maker m;
    struct termios raw;
    char got[400] = "";
    int terminal, program;
    (void)unused;
    if (openpty(&terminal, &program, NULL, NULL, NULL) < 0)
        skip();
    assert_int_equal(tcgetattr(program, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(program, TCSANOW, &raw), 0);
    maker_init(&m);
    assert_int_equal(batch_builder_add(m.builder, &head, values, 8, NULL), 0);
    struct batch *b = batch_builder_finish(m.builder, NULL);
    redirect(program);
    struct observers *o = NULL;
    int r = observers_create(&text_config, 1, &o, NULL);
    if (r == 0)
        observers_batch(o, b);
    restore();
    assert_int_equal(r, 0);
    struct pollfd p = {.fd = terminal, .events = POLLIN};
    size_t n = 0;
    while (!strchr(got, '\n') && n < sizeof got - 1 && poll(&p, 1, 30000) > 0) {
        ssize_t more = read(terminal, got + n, sizeof got - 1 - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
    assert_string_equal(got,
                        "08:00:00.123 node7 job.state [warning] i=-3 u=7 f=0.5 b=true plain=/a/b empty=\"\" "
                        "evil=\"a\\x1b[2J\\xc2\\x9bc\\x0ad\" bytes=x'00ff'\n");
    batch_unref(b);
    observers_destroy(o);
    (void)close(terminal);
    (void)close(program);
    maker_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_filters, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_mixed_batch, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_two, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_refusals, make_folder, remove_folder),
        cmocka_unit_test(test_none),
        cmocka_unit_test_setup_teardown(test_text, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_slow_reader, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_terminal, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
