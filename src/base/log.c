/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>

enum { SAFE_MAX = 200, LINE_MAX_BYTES = 1024 };

static const char *program = "gridline";
static bool quiet;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the sites and the order of lines */
static struct log_site *sites;

void log_start(const char *name)
{
    program = name;
}

void log_quiet(bool is_quiet)
{
    quiet = is_quiet;
}

/* Begins a new window for every site whose window is over, and says what was suppressed in the old one. */
static void end_windows(int64_t now_ns)
{
    for (struct log_site *s = sites; s; s = s->next) {
        if (now_ns - s->began_ns < LOG_WINDOW_S * NS_PER_S)
            continue;
        if (s->suppressed) /* nothing to do when stderr is gone; also below */
            (void)fprintf(stderr,
                          "%s: %" PRIu64 " more lines like this in %d s were suppressed, the last: %s\n",
                          program, s->suppressed, LOG_WINDOW_S, s->last);
        s->began_ns = now_ns;
        s->said = 0;
        s->suppressed = 0;
    }
}

void log_line(struct log_site *site, bool is_error, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list ap;
    if (quiet && !is_error)
        return;
    va_start(ap, format);
    (void)vsnprintf(line, sizeof line, format, ap); /* cut to fit is fine for a message */
    va_end(ap);
    const int64_t now_ns = clock_mono_ns();
    (void)pthread_mutex_lock(&lock);
    end_windows(now_ns);
    if (site->began_ns == 0) {
        site->began_ns = now_ns;
        site->next = sites;
        sites = site;
    }
    if (site->said < LOG_BURST) {
        site->said++;
        (void)fprintf(stderr, "%s: %s\n", program, line);
    } else {
        site->suppressed++;
        (void)snprintf(site->last, sizeof site->last, "%.*s", (int)sizeof site->last - 1,
                       line); /* the same */
    }
    (void)pthread_mutex_unlock(&lock);
}

struct slice log_safe(struct slice s)
{
    if (s.n > SAFE_MAX || !text_is_utf8(s) || text_has_control(s))
        return (struct slice){"", 0};
    return s;
}
