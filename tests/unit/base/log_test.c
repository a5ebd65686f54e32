/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

/* Lines that were written to stderr since it was caught. */
struct caught {
    FILE *file;
    int before;
};

static void catch_lines(struct caught *c)
{
    c->file = tmpfile();
    assert_non_null(c->file);
    (void)fflush(stderr);
    c->before = dup(STDERR_FILENO);
    assert_true(dup2(fileno(c->file), STDERR_FILENO) >= 0);
}

/* How many contain text; the last of them is in line. */
static unsigned release_lines(struct caught *c, const char *text, char line[1024])
{
    unsigned n = 0;
    char next[1024];
    (void)fflush(stderr);
    assert_true(dup2(c->before, STDERR_FILENO) >= 0);
    (void)close(c->before);
    rewind(c->file);
    while (fgets(next, sizeof next, c->file))
        if (strstr(next, text)) {
            (void)snprintf(line, sizeof next, "%s", next);
            n++;
        }
    (void)fclose(c->file);
    return n;
}

/* A site that writes in a loop: a burst passes, the rest is counted, and is said when the window is over,
 * also if only another site writes then. */
static void test_burst(void **state)
{
    (void)state;
    static struct log_site site, other;
    struct caught c;
    char line[1024] = "";
    catch_lines(&c);
    for (int i = 1; i <= LOG_BURST + 37; i++)
        log_line(&site, true, "record %d can't be read", i);
    log_line(&other, false, "all else is written");
    assert_int_equal(release_lines(&c, "", line), LOG_BURST + 1);
    assert_int_equal(site.suppressed, 37);
    site.began_ns -= LOG_WINDOW_S * NS_PER_S;
    catch_lines(&c);
    log_line(&other, false, "later");
    assert_int_equal(release_lines(&c, "37 more lines like this in 60 s were suppressed", line), 1);
    assert_non_null(strstr(line, "the last: record 137 can't be read"));
    catch_lines(&c);
    log_line(&site, true, "record %d can't be read", 1);
    assert_int_equal(release_lines(&c, "", line), 1);
}

/* Each call has a limit of its own. */
static void test_sites(void **state)
{
    (void)state;
    struct caught c;
    char line[1024];
    catch_lines(&c);
    for (int i = 0; i < 2 * LOG_BURST; i++) {
        log_error("one %d", i);
        if (i % 2)
            log_info("other %d", i);
    }
    assert_int_equal(release_lines(&c, "", line), 2 * LOG_BURST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_burst), cmocka_unit_test(test_sites)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
