/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct side {
    struct registry *registry;
    struct batch_builder *builder;
    struct outputs *outputs;
};

static void begin(struct side *s, const char *path, const char *encoding)
{
    struct diag why = {0};
    const struct output_config c = {.name = "o", .path = path, .encoding = encoding};
    s->registry = registry_create();
    s->builder = batch_builder_create(s->registry, 0);
    assert_int_equal(outputs_create(&c, 1, &s->outputs, &why), 0);
}

static void end(struct side *s)
{
    outputs_destroy(s->outputs);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
}

static void give(struct side *s, size_t text_bytes)
{
    static char text[60000];
    memset(text, 'x', sizeof text);
    const struct named_value v = {SLICE_LIT("t"), value_text(slice_of(text, text_bytes))};
    const struct event_head head = {
        .time_ns = 1, .name = SLICE_LIT("e"), .host = SLICE_LIT("h"), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(s->builder, &head, &v, 1, NULL), 0);
    struct batch *b = batch_builder_finish(s->builder, NULL);
    outputs_batch(s->outputs, b);
    batch_unref(b);
}

/* A full disk: nothing waits, memory is bounded, and what is taken and dropped adds up. */
static void full_disk(void **state)
{
    (void)state;
    enum { EVENTS = 200 };
    struct side s;
    uint64_t passed, dropped;
    begin(&s, "/dev/full", "ulm");
    for (int i = 0; i < EVENTS; i++)
        give(&s, 50000);
    outputs_counts(s.outputs, &passed, &dropped);
    assert_true(dropped > 0);
    assert_true(passed * 50000 < 2 * OUTPUT_MAX);
    assert_int_equal(passed + dropped, EVENTS);
    end(&s);
}

/* A pipe that nobody reads does not block; read again, it gives whole lines. */
static void slow_pipe(void **state)
{
    (void)state;
    char folder[] = "/tmp/gridline-outputs.XXXXXX", path[64], buffer[4096];
    struct side s;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    begin(&s, path, "ndjson");
    for (int i = 0; i < 10; i++)
        give(&s, 50000);
    size_t lines = 0, bytes = 0;
    for (int idle = 0; idle < 3;) {
        ssize_t n = read(reader, buffer, sizeof buffer);
        idle = n > 0 ? 0 : idle + 1;
        for (ssize_t i = 0; i < n; i++)
            lines += buffer[i] == '\n';
        bytes += n > 0 ? (size_t)n : 0;
        outputs_flush(s.outputs);
    }
    assert_int_equal(lines, 10);
    assert_true(bytes > 500000);
    end(&s);
    assert_int_equal(close(reader), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A log that was rotated away is begun anew after a reload. */
static void reopened(void **state)
{
    (void)state;
    char folder[] = "/tmp/gridline-outputs.XXXXXX", path[64], old[64];
    struct side s;
    struct stat st;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(old, sizeof old, "%s/log.1", folder);
    begin(&s, path, "ulm");
    give(&s, 10);
    assert_int_equal(rename(path, old), 0);
    outputs_reopen(s.outputs);
    give(&s, 10);
    end(&s);
    assert_true(stat(old, &st) == 0 && st.st_size > 0);
    assert_true(stat(path, &st) == 0 && st.st_size > 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(old), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk),
        cmocka_unit_test(slow_pipe),
        cmocka_unit_test(reopened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
