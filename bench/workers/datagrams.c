/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams as an agent's: the schema of the sensor `vector`, one row, differences to the announced baseline,
 * all of the same size, so that a relay's can go out with UDP_SEGMENT. Making each by event/samples.h would
 * cost more than sending it, so a few packets are made beforehand (they are the same for all workers, whose
 * streams are announced alike) and each datagram is a copy of one with its own number, sequence number and
 * time:
 *
 *     at 0   head (net/datagram.h)
 *        12  u8 flags of the packet
 *        13  varint sequence number: one packet of each kind for each length it can have
 *        ..  i64 time, then what stays as it is
 *
 * A row's values are chosen so that its codes take as many bytes as are left. One socket sends for all
 * workers, as a relaying gateway's does; with --gso each message holds that many datagrams of as many
 * workers. */
#include "base/clock.h"
#include "base/mem.h"
#include "emulator.h"
#include "event/samples.h"
#include "net/datagram.h"
#include "net/seal.h"
#include "sensor/sensor.h"

#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SLOTS = 512,     /* datagrams of one sendmmsg, at most */
    MESSAGES = 64,   /* of one sendmmsg without UDP_SEGMENT */
    SEQ_LENGTHS = 6, /* bytes of a sequence number: 2^42 are enough */
    VARIANTS = 16,   /* packets with other values */
    FIELDS_MAX = 32,
    FLOAT_BYTES = 6,
    UINT_BYTES = 8 /* of a code, at most */
};

struct held {
    size_t n;
    unsigned char bytes[DATAGRAM_MAX];
};

/* Whose datagram is in a slot, and whether it is its second copy. */
struct slot {
    struct worker *worker;
    bool is_copy;
};

struct datagrams {
    int fd;
    uint16_t port; /* 0: none yet */
    uint8_t level;
    bool has_templates;
    size_t packet_n; /* bytes of a packet: size without head and tag */
    unsigned char templates[SEQ_LENGTHS][VARIANTS][DATAGRAM_MAX];
    struct samples_writer *writer;
    struct schema *schema;
    struct value baseline[FIELDS_MAX];
    struct strbuf schema_payload, stream_payload;
    struct seal *seal;
    struct fault lose, twice, behind;
    uint32_t next; /* whose turn it is, among emulator.ready */
    size_t n;      /* slots that are filled */
    struct slot slots[SLOTS];
    unsigned char bytes[SLOTS * DATAGRAM_MAX];
    struct mmsghdr messages[SLOTS];
    struct iovec vectors[SLOTS];
};

/* ---------------------------------------------------------------- packets */

/* Floats have two decimals that are not zero, as the sensor's: m / 100 then, in the baseline and in every
 * row. */
static struct value base_value(const struct field *f, size_t i)
{
    return f->type == VALUE_FLOAT ? value_float((double)(101 + 1000 * i) / 100) : value_uint(1000 + 4096 * i);
}

/* Makes a code of that many bytes: zigzag of the step, and 2 or 3 more, as a varint. */
static struct value stepped(struct emulator *e, const struct field *f, struct value base, size_t i,
                            unsigned bytes)
{
    uint64_t low = bytes == 1 ? 1 : UINT64_C(1) << (7 * (bytes - 1) - 1),
             high = (UINT64_C(1) << (7 * bytes - 1)) - 2;
    uint64_t step = low + emulator_random(e) % (high - low);
    if (f->type != VALUE_FLOAT)
        return value_uint(base.u + step);
    return value_float((double)(101 + 1000 * i + step) / 100);
}

static void make_row(struct emulator *e, const unsigned *bytes, struct value *row)
{
    const struct datagrams *d = e->datagrams;
    for (size_t i = 0; i < d->schema->n_fields; i++)
        row[i] = stepped(e, &d->schema->fields[i], d->baseline[i], i, bytes[i]);
}

/* More or fewer bytes of codes, a field after the other. False: there are no rows of that size. */
static bool adjust(const struct schema *s, unsigned *bytes, int64_t by)
{
    size_t n_at_end = 0; /* fields in turn that could not change */
    for (size_t i = 0; by != 0 && n_at_end < s->n_fields; i = (i + 1) % s->n_fields) {
        unsigned most = s->fields[i].type == VALUE_FLOAT ? FLOAT_BYTES : UINT_BYTES;
        if (by > 0 ? bytes[i] == most : bytes[i] == 1) {
            n_at_end++;
            continue;
        }
        n_at_end = 0;
        bytes[i] = by > 0 ? bytes[i] + 1 : bytes[i] - 1;
        by += by > 0 ? -1 : 1;
    }
    return by == 0;
}

static int make_packet(struct emulator *e, const unsigned *bytes, uint64_t seq)
{
    static const struct batch_clock clock = {.bound_ns = 50000, .generation = 1};
    struct datagrams *d = e->datagrams;
    struct value row[FIELDS_MAX];
    make_row(e, bytes, row);
    strbuf_reset(&e->payload);
    int r = samples_writer_add(d->writer, 1, e->base_ns, row);
    return r < 0 ? r : samples_writer_finish(d->writer, seq, &clock, &e->payload);
}

static int make_templates(struct emulator *e, struct diag *why)
{
    struct datagrams *d = e->datagrams;
    size_t tag = d->level == SEAL_NONE ? 0 : DATAGRAM_TAG;
    d->packet_n = e->o.size - DATAGRAM_HEAD - tag;
    for (unsigned length = 0; length < SEQ_LENGTHS; length++) {
        unsigned bytes[FIELDS_MAX];
        uint64_t seq = length == 0 ? 1 : UINT64_C(1) << (7 * length);
        for (size_t i = 0; i < d->schema->n_fields; i++)
            bytes[i] = 2;
        int r = make_packet(e, bytes, seq);
        if (r < 0 || !adjust(d->schema, bytes, (int64_t)d->packet_n - (int64_t)e->payload.n))
            return diag_set(why, -EINVAL, 0, "datagrams of %zu bytes can't be made", (size_t)e->o.size);
        for (size_t i = 0; i < VARIANTS; i++) {
            if (make_packet(e, bytes, seq) < 0 || e->payload.n != d->packet_n)
                return diag_set(why, -EINVAL, 0, "a packet is %zu bytes, not %zu", e->payload.n, d->packet_n);
            memcpy(d->templates[length][i], e->payload.p, e->payload.n);
        }
    }
    d->has_templates = true;
    return 0;
}

/* ---------------------------------------------------------------- making one */

static void put_u64(unsigned char *to, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

static unsigned varint_length(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

/* The worker's next datagram. */
static void make(struct emulator *e, struct worker *w, int64_t utc_ns, unsigned char *to)
{
    struct datagrams *d = e->datagrams;
    uint64_t number = ++w->number, seq = number;
    unsigned length = varint_length(seq);
    assert(length <= SEQ_LENGTHS);
    e->tally.datagrams++;
    memcpy(to + DATAGRAM_HEAD, d->templates[length - 1][number % VARIANTS], d->packet_n);
    unsigned char *p = to + DATAGRAM_HEAD + 1;
    for (; seq >= 0x80; seq >>= 7)
        *p++ = (unsigned char)(seq | 0x80);
    *p++ = (unsigned char)seq;
    put_u64(p, (uint64_t)utc_ns, 8);
    datagram_put_head(to, &(struct datagram_head){w->level, (uint8_t)w->key_id, w->id, number});
    if (w->level != SEAL_NONE &&
        seal_close(d->seal, w->key, w->key_id, to, DATAGRAM_HEAD + d->packet_n) != (int64_t)e->o.size)
        abort(); /* OpenSSL can't encrypt 100 bytes: nothing that could be counted */
}

/* ---------------------------------------------------------------- sending */

static void count_unsent(struct emulator *e, const struct slot *slots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct worker *w = slots[i].worker;
        uint64_t *one = slots[i].is_copy ? &w->twice : &w->unsent;
        uint64_t *all = slots[i].is_copy ? &e->tally.datagrams_twice : &e->tally.datagrams_unsent;
        int64_t by = slots[i].is_copy ? -1 : 1;
        *one += (uint64_t)by;
        *all += (uint64_t)by;
    }
}

static void flush(struct emulator *e)
{
    struct datagrams *d = e->datagrams;
    size_t each = e->o.gso, n_messages = (d->n + each - 1) / each, at = 0;
    for (size_t i = 0; i < n_messages; i++) {
        size_t n = d->n - i * each < each ? d->n - i * each : each;
        d->vectors[i] = (struct iovec){d->bytes + i * each * e->o.size, n * e->o.size};
        d->messages[i].msg_hdr = (struct msghdr){.msg_iov = &d->vectors[i], .msg_iovlen = 1};
    }
    while (at < n_messages) {
        int n = sendmmsg(d->fd, d->messages + at, (unsigned)(n_messages - at), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            size_t first = at * each, behind = first + each < d->n ? first + each : d->n;
            count_unsent(e, d->slots + first, behind - first);
        }
        at += n < 0 ? 1 : (size_t)n;
    }
    d->n = 0;
}

static unsigned char *next_slot(struct emulator *e)
{
    struct datagrams *d = e->datagrams;
    if (d->n == (e->o.gso > 1 ? SLOTS / e->o.gso * e->o.gso : MESSAGES))
        flush(e);
    return d->bytes + d->n * e->o.size;
}

static void keep_slot(struct datagrams *d, struct worker *w, bool is_copy)
{
    d->slots[d->n++] = (struct slot){w, is_copy};
}

void datagrams_release(struct emulator *e, struct worker *w)
{
    struct datagrams *d = e->datagrams;
    if (!w->held || !w->held->n)
        return;
    memcpy(next_slot(e), w->held->bytes, w->held->n);
    keep_slot(d, w, false);
    flush(e);
    w->held->n = 0;
}

void datagrams_forget(struct worker *w)
{
    mem_free(w->held);
    w->held = NULL;
}

static void hold(struct emulator *e, struct worker *w, const unsigned char *bytes)
{
    if (!w->held)
        w->held = mem_alloc(sizeof *w->held);
    memcpy(w->held->bytes, bytes, e->o.size);
    w->held->n = e->o.size;
}

/* One datagram of w, or none or two. The one behind which another waits always goes. */
static void send_one(struct emulator *e, struct worker *w, int64_t utc_ns)
{
    struct datagrams *d = e->datagrams;
    unsigned char *p = next_slot(e);
    make(e, w, utc_ns, p);
    bool is_waited_for = w->held && w->held->n;
    if (!is_waited_for && emulator_strikes(e, &d->lose)) {
        w->lost++;
        e->tally.datagrams_lost++;
        return;
    }
    if (!is_waited_for && emulator_strikes(e, &d->behind)) {
        hold(e, w, p);
        return;
    }
    keep_slot(d, w, false);
    if (emulator_strikes(e, &d->twice)) {
        w->twice++;
        e->tally.datagrams_twice++;
        memcpy(next_slot(e), p, e->o.size);
        keep_slot(d, w, true);
    }
    if (is_waited_for) {
        memcpy(next_slot(e), w->held->bytes, w->held->n);
        keep_slot(d, w, false);
        w->held->n = 0;
        w->behind++;
        e->tally.datagrams_behind++;
    }
}

uint64_t datagrams_send(struct emulator *e, uint64_t n)
{
    struct datagrams *d = e->datagrams;
    if (!d->has_templates || e->n_ready == 0)
        return 0;
    int64_t utc_ns = clock_utc_ns();
    for (uint64_t i = 0; i < n; i++) {
        d->next = d->next + 1 < e->n_ready ? d->next + 1 : 0;
        send_one(e, e->ready[d->next], utc_ns);
    }
    flush(e);
    return n;
}

/* ---------------------------------------------------------------- life */

void datagrams_target(struct emulator *e, uint16_t port, uint8_t level)
{
    struct datagrams *d = e->datagrams;
    struct diag why = {0};
    if (port == 0 || (port == d->port && level == d->level && d->has_templates))
        return;
    struct sockaddr_in to = e->target.to;
    to.sin_port = htons(port);
    if (connect(d->fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        emulator_wrong(e, NULL, "no socket for datagrams: %s", err_text(-errno));
        return;
    }
    d->port = port;
    d->level = level;
    if (make_templates(e, &why) < 0)
        emulator_wrong(e, NULL, "%s", why.message);
}

/* What is announced: the sensor's own schema, and a baseline. */
static int announce(struct datagrams *d, struct diag *why)
{
    const struct sensor_ops *vector = sensor_find(SLICE_LIT("vector"));
    const struct sensor_schema *s = vector->schemas;
    uint32_t stream;
    int r = schema_create(slice_str(s->name), s->fields, s->n_fields, &d->schema);
    if (r == 0 && s->n_fields > FIELDS_MAX)
        r = E_LIMIT;
    for (size_t i = 0; r == 0 && i < s->n_fields; i++)
        d->baseline[i] = base_value(&s->fields[i], i);
    if (r == 0)
        r = samples_writer_announce(d->writer, d->schema, SLICE_LIT("gridline-agent"), d->baseline,
                                    &d->schema_payload, &d->stream_payload, &stream);
    return r < 0 ? diag_set(why, r, 0, "can't announce vector: %s", err_text(r)) : 0;
}

static int open_socket(struct emulator *e, struct diag *why)
{
    const int room = 8 << 20, size = (int)e->o.size;
    int fd = e->datagrams->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return diag_set(why, -errno, 0, "no socket: %s", err_text(-errno));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room); /* as much as there may be */
    if (e->o.gso > 1 && setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size) < 0)
        return diag_set(why, -errno, 0, "no UDP_SEGMENT here: %s", err_text(-errno));
    return 0;
}

int datagrams_create(struct emulator *e, struct diag *why)
{
    struct datagrams *d = e->datagrams = mem_alloc(sizeof *d);
    d->fd = -1;
    d->writer = samples_writer_create(0);
    d->seal = seal_create();
    if (!d->writer || !d->seal)
        return diag_set(why, -ENOMEM, 0, "no memory, or no AES-GCM in OpenSSL");
    int r = fault_parse("lose", e->o.lose, &d->lose, why);
    if (r == 0)
        r = fault_parse("twice", e->o.twice, &d->twice, why);
    if (r == 0)
        r = fault_parse("behind", e->o.behind, &d->behind, why);
    if (r == 0)
        r = announce(d, why);
    if (r == 0)
        r = open_socket(e, why);
    e->schema = strbuf_slice(&d->schema_payload);
    e->stream = strbuf_slice(&d->stream_payload);
    return r;
}

void datagrams_destroy(struct emulator *e)
{
    struct datagrams *d = e->datagrams;
    if (!d)
        return;
    if (d->fd >= 0)
        close(d->fd);
    samples_writer_destroy(d->writer);
    schema_unref(d->schema);
    seal_destroy(d->seal);
    strbuf_fini(&d->schema_payload);
    strbuf_fini(&d->stream_payload);
    mem_free(d);
}
