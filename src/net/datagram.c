/* SPDX-License-Identifier: Apache-2.0 */
/* The window: bit number % DATAGRAM_WINDOW says whether that number has come, for the DATAGRAM_WINDOW numbers
 * below the highest. The highest itself has come and needs no bit; its place still holds the number that is a
 * whole window behind it. In order, the usual case, entering a number sets one bit and clears none. */
#include "net/datagram.h"

#include "base/cursor.h"
#include "base/err.h"
#include "net/lease.h"

enum { WORD = 64 };

void datagram_put_head(unsigned char to[DATAGRAM_HEAD], const struct datagram_head *h)
{
    to[0] = (unsigned char)(DATAGRAM_VERSION << 4 | h->level);
    to[1] = h->key;
    for (unsigned i = 0; i < 4; i++)
        to[2 + i] = (unsigned char)(h->worker >> (8 * i));
    for (unsigned i = 0; i < 6; i++)
        to[6 + i] = (unsigned char)(h->number >> (8 * i));
}

int datagram_get_head(struct slice datagram, struct datagram_head *out)
{
    if (datagram.n < DATAGRAM_HEAD || datagram.n > DATAGRAM_MAX)
        return E_PROTO;
    struct cursor c = cursor_of(datagram);
    const uint8_t first = cursor_u8(&c), level = first & 0x0f;
    if (first >> 4 != DATAGRAM_VERSION)
        return E_VERSION;
    if (level > SEAL_PRIVATE || (level != SEAL_NONE && datagram.n < DATAGRAM_HEAD + DATAGRAM_TAG))
        return E_PROTO;
    struct datagram_head h = {.level = level};
    h.key = cursor_u8(&c);
    h.worker = cursor_u32(&c);
    h.number = cursor_fixed(&c, 6);
    if (h.number == 0)
        return E_PROTO;
    *out = h;
    return 0;
}

static bool has_bit(const struct datagram_window *w, uint64_t number)
{
    return w->bits[number % DATAGRAM_WINDOW / WORD] >> number % WORD & 1;
}

static void set_bit(struct datagram_window *w, uint64_t number)
{
    w->bits[number % DATAGRAM_WINDOW / WORD] |= UINT64_C(1) << number % WORD;
}

/* The bits of first up to, not including, end; at most a window of them. */
static void clear_bits(struct datagram_window *w, uint64_t first, uint64_t end)
{
    while (first < end) {
        uint64_t mask = UINT64_MAX << first % WORD;
        uint64_t next = first - first % WORD + WORD;
        if (next > end)
            mask &= UINT64_MAX >> (next - end);
        w->bits[first % DATAGRAM_WINDOW / WORD] &= ~mask;
        first = next;
    }
}

static void move_up(struct datagram_window *w, uint64_t number)
{
    if (number - w->highest > DATAGRAM_WINDOW) {
        clear_bits(w, 0, DATAGRAM_WINDOW);
    } else {
        set_bit(w, w->highest); /* of the zeroed window too: there is no number 0 */
        clear_bits(w, w->highest + 1, number);
    }
    w->highest = number;
}

enum datagram_verdict datagram_window_look(const struct datagram_window *w, uint64_t number)
{
    if (number > w->highest)
        return DATAGRAM_NEW;
    const uint64_t behind = w->highest - number;
    if (behind > DATAGRAM_WINDOW)
        return DATAGRAM_TOO_OLD;
    return behind == 0 || has_bit(w, number) ? DATAGRAM_DUPLICATE : DATAGRAM_NEW;
}

enum datagram_verdict datagram_window_enter(struct datagram_window *w, uint64_t number)
{
    const enum datagram_verdict verdict = datagram_window_look(w, number);
    if (verdict == DATAGRAM_DUPLICATE) {
        w->duplicate++;
    } else if (verdict == DATAGRAM_TOO_OLD) {
        w->too_old++;
    } else if (number > w->highest) {
        w->received++;
        move_up(w, number);
    } else {
        w->received++;
        w->reordered++;
        set_bit(w, number);
    }
    return verdict;
}
