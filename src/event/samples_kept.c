/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader keeps of a stream. At rest that is its state as bytes, which is also what a journal keeps of
 * it:
 *
 *   text     prog
 *   and for each field of the schema, in order:
 *   u8       form, | 4 if the field has a value; of a float k << 4
 *   then, of a number, by the form:
 *     0      nothing: every number of it is 0
 *     1      varint zigzag(n): n is the value's bits; of a float it is m, and the value is m / 10^k
 *     2      of a float: 8 bytes, its bits; varint zigzag(m)
 *   of text or bytes: form 0, and text if it has a value
 *
 * A number stays when its value goes missing, since differences go on from there (samples_layout.h). */
#include "event/samples_layout.h"

#include "base/cursor.h"
#include "base/mem.h"

#include <errno.h>

enum { FORM_ZERO = 0, FORM_NUMBER = 1, FORM_FLOAT = 2, FORM_MASK = 3, FORM_HAS_VALUE = 4, FORM_K_SHIFT = 4 };

static uint64_t decimal_bits(int64_t m, unsigned k)
{
    return value_float((double)m / samples_powers[k]).u;
}

static void put_number(struct strbuf *out, uint8_t type, const struct samples_base *b)
{
    bool is_float = type == VALUE_FLOAT;
    bool is_zero = b->bits == 0 && (!is_float || b->m == 0);
    int form = is_zero                                           ? FORM_ZERO
               : is_float && b->bits != decimal_bits(b->m, b->k) ? FORM_FLOAT
                                                                 : FORM_NUMBER;
    unsigned has_value = b->type != VALUE_NONE ? FORM_HAS_VALUE : 0;
    strbuf_add_char(out,
                    (char)((unsigned)form | has_value | (is_float ? (unsigned)b->k << FORM_K_SHIFT : 0)));
    if (form == FORM_FLOAT)
        strbuf_add_u64(out, b->bits);
    if (form != FORM_ZERO)
        strbuf_add_varint(out, zigzag(is_float ? b->m : (int64_t)b->bits));
}

static void put_state(struct strbuf *out, const struct samples_stream *s)
{
    strbuf_add_text(out, s->prog);
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        const struct samples_base *b = &s->base[i];
        uint8_t type = s->schema->fields[i].type;
        if (!value_is_text(type)) {
            put_number(out, type, b);
            continue;
        }
        strbuf_add_char(out, b->type != VALUE_NONE ? FORM_HAS_VALUE : 0);
        if (b->type != VALUE_NONE)
            strbuf_add_text(out, slice_of(b->n ? b->text : "", b->n));
    }
}

static bool has_only_numbers(const struct samples_stream *s)
{
    for (uint32_t i = 0; i < s->n_values; i++) {
        uint8_t type = s->schema->fields[s->value_at[i]].type;
        if (value_is_text(type) || type == VALUE_BOOL)
            return false;
    }
    return true;
}

struct samples_kept *samples_kept_create(const struct samples_stream *s, struct strbuf *bytes)
{
    strbuf_reset(bytes);
    put_state(bytes, s);
    struct samples_kept *k = strbuf_failed(bytes) ? NULL : mem_try_alloc(sizeof *k + bytes->n);
    if (!k)
        return NULL;
    k->schema = schema_ref(s->schema);
    k->baseline = s->baseline;
    k->text = (uint32_t)s->text;
    k->n = (uint32_t)bytes->n;
    k->n_values = (uint16_t)s->n_values;
    k->has_keys = s->n_values < s->schema->n_fields;
    k->is_plain = s->schema->names_once && has_only_numbers(s) && s->names + s->text <= EVENT_SIZE_MAX;
    memcpy(k->state, bytes->p, bytes->n);
    return k;
}

void samples_kept_destroy(struct samples_kept *k)
{
    if (!k)
        return;
    samples_stream_destroy(k->live);
    schema_unref(k->schema);
    mem_free(k);
}

size_t samples_kept_cost(const struct samples_kept *k)
{
    if (k->live)
        return samples_stream_cost(k->live);
    struct cursor c = cursor_of(slice_of((const char *)k->state, k->n));
    const struct samples_stream s = {.schema = k->schema, .prog = cursor_text(&c), .text = k->text};
    return samples_stream_cost(&s);
}

static int bad(const char **what, const char *text)
{
    *what = text;
    return E_PROTO;
}

static int get_number(struct cursor *c, uint8_t tag, const struct field *f, struct samples_base *b,
                      const char **what)
{
    unsigned form = tag & FORM_MASK;
    b->k = tag >> FORM_K_SHIFT;
    if (form > (f->type == VALUE_FLOAT ? FORM_FLOAT : FORM_NUMBER) ||
        b->k > (f->type == VALUE_FLOAT ? SAMPLES_DECIMAL_MAX : 0))
        return bad(what, "a number of an unknown form");
    uint64_t bits = form == FORM_FLOAT ? cursor_u64(c) : 0;
    int64_t n = form == FORM_ZERO ? 0 : unzigzag(cursor_varint(c));
    if (f->type != VALUE_FLOAT) {
        b->bits = (uint64_t)n;
        return f->type == VALUE_BOOL && b->bits > 1 ? bad(what, "a bool that is neither true nor false") : 0;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    b->m = n;
    b->bits = form == FORM_FLOAT ? value_float(value).u : form == FORM_NUMBER ? decimal_bits(n, b->k) : 0;
    return 0;
}

static int get_text(struct cursor *c, uint8_t tag, struct samples_base *b, const char **what)
{
    if (tag & ~FORM_HAS_VALUE)
        return bad(what, "a text of an unknown form");
    if (!tag)
        return 0;
    struct slice s = cursor_text(c);
    if (s.n > EVENT_TEXT_MAX) {
        *what = "a text that is too long";
        return E_LIMIT;
    }
    b->text = (char *)(uintptr_t)s.p;
    b->n = (uint32_t)s.n;
    return 0;
}

int samples_state_read(const struct schema *schema, struct slice state, struct samples_stream *s,
                       const char **what)
{
    struct cursor c = cursor_of(state);
    samples_stream_init(s, schema, cursor_text(&c));
    for (uint32_t i = 0; i < schema->n_fields; i++) {
        const struct field *f = &schema->fields[i];
        uint8_t tag = cursor_u8(&c);
        bool is_text = value_is_text(f->type);
        int r = is_text ? get_text(&c, tag, &s->base[i], what) : get_number(&c, tag, f, &s->base[i], what);
        if (r < 0)
            return r;
        s->base[i].type = tag & FORM_HAS_VALUE ? f->type : VALUE_NONE;
        s->text += is_text ? s->base[i].n : 0;
    }
    return c.bad || cursor_left(&c) ? bad(what, "a state of another length") : 0;
}

void samples_kept_unfold(const struct samples_kept *k, struct samples_stream *s)
{
    const char *what;
    /* It was made by put_state, so it is good. */
    (void)samples_state_read(k->schema, slice_of((const char *)k->state, k->n), s, &what);
    s->baseline = k->baseline;
}

/* The texts of s, which borrows them, become its own; on failure the rest has none. */
static int own_texts(struct samples_stream *s)
{
    for (uint32_t i = 0; i < s->schema->n_fields; i++) {
        struct samples_base *b = &s->base[i];
        if (!value_is_text(s->schema->fields[i].type))
            continue;
        char *copy = b->n ? mem_try_alloc(b->n) : NULL;
        bool is_lost = b->n && !copy;
        if (copy)
            memcpy(copy, b->text, b->n);
        b->text = copy;
        b->cap = copy ? b->n : 0;
        if (is_lost) {
            for (uint32_t rest = i + 1; rest < s->schema->n_fields; rest++)
                if (value_is_text(s->schema->fields[rest].type))
                    s->base[rest].text = NULL;
            return -ENOMEM;
        }
    }
    return 0;
}

int samples_kept_wake(struct samples_kept **kept, struct samples_stream *unfolded)
{
    struct samples_kept *k = *kept;
    samples_kept_unfold(k, unfolded);
    struct samples_stream *s = samples_stream_create(k->schema, unfolded->prog);
    if (!s)
        return -ENOMEM;
    if (k->schema->n_fields)
        memcpy(s->base, unfolded->base, k->schema->n_fields * sizeof *s->base);
    s->baseline = k->baseline;
    s->text = k->text;
    if (own_texts(s) < 0) {
        samples_stream_destroy(s);
        return -ENOMEM;
    }
    k->live = s;
    k->n = 0;
    k = mem_try_resize(k, sizeof *k);
    *kept = k ? k : *kept; /* it stays as large as it was */
    return 0;
}

int samples_kept_state(const struct samples_kept *k, struct strbuf *bytes, struct slice *out)
{
    if (!k->live) {
        *out = slice_of((const char *)k->state, k->n);
        return 0;
    }
    strbuf_reset(bytes);
    put_state(bytes, k->live);
    *out = strbuf_slice(bytes);
    return strbuf_failed(bytes) ? -ENOMEM : 0;
}
