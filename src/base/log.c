/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>

enum { SAFE_MAX = 200, LINE_MAX_BYTES = 1024 };

static const char *program = "gridline";
static bool quiet;

void log_start(const char *name)
{
    program = name;
}

void log_quiet(bool is_quiet)
{
    quiet = is_quiet;
}

__attribute__((format(printf, 1, 0))) static void write_line(const char *format, va_list ap)
{
    char line[LINE_MAX_BYTES];
    (void)vsnprintf(line, sizeof line, format, ap);   /* cut to fit is fine for a message */
    (void)fprintf(stderr, "%s: %s\n", program, line); /* nothing to do when stderr is gone */
}

void log_info(const char *format, ...)
{
    if (quiet)
        return;
    va_list ap;
    va_start(ap, format);
    write_line(format, ap);
    va_end(ap);
}

void log_error(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    write_line(format, ap);
    va_end(ap);
}

struct slice log_safe(struct slice s)
{
    if (s.n > SAFE_MAX || !text_is_utf8(s) || text_has_control(s))
        return (struct slice){"", 0};
    return s;
}

bool log_limit_pass(struct log_limit *l)
{
    int64_t second = clock_mono_ns() / NS_PER_S;
    if (second != l->second) {
        if (l->left_out)
            log_info("%" PRIu64 " lines like the last ones were left out", l->left_out);
        *l = (struct log_limit){.second = second};
    }
    if (l->said < LOG_BURST) {
        l->said++;
        return true;
    }
    l->left_out++;
    return false;
}
