/* SPDX-License-Identifier: Apache-2.0 */
/* predicate_internal.h - what the files of the predicate share; nobody else includes it.
 *
 *   predicate_lex.c    text -> tokens
 *   predicate_parse.c  tokens -> nodes in postfix order: the grammar, and folding of constants
 *   predicate_check.c  what is known before there is an event: types, names of levels, times
 *   predicate.c        nodes -> program: fused operands, short-circuit jumps
 *   predicate_value.c  the meaning of every operator on values
 *   predicate_eval.c   runs the program on an event; field look-ups cached per schema */
#ifndef GRIDLINE_EVENT_PREDICATE_INTERNAL_H
#define GRIDLINE_EVENT_PREDICATE_INTERNAL_H

#include "base/arena.h"
#include "event/class.h"
#include "event/predicate.h"

/* How a stands to b. A comparison operator is the set of orders it accepts; 0 = not comparable: unknown. */
enum predicate_order { ORDER_LESS = 1, ORDER_EQUAL = 2, ORDER_GREATER = 4, ORDER_ALL = 7 };

enum truth { FALSE = 0, TRUE = 1, UNKNOWN = 2 };

enum predicate_op {
    OP_END, /* the answer is the truth of the one value on the stack */
    /* operands */
    OP_LOAD,  /* slot */
    OP_CONST, /* k */
    /* one operand, from slot or the stack */
    OP_COMPARE_CONST, /* with k; arg = the orders accepted */
    OP_IN,
    OP_LIKE,
    OP_GLOB, /* k = the pattern */
    OP_IS_NULL,
    /* operands on the stack */
    OP_COMPARE, /* arg = the orders accepted */
    OP_BETWEEN,
    OP_NOT,
    OP_NEGATE,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_REMAINDER,
    OP_AND,
    OP_OR,
    /* Before the right side of AND and OR: when the left side decides, its truth stays and the right side
     * and the OP_AND or OP_OR behind it are jumped over. */
    OP_SKIP_FALSE,
    OP_SKIP_TRUE,
    /* The same where unknown is as good as false, so that no OP_AND or OP_OR is needed: jumps if it decides,
     * else forgets the left side; the right side is the answer. */
    OP_PASS_AND,
    OP_PASS_OR
};

/* Where an operand comes from: the heads, then the predicate's fields by number; or the stack. */
enum predicate_slot {
    SLOT_TIME,
    SLOT_HOST,
    SLOT_PROG,
    SLOT_LEVEL,
    SLOT_NAME,
    SLOT_FIELDS,
    SLOT_STACK = 0xffff
};

/* The values of an IN list by type, each sorted. */
struct predicate_set {
    const struct value *numbers; /* also of texts that are numbers: a number column compares with these */
    const struct value *texts;   /* also the texts of numbers, for text columns */
    const struct value *bytes;
    size_t n_numbers, n_texts, n_bytes;
    size_t n_values; /* constants but NULL */
    uint8_t want;    /* the class of all constants; CLASS_UNKNOWN: mixed, or bytes */
    bool has_null;
};

/* A LIKE pattern: lower-case bytes, and the wildcards. */
enum { LIKE_ONE = 0x100, LIKE_RUN = 0x101 };
struct predicate_like {
    struct slice
        head; /* what comes before the first wildcard, in its own case: text that has it saves steps */
    size_t n;
    uint16_t codes[];
};

struct instr {
    uint8_t op;
    uint8_t arg; /* orders accepted; or 1 for NOT IN, NOT LIKE, NOT GLOB, NOT BETWEEN, IS NOT NULL */
    uint8_t want; /* with a slot: the class a field is taken by if it has none. OP_COMPARE, OP_BETWEEN: bit i = operand i
                   * is a column */
    uint16_t slot;
    uint16_t target; /* jumps: index in the program */
    union {
        struct value k;
        const struct predicate_set *set;
        const struct predicate_like *like;
    };
    struct value other; /* of OP_COMPARE_CONST: k as the other class has it: the text of a number; the number that a text
                         * is, or VALUE_NONE */
};

enum {
    PREDICATE_CACHE = 32,                     /* schema versions remembered, a power of two */
    PREDICATE_ALTERNATIVES = VALUE_TYPES - 1, /* a name is at most once of each type in a schema */
    PREDICATE_PLACES = VALUE_TYPES,           /* of one field in the cache: the alternatives, and behind them its class */
    FIELD_ABSENT = 0xffff
};

/* index[i * PREDICATE_PLACES + k] is where the schema has the predicate's field i for the k-th time, for
 * k = PREDICATE_ALTERNATIVES the field's class. */
struct predicate_cache {
    const struct schema *schema; /* a reference, so that the address stays this schema's; NULL = empty */
    uint16_t *index;
};

/* What is set aside for the text of a number in a text column, one for each field of the predicate. */
struct predicate_spelling {
    char z[VALUE_SPELLING_MAX];
};

struct predicate {
    struct arena arena; /* everything below that is a pointer, but the schemas */
    struct instr *code; /* ends with OP_END */
    struct value
        *stack; /* as deep as the program needs; here because clearing it for every event costs more */
    struct slice *fields;
    size_t n_fields;
    struct predicate_spelling *spellings;
    const struct class_source *classes; /* NULL: the schema says */
    uint64_t generation;                /* of classes, when the cache was filled */
    bool is_ranges; /* comparisons of fields with integers from 0 on that all have to hold */
    struct predicate_cache cache[PREDICATE_CACHE]; /* by the low bits of the schema's hash */
};

/* --- tokens --- */

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,   /* bare: a keyword has its own kind */
    TOKEN_QUOTED, /* "name" */
    TOKEN_NUMBER,
    TOKEN_TEXT,  /* 'text', quotes still doubled */
    TOKEN_BYTES, /* x'00ff' */
    TOKEN_LEFT,
    TOKEN_RIGHT,
    TOKEN_COMMA,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_PERCENT,
    TOKEN_EQUAL, /* = == != <> */
    TOKEN_LESS,  /* < <= > >= */
    TOKEN_OR,
    TOKEN_AND,
    TOKEN_NOT,
    TOKEN_IS,
    TOKEN_IN,
    TOKEN_BETWEEN,
    TOKEN_LIKE,
    TOKEN_GLOB,
    TOKEN_ESCAPE,
    TOKEN_NULL,
    TOKEN_TRUE,
    TOKEN_FALSE
};

struct token {
    uint8_t kind;
    uint8_t orders; /* TOKEN_EQUAL, TOKEN_LESS */
    uint32_t col;
    struct slice text; /* as written; empty at the end */
};

struct lexer {
    struct slice text;
    size_t at;
};

int predicate_lex(struct lexer *l, struct token *out, struct diag *why);
/* The keyword nearest to a misspelt word, or NULL. */
const char *predicate_nearest_keyword(struct slice word);
static inline bool predicate_is_keyword(uint8_t kind)
{
    return kind >= TOKEN_OR;
}

/* Bytes of the input for a message: cut to 40, UTF-8 without control characters. */
struct excerpt {
    char z[48];
};
struct excerpt predicate_excerpt(struct slice s);

/* --- nodes --- */

/* What is known of a value before there is an event. */
enum known { KNOWN_NOTHING, KNOWN_NULL, KNOWN_NUMBER, KNOWN_TEXT, KNOWN_BYTES, KNOWN_TIME, KNOWN_LEVEL };

/* The operands of a node come before it: the last one ends just before it, and each begins at its start. */
struct node {
    struct instr in;
    uint8_t known;
    bool positive; /* unknown may be taken for false: nothing above but AND and OR */
    uint16_t start;
    uint16_t jump_for; /* the AND or OR whose right side begins here; 0 = none */
    uint32_t jump_at;  /* of an AND or OR: where its jump is in the program */
    uint32_t col;
    struct slice literal; /* of a number as written, for times; else empty */
};

struct compiler {
    struct lexer lex;
    struct token now; /* the next token, not yet used */
    int64_t now_ns;
    struct diag *why;
    struct predicate *p;
    struct node *nodes;
    size_t n, cap;
    struct value *items; /* of the IN list being read */
    size_t n_items, cap_items;
    unsigned depth;
    size_t pattern_bytes;
    size_t cap_fields;
};

/* Leaves the whole predicate as c->nodes, its root last. */
int predicate_parse(struct compiler *c);

static inline bool node_is_const(const struct node *n)
{
    return n->in.op == OP_CONST;
}
struct node predicate_const_node(struct value k, uint32_t col);

/* Each refuses, with column and hint, what could never be meant. */
int predicate_check_condition(struct compiler *c, const struct node *n);
int predicate_check_number(struct compiler *c, const struct node *n);
int predicate_check_text(struct compiler *c, const struct node *n, const char *op);
/* The operands of one comparison, BETWEEN or IN element: where one is time or level, translates the constants
 * among the others to its numbers; refuses to compare what has different types. operands[0] with each. */
int predicate_check_compare(struct compiler *c, struct node **operands, size_t n);

/* The class of a constant; CLASS_UNKNOWN for NULL and bytes. */
static inline uint8_t predicate_class(const struct value *v)
{
    return v->type == VALUE_TEXT ? CLASS_TEXT : v->type >= VALUE_INT && v->type <= VALUE_BOOL ? CLASS_NUMBER : CLASS_UNKNOWN;
}

/* --- values --- */

/* Values go by pointer here: one just written in parts (type, content) and read again as a whole would stall
 * the processor for longer than most operators take. */
unsigned predicate_order(const struct value *a, const struct value *b);
struct value predicate_arith(uint8_t op, const struct value *a, const struct value *b);
/* The result of an instruction (not an operand, jump or end) on its operands. */
struct value predicate_apply(const struct instr *in, const struct value *operands);
/* The same for those that have one operand and give a truth: OP_COMPARE_CONST to OP_IS_NULL. */
enum truth predicate_ask(const struct instr *in, const struct value *v);
unsigned predicate_operands(uint8_t op);
/* The number that a whole text is, as SQLite's NUMERIC affinity has it ('080' is 80); VALUE_NONE: none. */
struct value predicate_text_number(struct slice s);
/* A constant for columns of the other class, its text in the arena: struct instr's other. -ENOMEM. */
int predicate_other(struct arena *a, const struct value *k, struct value *out);

/* Copies items, not their text. -ENOMEM. */
int predicate_set_create(struct arena *a, const struct value *items, size_t n,
                         const struct predicate_set **out);
/* escape: the byte, or -1. -ENOMEM; E_PROTO when the pattern ends with the escape. */
int predicate_like_create(struct arena *a, struct slice pattern, int escape,
                          const struct predicate_like **out);

static inline uint8_t predicate_flip(uint8_t orders)
{
    return (uint8_t)((orders & ORDER_EQUAL) | (orders & ORDER_LESS) << 2 | (orders & ORDER_GREATER) >> 2);
}

static inline enum truth predicate_truth(const struct value *v)
{
    if (v->type == VALUE_BOOL || v->type == VALUE_INT || v->type == VALUE_UINT)
        return v->u != 0 ? TRUE : FALSE;
    if (v->type == VALUE_FLOAT && !isnan(v->f))
        return v->f != 0 ? TRUE : FALSE;
    return UNKNOWN;
}

static inline struct value predicate_from_truth(enum truth t)
{
    return t == UNKNOWN ? value_none() : value_bool(t == TRUE);
}

static inline bool predicate_is_integer(const struct value *v)
{
    return v->type == VALUE_INT || v->type == VALUE_UINT;
}

/* The usual cases here, the others in predicate_order. */
static inline enum truth predicate_compare(uint8_t orders, const struct value *a, const struct value *b)
{
    unsigned order;
    bool is_equality = !(orders & ORDER_LESS) == !(orders & ORDER_GREATER); /* = or <> */
    if (predicate_is_integer(a) && predicate_is_integer(b) && (int64_t)(a->u | b->u) >= 0)
        order = a->u == b->u ? ORDER_EQUAL : a->u < b->u ? ORDER_LESS : ORDER_GREATER;
    else if (is_equality && a->type == VALUE_TEXT && b->type == VALUE_TEXT)
        order = a->n == b->n && slice_bytes_eq(a->p, b->p, a->n) ? ORDER_EQUAL : ORDER_LESS;
    else
        order = predicate_order(a, b);
    return order == 0 ? UNKNOWN : orders & order ? TRUE : FALSE;
}

/* By the class of v, which its column has. */
static inline enum truth predicate_compare_const(const struct instr *in, const struct value *v)
{
    bool is_same = value_is_text(v->type) == value_is_text(in->k.type);
    return predicate_compare(in->arg, v, is_same ? &in->k : &in->other);
}

#endif
