/* SPDX-License-Identifier: Apache-2.0 */
/* gridline.h - instrument a program: time-stamped, typed events at the price of a memory copy.
 *
 *     gridline *log = gridline_open("mover", "unix:/run/gridline/agent.sock", 0);
 *     GRIDLINE_EVENT(log, GRIDLINE_INFO, "transfer.start", (u64, "id", id), (text, "file", path));
 *     gridline_write(log, GRIDLINE_INFO, "transfer.end", "id=%llu bytes=%zu rate=%g", id, n, rate);
 *     gridline_close(log);
 *
 * It lives in other people's programs: it never blocks, aborts, prints, changes errno or starts a thread unasked;
 * it links libc only. Every call takes a NULL handle and does nothing with it, so the result of gridline_open
 * need not be checked. What must be dropped is counted (gridline_stats) and reported as an event
 * (gridline.dropped). All calls may be made from any thread, and after fork(); GRIDLINE_EVENT also from a signal
 * handler. A handle may be used until gridline_close returns, which must not run beside other calls on it.
 *
 * Cost: GRIDLINE_EVENT about 25 ns enabled (a clock read and a copy into this thread's ring; no lock, no
 * allocation), under 1 ns disabled. gridline_write about 200 ns.
 *
 * Who does the writing? Events wait in a ring per thread (1 MiB; GRIDLINE_RING in the environment changes
 * that). With GRIDLINE_THREAD a writer thread empties the rings; a full ring then drops (counted). Without it
 * the calling thread does, when its ring is half full, when the oldest event is a second old, on
 * gridline_flush and on close: into files by write(2), into sockets without waiting; a full ring drops only
 * while another thread is at it. Ask for the thread where a file system could hang.
 *
 * Time is local UTC. Where an agent runs on the host and has its gateway's time, events get that: its page with the
 * offset is found in /run/gridline/clock (or where an agent of this user has it), or where GRIDLINE_CLOCK in the
 * environment says; empty = nowhere. Offset and bound are in every block: docs/time.md.
 *
 * GRIDLINE_EVENT does not write out where it might be in a signal handler: with a signal blocked that has a
 * handler, on the alternate stack, or in a program that has a handler with SA_NODEFER; then another call,
 * another thread or the writer thread must. */
#ifndef GRIDLINE_GRIDLINE_H
#define GRIDLINE_GRIDLINE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GRIDLINE_API __attribute__((visibility("default")))
#define GRIDLINE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define GRIDLINE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define GRIDLINE_API
#define GRIDLINE_PRINTF(f, a)
#define GRIDLINE_UNLIKELY(x) (x)
#endif

/* ------------------------------------------------------------------ handles */

typedef struct gridline gridline;

/* Levels, most important first: the vocabularies of ULM and NetLogger BP. */
enum gridline_level {
    GRIDLINE_EMERGENCY = 0,
    GRIDLINE_ALERT = 1,
    GRIDLINE_CRITICAL = 2,
    GRIDLINE_ERROR = 3,
    GRIDLINE_WARNING = 4,
    GRIDLINE_AUTH = 5,
    GRIDLINE_SECURITY = 6,
    GRIDLINE_IMPORTANT = 7,
    GRIDLINE_NOTICE = 8,
    GRIDLINE_SYSTEM = 9,
    GRIDLINE_USAGE = 10,
    GRIDLINE_INFO = 11,
    GRIDLINE_DEBUG = 12,
    GRIDLINE_TRACE = 13
};

/* Flags of gridline_open. */
#define GRIDLINE_THREAD 1u /* start a writer thread */
#define GRIDLINE_ENV    2u /* GRIDLINE_DEST (or NETLOGGER_DEST), if set, replaces url; with no destination: off */
#define GRIDLINE_MANUAL 4u /* write only on gridline_flush, when a ring is full, and on close */

/* prog names the program in each event. url is one destination or several separated by spaces:
 *   file:PATH or PATH      a file, appended; encoding by ending (.ulm .bp .ndjson .xml .csv .glb) or ?format=NAME
 *   mem:SIZE               the newest SIZE bytes in memory; gridline_dump writes them out
 *   syslog:                ULM lines to the local syslog
 *   unix:PATH              the agent or gateway of this host, acknowledged
 *   tcp://HOST[:PORT]      the same over TCP, plain (port 14830); x-netlog:// is the same
 * Level: events up to GRIDLINE_INFO are on at first (GRIDLINE_LEVEL in the environment changes that).
 * Without a destination (NULL, "") all events are off until gridline_add.
 * NULL with errno set when an argument is bad, memory is short, a file can't be opened, or 31 handles are
 * open. A stream or syslog that can't be reached now is not an error. Resolving HOST may take as long as the
 * resolver does. */
GRIDLINE_API gridline *gridline_open(const char *prog, const char *url, unsigned flags);
/* Writes out what is left (waiting at most a second for acknowledgements; what is not acknowledged by then goes
 * to the backup, or is counted as dropped), then frees. */
GRIDLINE_API void gridline_close(gridline *g);

/* One more destination. 0, or a negative errno. */
GRIDLINE_API int gridline_add(gridline *g, const char *url);
/* Where events go while the stream destination (unix:, tcp:) can't take them: a directory that holds at most
 * max_bytes (0 = 64 MiB), crash-safe. When the destination is back its content is sent first, in order, once. What
 * an earlier run of the program left there is sent too. */
GRIDLINE_API int gridline_backup(gridline *g, const char *dir, uint64_t max_bytes);

/* A field that every event of this handle carries, e.g. ("job", "text", "1234.5"). Set before the first event;
 * type is one of u64 i64 f64 bool text; the value is given as text. 0, or a negative errno. */
GRIDLINE_API int gridline_set_const(gridline *g, const char *name, const char *type, const char *value);
GRIDLINE_API int gridline_set_host(gridline *g, const char *host); /* default: gethostname */
/* The text fields (at most 16, names separated by commas) by which events of that name are told apart: what is latest,
 * summarised and archived is so for each of their values ("device"). For events of gridline_write and
 * gridline_write_values; set before the first of them. 0, or a negative errno. */
GRIDLINE_API int gridline_set_key(gridline *g, const char *event, const char *fields);

/* Writes out what all threads have put in their rings. timeout_ms: how long to wait for the destinations to take
 * it (stream: acknowledge it); 0 = start and do not wait. 0 when everything was taken, -EAGAIN when not yet. */
GRIDLINE_API int gridline_flush(gridline *g, int timeout_ms);
/* Copies what a mem: destination holds to another one (a file: URL). */
GRIDLINE_API int gridline_dump(gridline *g, const char *url);

/* What happened so far to the events of this handle and its first destination: taken = passed + dropped + queued,
 * exactly. gridline_stats_at: its i-th destination, -ENOENT when there are fewer. size is
 * sizeof(struct gridline_stats): later versions add fields at the end. */
struct gridline_stats {
    uint64_t taken;    /* events written by the program (enabled ones), and the library's own (gridline.*) */
    uint64_t passed;   /* written to the destination (stream: acknowledged) */
    uint64_t queued;   /* in rings, in memory, sent but not acknowledged, or in the backup */
    uint64_t dropped;  /* sum of the reasons below */
    uint64_t dropped_ring_full;    /* rings full: the writer could not keep up */
    uint64_t dropped_nested;       /* a signal handler interrupted a signal handler in the middle of an event */
    uint64_t dropped_too_large;    /* over a limit of the event model, or a name or format that is not allowed */
    uint64_t dropped_unwritable;   /* destination and backup could not take it (disk full, queue full) */
    uint64_t dropped_memory;       /* mem: overwrote it, or no memory */
    uint64_t dropped_refused;      /* the receiver said never */
    uint64_t refused_too_old;      /* of dropped_refused: older than the receiver keeps it */
    uint64_t refused_too_new; /* of dropped_refused: further ahead of the receiver's clock than it takes */
};
GRIDLINE_API void gridline_stats(gridline *g, struct gridline_stats *out, size_t size);
GRIDLINE_API int gridline_stats_at(gridline *g, unsigned i, struct gridline_stats *out, size_t size);

/* ------------------------------------------------------------------ activation */

/* Events up to this level are on. */
GRIDLINE_API void gridline_set_level(gridline *g, int level);
/* For event names that match the shell pattern; later calls win. level -1 = off. 0, -EINVAL, -ENOMEM, or
 * -ENOSPC (over 1024 patterns). */
GRIDLINE_API int gridline_set_event_level(gridline *g, const char *pattern, int level);
/* Follows a control file (also GRIDLINE_CONTROL in the environment; without either, the one that this host's agent writes
 * for `gridline activate`): lines of `PATTERN LEVEL`, `#` comments; it
 * replaces the pattern levels each time it changes. Looked at once a second by the writer thread, or by any call
 * that writes an event, flushes or polls: a disabled GRIDLINE_EVENT alone looks at nothing. */
GRIDLINE_API int gridline_watch(gridline *g, const char *path);
GRIDLINE_API void gridline_poll(gridline *g);

/* ------------------------------------------------------------------ writing events */

/* printf-like: format is "name=%conv name=%conv …"; conversions d i u x (with hh h l ll z j t), c, f g e, s,
 * p. d i are int, u x uint, f g e float, c s text, p text. Text that stands for a conversion is a constant
 * field ("state=ok"): a number or bool where it is written as one, else text. Flags and widths are read over; %.*s takes part of a text; a NULL text is left
 * out. 0 (also when the event is off), or a negative errno: -EINVAL (bad format or name), -E2BIG (over a
 * limit), -ENOBUFS (no room); the event is then counted as dropped. */
GRIDLINE_API int gridline_write(gridline *g, int level, const char *event, const char *format, ...)
    GRIDLINE_PRINTF(4, 5);
GRIDLINE_API int gridline_vwrite(gridline *g, int level, const char *event, const char *format, va_list ap)
    GRIDLINE_PRINTF(4, 0);
/* The same at a given time (ns since 1970, UTC by this host's clock). */
GRIDLINE_API int gridline_write_at(gridline *g, int64_t time_ns, int level, const char *event, const char *format,
                                   ...) GRIDLINE_PRINTF(5, 6);

/* For bindings and generated code: n typed fields. type is a letter: i u f b t x (int, uint, float, bool, text,
 * bytes), or n: text without a type, as ULM and CSV have it, which is a number where it is written as one (0.50; the
 * spelling is kept), true, false, or text. time_ns 0 = now. */
struct gridline_value {
    const char *name;
    char type;
    union {
        int64_t i;
        uint64_t u; /* also b */
        double f;
        const char *p; /* t, x, n */
    } v;
    size_t n; /* length of t, x and n; (size_t)-1: t or n is NUL-terminated */
};
GRIDLINE_API int gridline_write_values(gridline *g, int64_t time_ns, int level, const char *event,
                                       const struct gridline_value *values, size_t n);

/* The fast path: a static schema per call site.
 *   GRIDLINE_EVENT(handle, level, "event.name", (type, "field", value), …)       1 to 16 fields
 *   GRIDLINE_POINT(handle, level, "event.name")                                  none
 * types: i64 u64 f64 b (bool) text (NUL-terminated, NULL = missing) textn (pointer, length: 4 elements)
 * Event and field names are string literals; level is a constant. Values are evaluated once, or not at all
 * while the event is off in every handle (but for the first pass of a call site, which finds that out). */
#define GRIDLINE_EVENT(handle, level, event, ...)                                                            \
    do {                                                                                                     \
        static const struct gridline_field gridline_fields_[] = {                                            \
            GRIDLINE_EACH(GRIDLINE_FIELD_, __VA_ARGS__){0, 0}};                                              \
        static struct gridline_site gridline_site_ = {                                                       \
            1, (level), sizeof(gridline_fields_) / sizeof(*gridline_fields_) - 1, 1, 0,                      \
            event, gridline_fields_, 0};                                                                     \
        if (GRIDLINE_UNLIKELY(__atomic_load_n(&gridline_site_.on, __ATOMIC_RELAXED))) {                      \
            GRIDLINE_EACH(GRIDLINE_LOCAL_, __VA_ARGS__)                                                      \
            struct gridline_slot gridline_slot_ =                                                            \
                gridline_begin(handle, &gridline_site_, 0 GRIDLINE_EACH(GRIDLINE_SIZE_, __VA_ARGS__));       \
            if (gridline_slot_.at) {                                                                         \
                char *gridline_at_ = gridline_slot_.at;                                                      \
                GRIDLINE_EACH(GRIDLINE_PUT_, __VA_ARGS__)                                                    \
                (void)gridline_at_;                                                                          \
                gridline_end(gridline_slot_);                                                                \
            }                                                                                                \
        }                                                                                                    \
    } while (0)

#define GRIDLINE_POINT(handle, level, event)                                                                 \
    do {                                                                                                     \
        static struct gridline_site gridline_site_ = {1, (level), 0, 1, 0, event, 0, 0};                     \
        if (GRIDLINE_UNLIKELY(__atomic_load_n(&gridline_site_.on, __ATOMIC_RELAXED))) {                      \
            struct gridline_slot gridline_slot_ = gridline_begin(handle, &gridline_site_, 0);                \
            if (gridline_slot_.at)                                                                           \
                gridline_end(gridline_slot_);                                                                \
        }                                                                                                    \
    } while (0)

/* ------------------------------------------------------------------ beyond single events */

/* A counter or a timer, reported as an event when asked (gridline_counter_report, gridline_timer_report) and on
 * close. Adding is an atomic add. Created once per name; freed with the handle. NULL handle or no memory gives
 * NULL, which every call takes. */
typedef struct gridline_counter gridline_counter;
GRIDLINE_API gridline_counter *gridline_counter_get(gridline *g, const char *name);
GRIDLINE_API void gridline_counter_add(gridline_counter *c, int64_t n);
GRIDLINE_API void gridline_counter_report(gridline_counter *c); /* event NAME: count */
/* An event NAME.threshold each time the count crosses limit, upwards or downwards. */
GRIDLINE_API int gridline_counter_threshold(gridline_counter *c, int64_t limit);

/* Wall-clock and processor time (of the calling thread) spent between start and stop; nests, one a thread. */
typedef struct gridline_timer gridline_timer;
GRIDLINE_API gridline_timer *gridline_timer_get(gridline *g, const char *name);
GRIDLINE_API void gridline_timer_start(gridline_timer *t);
GRIDLINE_API void gridline_timer_stop(gridline_timer *t);
GRIDLINE_API void gridline_timer_report(gridline_timer *t); /* event NAME: count, wall.ns, cpu.ns */

/* Count, sum, min, max and a log-linear histogram (8 buckets an octave: quantiles to 9%) of a value at a named
 * point; emitted every interval (0 = only on close) as an event NAME: count sum min max mean p50 p95 p99. */
typedef struct gridline_summary gridline_summary;
GRIDLINE_API gridline_summary *gridline_summary_get(gridline *g, const char *name, double interval_s);
GRIDLINE_API void gridline_summary_add(gridline_summary *s, double value);
GRIDLINE_API void gridline_summary_report(gridline_summary *s);

/* Paradyn's time histogram: `buckets` counters of equal width in time (first_width_s); when time runs past the
 * last one, neighbours are added together and the width doubles, so any run fits. */
typedef struct gridline_histogram gridline_histogram;
GRIDLINE_API gridline_histogram *gridline_histogram_get(gridline *g, const char *name, unsigned buckets,
                                                        double first_width_s);
GRIDLINE_API void gridline_histogram_add(gridline_histogram *h, double value);
GRIDLINE_API void gridline_histogram_report(gridline_histogram *h); /* event NAME: start.ns width.s n buckets */

/* An event process.signal when this process gets the signal: signo name sender.pid sender.uid. What would have happened
 * without it happens after: the program's own handler, or the default. Before a signal ends the process the rings are
 * written out, if that can be done within 0.3 s; an acknowledgement is not waited for. 0, or -errno; -EBUSY when the
 * program has put its own handler over ours. At most 4 handles a signal. */
GRIDLINE_API int gridline_on_signal(gridline *g, int signo);
/* An event process.self with this process's own use: CPU, memory, faults, I/O, switches, threads, files. */
GRIDLINE_API void gridline_self(gridline *g);

/* "0.1.0" */
GRIDLINE_API const char *gridline_version(void);

/* ------------------------------------------------------------------ behind GRIDLINE_EVENT
 * Public only because call sites are compiled into the program. Layout is fixed for the soname; do not use. */

struct gridline_field {
    const char *name;
    char type; /* i u f b t */
};

struct gridline_site {
    unsigned on; /* bit per handle; bit 0 = not yet registered. The one thing a disabled site reads */
    unsigned char level, n_fields, version, reserved;
    const char *event;
    const struct gridline_field *fields;
    void *own; /* the library's */
};

struct gridline_slot {
    char *at; /* where the fields go; NULL: off or dropped */
    void *ring;
};

GRIDLINE_API struct gridline_slot gridline_begin(gridline *g, struct gridline_site *site, size_t size);
GRIDLINE_API void gridline_end(struct gridline_slot slot);

static inline char *gridline_put_word(char *at, const void *word)
{
    memcpy(at, word, 8);
    return at + 8;
}

/* u32 length, text, padded to 8; a missing text is length 0xffffffff. */
static inline char *gridline_put_text(char *at, const char *text, size_t n)
{
    uint32_t length = text ? (uint32_t)n : 0xffffffffu;
    memcpy(at, &length, 4);
    if (text)
        memcpy(at + 4, text, n);
    return at + ((4 + (text ? n : 0) + 7) & ~(size_t)7);
}

#define GRIDLINE_CAT_(a, b) a##b
#define GRIDLINE_CAT(a, b) GRIDLINE_CAT_(a, b)

/* (type, "name", value): what each type is in the site's table, as a local, in size and in the ring. */
#define GRIDLINE_FIELD_(i, t) GRIDLINE_FIELD_2 t
#define GRIDLINE_FIELD_2(type, name, ...) {name, GRIDLINE_LETTER_##type},
#define GRIDLINE_LETTER_i64 'i'
#define GRIDLINE_LETTER_u64 'u'
#define GRIDLINE_LETTER_f64 'f'
#define GRIDLINE_LETTER_b 'b'
#define GRIDLINE_LETTER_text 't'
#define GRIDLINE_LETTER_textn 't'

#define GRIDLINE_OPEN(...) __VA_ARGS__

#define GRIDLINE_LOCAL_(i, t) GRIDLINE_LOCAL_2(i, GRIDLINE_OPEN t)
#define GRIDLINE_LOCAL_2(i, ...) GRIDLINE_LOCAL_3(i, __VA_ARGS__)
#define GRIDLINE_LOCAL_3(i, type, name, ...) GRIDLINE_LOCAL_##type(i, __VA_ARGS__)
#define GRIDLINE_LOCAL_i64(i, v) int64_t gridline_v##i##_ = (int64_t)(v);
#define GRIDLINE_LOCAL_u64(i, v) uint64_t gridline_v##i##_ = (uint64_t)(v);
#define GRIDLINE_LOCAL_f64(i, v) double gridline_v##i##_ = (double)(v);
#define GRIDLINE_LOCAL_b(i, v) uint64_t gridline_v##i##_ = (v) ? 1 : 0;
#define GRIDLINE_LOCAL_text(i, v)                                                                            \
    const char *gridline_v##i##_ = (v);                                                                      \
    size_t gridline_n##i##_ = gridline_v##i##_ ? strlen(gridline_v##i##_) : 0;
#define GRIDLINE_LOCAL_textn(i, v, n)                                                                        \
    const char *gridline_v##i##_ = (v);                                                                      \
    size_t gridline_n##i##_ = gridline_v##i##_ ? (size_t)(n) : 0;

#define GRIDLINE_SIZE_(i, t) GRIDLINE_SIZE_2(i, GRIDLINE_OPEN t)
#define GRIDLINE_SIZE_2(i, ...) GRIDLINE_SIZE_3(i, __VA_ARGS__)
#define GRIDLINE_SIZE_3(i, type, ...) +GRIDLINE_SIZE_##type(i)
#define GRIDLINE_SIZE_i64(i) 8
#define GRIDLINE_SIZE_u64(i) 8
#define GRIDLINE_SIZE_f64(i) 8
#define GRIDLINE_SIZE_b(i) 8
#define GRIDLINE_SIZE_text(i) ((gridline_n##i##_ + 11) & ~(size_t)7)
#define GRIDLINE_SIZE_textn(i) ((gridline_n##i##_ + 11) & ~(size_t)7)

#define GRIDLINE_PUT_(i, t) GRIDLINE_PUT_2(i, GRIDLINE_OPEN t)
#define GRIDLINE_PUT_2(i, ...) GRIDLINE_PUT_3(i, __VA_ARGS__)
#define GRIDLINE_PUT_3(i, type, ...) GRIDLINE_PUT_##type(i)
#define GRIDLINE_PUT_i64(i) gridline_at_ = gridline_put_word(gridline_at_, &gridline_v##i##_);
#define GRIDLINE_PUT_u64(i) gridline_at_ = gridline_put_word(gridline_at_, &gridline_v##i##_);
#define GRIDLINE_PUT_f64(i) gridline_at_ = gridline_put_word(gridline_at_, &gridline_v##i##_);
#define GRIDLINE_PUT_b(i) gridline_at_ = gridline_put_word(gridline_at_, &gridline_v##i##_);
#define GRIDLINE_PUT_text(i) gridline_at_ = gridline_put_text(gridline_at_, gridline_v##i##_, gridline_n##i##_);
#define GRIDLINE_PUT_textn(i) gridline_at_ = gridline_put_text(gridline_at_, gridline_v##i##_, gridline_n##i##_);

#define GRIDLINE_COUNT(...) GRIDLINE_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define GRIDLINE_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define GRIDLINE_EACH(f, ...) GRIDLINE_CAT(GRIDLINE_EACH_, GRIDLINE_COUNT(__VA_ARGS__))(f, __VA_ARGS__)
#define GRIDLINE_EACH_1(f, t) f(1, t)
#define GRIDLINE_EACH_2(f, t, ...) f(2, t) GRIDLINE_EACH_1(f, __VA_ARGS__)
#define GRIDLINE_EACH_3(f, t, ...) f(3, t) GRIDLINE_EACH_2(f, __VA_ARGS__)
#define GRIDLINE_EACH_4(f, t, ...) f(4, t) GRIDLINE_EACH_3(f, __VA_ARGS__)
#define GRIDLINE_EACH_5(f, t, ...) f(5, t) GRIDLINE_EACH_4(f, __VA_ARGS__)
#define GRIDLINE_EACH_6(f, t, ...) f(6, t) GRIDLINE_EACH_5(f, __VA_ARGS__)
#define GRIDLINE_EACH_7(f, t, ...) f(7, t) GRIDLINE_EACH_6(f, __VA_ARGS__)
#define GRIDLINE_EACH_8(f, t, ...) f(8, t) GRIDLINE_EACH_7(f, __VA_ARGS__)
#define GRIDLINE_EACH_9(f, t, ...) f(9, t) GRIDLINE_EACH_8(f, __VA_ARGS__)
#define GRIDLINE_EACH_10(f, t, ...) f(10, t) GRIDLINE_EACH_9(f, __VA_ARGS__)
#define GRIDLINE_EACH_11(f, t, ...) f(11, t) GRIDLINE_EACH_10(f, __VA_ARGS__)
#define GRIDLINE_EACH_12(f, t, ...) f(12, t) GRIDLINE_EACH_11(f, __VA_ARGS__)
#define GRIDLINE_EACH_13(f, t, ...) f(13, t) GRIDLINE_EACH_12(f, __VA_ARGS__)
#define GRIDLINE_EACH_14(f, t, ...) f(14, t) GRIDLINE_EACH_13(f, __VA_ARGS__)
#define GRIDLINE_EACH_15(f, t, ...) f(15, t) GRIDLINE_EACH_14(f, __VA_ARGS__)
#define GRIDLINE_EACH_16(f, t, ...) f(16, t) GRIDLINE_EACH_15(f, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
