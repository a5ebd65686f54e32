/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/say.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { DRAW_EVERY_MS = 500, QUIET_MS = 1000 };
static const int64_t ns_per_ms = 1000000;

/* The log sink of a command. */
static struct {
    const char *name;
    const char *what; /* NULL: no progress */
    uint64_t total;
    int64_t start_ns, drawn_ns;
    bool is_drawn;
} sink = {.name = ""};

static void clear_line(void)
{
    if (sink.is_drawn)
        (void)fputs("\r\x1b[K", stderr); /* nowhere to report it */
    sink.is_drawn = false;
}

void say_start(const char *name)
{
    sink.name = name;
}

void say(const char *format, ...)
{
    va_list ap;
    clear_line();
    (void)fprintf(stderr, "gridline%s%s: ", *sink.name ? " " : "", sink.name);
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}

void say_plain(const char *format, ...)
{
    va_list ap;
    clear_line();
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}

void say_notices(const struct notices *notices)
{
    for (uint32_t i = 0; i < notices->n; i++)
        say("%s", notices->list[i].text);
    if (notices->left_out)
        say("and %" PRIu32 " more of these", notices->left_out);
}

void say_progress_start(const char *what, uint64_t total)
{
    if (!isatty(STDERR_FILENO))
        return;
    sink.what = what;
    sink.total = total;
    sink.start_ns = sink.drawn_ns = clock_mono_ns();
}

static void draw(uint64_t done, int64_t now_ns)
{
    double mib = (double)done / (1 << 20), seconds = (double)(now_ns - sink.start_ns) / 1e9;
    clear_line();
    (void)fprintf(stderr, "%s %.0f MiB, %.0f MiB/s", sink.what, mib, mib / seconds);
    if (sink.total > done && done)
        (void)fprintf(stderr, ", %.0f%%, %.0f s left", 100.0 * (double)done / (double)sink.total,
                      seconds * (double)(sink.total - done) / (double)done);
    (void)fflush(stderr);
    sink.is_drawn = true;
}

void say_progress(uint64_t done)
{
    if (!sink.what)
        return;
    int64_t now = clock_mono_ns();
    if (now - sink.start_ns < QUIET_MS * ns_per_ms || now - sink.drawn_ns < DRAW_EVERY_MS * ns_per_ms)
        return;
    sink.drawn_ns = now;
    draw(done, now);
}

void say_progress_end(void)
{
    clear_line();
    sink.what = NULL;
}

void say_status(const char *format, ...)
{
    va_list ap;
    if (!isatty(STDERR_FILENO))
        return;
    clear_line();
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fflush(stderr);
    sink.is_drawn = true;
}

bool say_confirm(const char *format, ...)
{
    char line[16];
    va_list ap;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    clear_line();
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputs(" [y/N] ", stderr);
    (void)fflush(stderr);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}
