/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h - lines of name=value pairs: all that ULM and BP have in common, which is everything but the names
 * of the header, the form of a time and the order of writing. What differs is a struct pairs_dialect, one in
 * ulm.c and one in bp.c.
 *
 * A value
 *   bare    up to the next blank; its meaning is value_untyped's: a number, with its spelling where that is
 * not the canonical one, true, false, or text. Text is written so only if made of A-Z a-z 0-9 . - alone; read
 * so whatever its characters, because NetLogger and GridFTP write / : [ , bare. A number is always written
 * so.
 *   "..."   text: the quotes tell "5" from 5. \" and \\ are escapes; a backslash before anything else
 *           is itself, because others write C:\temp, or it is an escape as of C: escapes.h tells the two
 *           dialects apart. One exception: a quoted number that contains a '+' is a number, because writers before
 *           VALUE_NUMBER quoted what has a '+'.
 * What a quoted text can't carry has a marker at its front:
 *   "%b:AAE="   bytes, in base64
 *   "%e:a%0Ab"  text with control characters, which, as '%', are %XX
 *   "%t:%e:x"   text that begins like a marker, or is a number that contains a '+'
 * What looks like a marker but is no well-formed one is plain text, and is written with %t: from then on.
 * A uint is written as its digits, as everybody expects, though an int would be read from them: the last pair
 * of the line, GL.U="id,size" (gl.u in BP), names the fields that are uint. Names that are not there, or
 * whose value is no int from 0 up, mean nothing; one above INT64_MAX needs no mention.
 *
 * A field name is written as it is if it starts with a letter, has only letters, digits, '-' and '_' in
 * components that are joined by '.' and not empty, and is not a name of the header. (The draft of 1999 has no
 * '_', but its living parser, gLite's, takes it and its users need it.) Any other is mangled: a prefix, GL.
 * or gl., and then every byte that is not a letter or digit as -hh. A name beginning with the prefix is
 * mangled too, so what is read behind the prefix is either well mangled, and undone, or foreign, and a name
 * as it stands. Reading takes any name of the model. */
#ifndef GRIDLINE_EVENT_PAIRS_H
#define GRIDLINE_EVENT_PAIRS_H

#include "base/num.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "event/encoding.h"
#include "event/escapes.h"
#include "event/line.h"
#include "event/prepared.h"

#include <stdint.h>

/* The pairs that are not fields but the event itself. */
enum pairs_key { PAIRS_TIME, PAIRS_HOST, PAIRS_PROG, PAIRS_LEVEL, PAIRS_NAME, PAIRS_UINTS, PAIRS_KEYS };

/* The second of the time read last, as text and as time: lines of one second differ only in the fraction, and
 * the calendar is worked out once for all of them. */
struct pairs_second {
    char text[19]; /* as much of it as the dialect's form has */
    bool valid;
    int64_t ns;
};

struct pairs_dialect {
    struct slice key[PAIRS_KEYS];
    struct slice mangled;      /* the prefix of mangled names */
    struct slice default_name; /* of an event without PAIRS_NAME; empty = that is an error */
    const char *time_form;     /* for error messages */
    /* E_PROTO or -ERANGE */
    int (*parse_time)(struct pairs_second *last, struct slice text, struct slice prog, int64_t *out);
    size_t (*print_time)(char *to, int64_t t);
    bool name_first; /* writing: the event's name comes before what add_origin adds */
    /* Appends host, prog and level, each pair with a blank before it. */
    void (*add_origin)(const struct event *e, struct strbuf *out);
    prepared_fill fill;
};

/* The name expected at one place of the line, because the last line had it there: compared as two words. */
struct pairs_guess {
    uint64_t text[2], mask[2]; /* the name and its '=' */
    uint8_t n;                 /* bytes of that, at most 16; 0 = no guess */
    uint8_t key;               /* enum pairs_key; PAIRS_KEYS = a field */
};

/* The header of the last line but for its time, from the second pair to the first field: a program writes the
 * same bytes there in every line of one event, and one comparison then takes the place of reading four pairs.
 */
struct pairs_repeat {
    char text[256];
    size_t n;        /* 0 = none: no fields, or too long, or a value with escapes */
    uint32_t pairs;  /* how many these are */
    uint32_t misses; /* lines in a row that had another header */
    struct {
        uint16_t at, n, col; /* of the value and of the name; at = 0: not there */
    } head[PAIRS_KEYS];
};

enum { PAIRS_GUESSES = 32, PAIRS_LEVEL_TEXT = 16 };

/* Decoder state; init sets dialect. */
struct pairs_reader {
    struct line_reader lines;
    const struct pairs_dialect *dialect;
    enum escapes escapes; /* ESCAPES_AUTO: until the first value that needs to know */
    escapes_look look;    /* NULL: what is buffered must do */
    void *look_arg;
    struct slice buffered; /* from the line at hand on */
    bool has_c;            /* the line at hand has escapes of C: as it stands it means something else elsewhere */
    struct pairs_second second;
    char level_text[PAIRS_LEVEL_TEXT]; /* the level read last and what it means */
    uint8_t level_n, level;
    struct pairs_guess guess[PAIRS_GUESSES];
    struct pairs_repeat repeat;
    /* the line being read */
    struct slice head[PAIRS_KEYS]; /* p = NULL: not in the line */
    uint32_t head_col[PAIRS_KEYS];
    size_t n_fields;
    struct named_value fields[EVENT_FIELDS_MAX];
    uint32_t col[EVENT_FIELDS_MAX]; /* of each field's name */
};

/* decoder_ops.step */
int pairs_step(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
               struct diag *why);

/* decoder_ops.set_escapes */
void pairs_set_escapes(void *state, enum escapes escapes, escapes_look look, void *arg);

/* For parse_time. True when text is the same second as last (the first second_n bytes are equal) with a
 * fraction of 1 to 9 digits and nothing more; *digits says how many. */
static inline bool pairs_same_second(const struct pairs_second *last, struct slice text, size_t second_n,
                                     int64_t *out, size_t *digits)
{
    static const int64_t units[] = {0, 100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};
    size_t n = text.n - second_n - 1;
    if (!last->valid || text.n < second_n + 2 || n > 9 || text.p[second_n] != '.' ||
        memcmp(text.p, last->text, second_n) != 0)
        return false;
    int64_t v = 0;
    for (size_t i = second_n + 1; i < text.n; i++) {
        unsigned d = (unsigned)(text.p[i] - '0');
        if (d > 9)
            return false;
        v = v * 10 + d;
    }
    *digits = n;
    return !__builtin_add_overflow(last->ns, v * units[n], out);
}

/* True when the first line of head is made of pairs, one of which is called key, and none before it is called
 * not_before. */
bool pairs_detect(struct slice head, struct slice key, struct slice not_before);

/* Does s begin like a marker: '%', a small letter, ':'? */
static inline bool pairs_like_marker(struct slice s)
{
    return s.n >= 3 && s.p[0] == '%' && s.p[2] == ':' && s.p[1] >= 'a' && s.p[1] <= 'z';
}

/* Is s a number that contains a '+', as 1e+05? It is one even in quotes. */
static inline bool pairs_is_plus_number(struct slice s)
{
    return s.n && s.p[0] <= '9' && memchr(s.p, '+', s.n) && num_spelling(s).is != NUM_NOT;
}

/* Encoder state; init sets dialect. */
struct pairs_writer {
    const struct pairs_dialect *dialect;
    struct prepared_cache names; /* piece 0 is the event's name, then one piece a field */
    struct strbuf origin;        /* what add_origin gave for the event written last */
};

void pairs_writer_fini(void *state);
/* encoder_ops.run */
int pairs_run(void *state, const struct batch *b, struct strbuf *out);
/* For dialect.fill: ` NL.EVNT=name` (piece 0) or ` FIELD=`. */
void pairs_fill(const struct pairs_dialect *d, const struct schema *s, size_t piece, struct strbuf *out);
/* For add_origin: appends ` KEY=` and s as the value of a header, which is text whatever it looks like. */
void pairs_add_head(struct strbuf *out, struct slice key, struct slice s);

#endif
