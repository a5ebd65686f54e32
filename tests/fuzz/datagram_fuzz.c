/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams as a gateway takes them. The input is a list of records: u8 how, u8 length, bytes. How a record
 * becomes a datagram: low bits 0  as it is; 1  its bytes are a head and a packet; version, level and key are
 * put right for one of three workers (one of each level), and it is sealed; 2  like 1, and then a bit is
 * flipped, chosen by the bits above. Every datagram has exactly one fate; one of kind 1 has the fate that a
 * list of all numbers so far says; nothing else reaches the sampler of a worker whose datagrams are sealed.
 */
#include "base/cursor.h"
#include "base/err.h"
#include "base/log.h"
#include "gateway/udp.h"
#include "net/seal.h"

#include <stdlib.h>

enum { WORKERS = 3, NUMBERS = 4096, BYTES = 255 };
enum kind { AS_IT_IS, SEALED, FLIPPED };

struct sampler {
    struct worker *worker;
    uint64_t numbers[NUMBERS]; /* that have come */
    size_t n;
};

static struct event_base *base;
static struct workers *workers;
static struct udp *udp;
static struct seal *seal;
static struct worker *worker[WORKERS];
static struct sampler samplers[WORKERS];
static enum kind kind; /* of the datagram being taken */
static uint64_t packets;

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int sampler_packet(struct sampler *s, struct slice packet, struct diag *why)
{
    (void)why;
    check(packet.n > 0 && packet.n <= BYTES);
    check(s->worker->level == SEAL_NONE || kind == SEALED);
    if ((unsigned char)packet.p[0] == 0xff)
        return E_PROTO;
    packets++;
    return 0;
}

static void prepare(void)
{
    const struct workers_options options = {.level = SEAL_PRIVATE};
    struct diag why;
    log_quiet(true);
    base = event_base_new();
    seal = seal_create();
    workers = workers_create(&options);
    check(base && seal && workers && udp_create(base, SLICE_LIT("127.0.0.1:0"), workers, &udp, &why) == 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        const char host[] = {(char)('a' + i), 0};
        const struct frame_register r = {.host = slice_str(host)};
        const struct frame_origin samples = {.epoch = 1};
        check(workers_register(workers, &r, udp, (uint8_t)i, 1, 1, &worker[i]) == 0);
        worker_set_samples(workers, worker[i], &samples, &samplers[i]);
        memset(worker[i]->key, (int)i, LEASE_KEY); /* the same in every run */
        samplers[i].worker = worker[i];
    }
}

/* What must become of a good datagram. */
enum fate { TAKEN, UNREADABLE, REPLAYED };
static enum fate expect(struct sampler *s, uint64_t number, struct slice packet)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->numbers[i] == number)
            return REPLAYED;
        highest = s->numbers[i] > highest ? s->numbers[i] : highest;
    }
    if (number + DATAGRAM_WINDOW < highest)
        return REPLAYED;
    s->numbers[s->n++] = number;
    return packet.n && (unsigned char)packet.p[0] == 0xff ? UNREADABLE : TAKEN;
}

static void take(unsigned char *p, size_t n, struct udp_counts *before, struct udp_counts *after)
{
    udp_counts(udp, before);
    udp_take(udp, p, n);
    udp_counts(udp, after);
    check(after->received == before->received + 1);
    check(after->received ==
          after->passed + after->malformed + after->unknown + after->level + after->forged + after->replayed);
}

/* A head that is read is written again the same. */
static void fuzz_head(const unsigned char *p, size_t n)
{
    struct datagram_head h;
    unsigned char again[DATAGRAM_HEAD];
    if (datagram_get_head(slice_of((const char *)p, n), &h) < 0)
        return;
    check(n >= DATAGRAM_HEAD && h.level <= SEAL_PRIVATE && h.number >= 1 && h.number <= DATAGRAM_NUMBER_MAX);
    datagram_put_head(again, &h);
    check(memcmp(again, p, sizeof again) == 0);
}

static void fuzz_plain(unsigned char *p, size_t n)
{
    struct udp_counts before, after;
    const uint64_t received = worker[SEAL_NONE]->window.received;
    fuzz_head(p, n);
    take(p, n, &before, &after);
    for (int i = SEAL_AUTHENTIC; i < WORKERS; i++)
        check(worker[i]->window.received == samplers[i].n); /* nobody else can add to it */
    if (worker[SEAL_NONE]->window.received > received) {    /* that worker believes everyone */
        struct datagram_head h;
        check(datagram_get_head(slice_of((const char *)p, n), &h) == 0);
        check(expect(&samplers[SEAL_NONE], h.number, slice_of("", 0)) == TAKEN);
    }
}

static void fuzz_sealed(unsigned char *p, size_t n, uint8_t how)
{
    struct udp_counts before, after;
    if (n < DATAGRAM_HEAD)
        return;
    const size_t i = p[0] % WORKERS;
    struct worker *w = worker[i];
    struct datagram_head h = {.level = w->level, .key = (uint8_t)w->key_id, .worker = w->id};
    struct cursor c = cursor_of(slice_of((const char *)p + 6, 6));
    h.number = cursor_fixed(&c, 6);
    h.number = p[1] % 2 ? h.number % 4000 + 1 : h.number + (h.number == 0);
    datagram_put_head(p, &h);
    const struct slice packet = {(const char *)p + DATAGRAM_HEAD, n - DATAGRAM_HEAD};
    if (kind == SEALED) {
        const enum fate want = expect(&samplers[i], h.number, packet);
        n = (size_t)seal_close(seal, w->key, w->key_id, p, n);
        take(p, n, &before, &after);
        check(after.passed - before.passed == (want == TAKEN));
        check(after.malformed - before.malformed == (want == UNREADABLE));
        check(after.replayed - before.replayed == (want == REPLAYED));
        check(w->window.received == samplers[i].n);
        return;
    }
    n = (size_t)seal_close(seal, w->key, w->key_id, p, n);
    const size_t bit = (size_t)(how >> 2) * 37 % (n * 8);
    p[bit / 8] ^= (unsigned char)(1 << bit % 8);
    fuzz_plain(p, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!udp)
        prepare();
    for (int i = 0; i < WORKERS; i++) {
        worker[i]->window = (struct datagram_window){0};
        samplers[i].n = 0;
    }
    for (size_t at = 0, records = 0; at + 2 <= size && records < NUMBERS; records++) {
        const uint8_t how = data[at];
        const size_t left = size - at - 2, n = data[at + 1] < left ? data[at + 1] : left;
        kind = how % 4 == 1 ? SEALED : how % 4 == 2 ? FLIPPED : AS_IT_IS;
        unsigned char *p =
            malloc(n + (kind == AS_IT_IS ? 0 : DATAGRAM_TAG)); /* just as much as may be touched */
        check(p || n == 0);
        memcpy(p, data + at + 2, n);
        at += 2 + n;
        if (kind == AS_IT_IS)
            fuzz_plain(p, n);
        else
            fuzz_sealed(p, n, how);
        free(p);
    }
    return 0;
}
