/* SPDX-License-Identifier: Apache-2.0 */
/* Precedence climbing. parse_expression(c, B) reads the longest expression whose operators bind at least as
 * tightly as B and leaves it as the last subtree of c->nodes, in postfix order.
 *
 * Recursion is bounded by PREDICATE_DEPTH_MAX levels of parentheses, NOT and unary minus, each a handful of
 * small frames; a chain a AND b AND c … is a loop. An operator whose operands are all constants is replaced
 * by its result at once, by the same code that evaluates. */
#include "event/predicate_internal.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>

enum binding {
    BIND_NONE,
    BIND_OR,
    BIND_AND,
    BIND_NOT,
    BIND_EQUAL,
    BIND_LESS,
    BIND_SUM,
    BIND_PRODUCT,
    BIND_UNARY
};

static int parse_expression(struct compiler *c, enum binding at_least);

/* --- nodes --- */

static int advance(struct compiler *c)
{
    return predicate_lex(&c->lex, &c->now, c->why);
}

static bool at(const struct compiler *c, enum token_kind kind)
{
    return c->now.kind == kind;
}

static int push(struct compiler *c, struct node n)
{
    if (c->n == PREDICATE_NODES_MAX)
        return diag_set(c->why, E_LIMIT, n.col, "more than %d operands and operators", PREDICATE_NODES_MAX);
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 32;
        struct node *nodes = mem_try_resize(c->nodes, cap * sizeof *nodes);
        if (!nodes)
            return -ENOMEM;
        c->nodes = nodes;
        c->cap = cap;
    }
    c->nodes[c->n++] = n;
    return 0;
}

/* One that has no operands begins where it is. */
static int push_operand(struct compiler *c, struct node n)
{
    n.start = (uint16_t)c->n;
    return push(c, n);
}

/* The last `count` subtrees, first one first. */
static void last_operands(struct compiler *c, unsigned count, struct node **out)
{
    size_t end = c->n;
    for (unsigned i = count; i-- > 0;) {
        out[i] = &c->nodes[end - 1];
        end = out[i]->start;
    }
}

/* Puts an operator behind its operands, the last subtrees; or its result in their place. */
static int push_operator(struct compiler *c, struct instr in, uint32_t col)
{
    unsigned count = predicate_operands(in.op);
    struct node *operands[3] = {NULL};
    struct value values[3];
    bool fold = true;
    last_operands(c, count, operands);
    for (unsigned i = 0; i < count; i++) {
        fold = fold && node_is_const(operands[i]);
        values[i] = operands[i]->in.k;
    }
    uint16_t start = operands[0]->start;
    if (fold) {
        c->n = start;
        return push_operand(c, predicate_const_node(predicate_apply(&in, values), col));
    }
    return push(c, (struct node){.in = in, .known = KNOWN_NUMBER, .start = start, .col = col});
}

static int enter(struct compiler *c)
{
    if (++c->depth > PREDICATE_DEPTH_MAX)
        return diag_set(c->why, E_LIMIT, c->now.col, "nested more than %d deep", PREDICATE_DEPTH_MAX);
    return 0;
}

static void leave(struct compiler *c)
{
    c->depth--;
}

/* --- constants --- */

/* 'it''s' -> it's, in the predicate's arena. */
static int unquote(struct compiler *c, struct slice quoted, struct slice *out)
{
    char *to = arena_alloc(&c->p->arena, quoted.n);
    if (!to)
        return -ENOMEM;
    size_t n = 0;
    for (size_t i = 1; i + 1 < quoted.n; i++) {
        to[n++] = quoted.p[i];
        i += quoted.p[i] == quoted.p[0]; /* the second of a pair */
    }
    *out = slice_of(to, n);
    return 0;
}

static int text_constant(struct compiler *c, struct value *out)
{
    struct slice s;
    int r = unquote(c, c->now.text, &s);
    if (r < 0)
        return r;
    if (!text_is_utf8(s))
        return diag_set(c->why, E_PROTO, c->now.col, "this text is not UTF-8; write bytes as x'00ff'");
    *out = value_text(s);
    return 0;
}

static int bytes_constant(struct compiler *c, struct value *out)
{
    struct slice hex = slice_of(c->now.text.p + 2, c->now.text.n - 3);
    char *to = arena_alloc(&c->p->arena, hex.n / 2 + 1);
    if (!to)
        return -ENOMEM;
    bool ok = hex.n % 2 == 0;
    for (size_t i = 0; ok && i < hex.n; i += 2) {
        int high = text_hex_digit(hex.p[i]), low = text_hex_digit(hex.p[i + 1]);
        ok = high >= 0 && low >= 0;
        to[i / 2] = (char)(unsigned char)(high * 16 + low);
    }
    if (!ok)
        return diag_set(c->why, E_PROTO, c->now.col,
                        "bytes are written as pairs of hex digits, as in x'00ff'");
    *out = value_bytes(slice_of(to, hex.n / 2));
    return 0;
}

/* int, else uint, else the nearest float. */
static int number_constant(struct compiler *c, struct value *out)
{
    struct value v = value_int(0);
    if (num_parse_int(c->now.text, &v.i) == 0) {
        *out = v;
    } else if (num_parse_uint(c->now.text, &v.u) == 0) {
        *out = value_uint(v.u);
    } else {
        double f;
        if (num_parse_float(c->now.text, &f) < 0) /* the lexer has seen to its form */
            return -ENOMEM;
        *out = value_float(f);
    }
    return 0;
}

static bool at_constant(const struct compiler *c)
{
    return at(c, TOKEN_NUMBER) || at(c, TOKEN_TEXT) || at(c, TOKEN_BYTES) || at(c, TOKEN_NULL) ||
           at(c, TOKEN_TRUE) || at(c, TOKEN_FALSE);
}

static int parse_constant(struct compiler *c, struct node *out)
{
    struct value v = value_none();
    struct token t = c->now;
    int r = 0;
    if (t.kind == TOKEN_NUMBER)
        r = number_constant(c, &v);
    else if (t.kind == TOKEN_TEXT)
        r = text_constant(c, &v);
    else if (t.kind == TOKEN_BYTES)
        r = bytes_constant(c, &v);
    else if (t.kind != TOKEN_NULL)
        v = value_bool(t.kind == TOKEN_TRUE);
    if (r < 0)
        return r;
    *out = predicate_const_node(v, t.col);
    if (t.kind == TOKEN_NUMBER)
        out->literal = t.text;
    return advance(c);
}

/* --- names --- */

static const struct {
    const char *word;
    uint8_t slot, known;
} heads[] = {
    {"time", SLOT_TIME, KNOWN_TIME},    {"host", SLOT_HOST, KNOWN_TEXT}, {"prog", SLOT_PROG, KNOWN_TEXT},
    {"level", SLOT_LEVEL, KNOWN_LEVEL}, {"name", SLOT_NAME, KNOWN_TEXT},
};
enum { HEADS = sizeof heads / sizeof *heads };

static int grow_fields(struct compiler *c)
{
    size_t cap = c->cap_fields ? c->cap_fields * 2 : 8;
    struct slice *fields = arena_alloc(&c->p->arena, cap * sizeof *fields);
    if (!fields)
        return -ENOMEM;
    if (c->p->n_fields)
        memcpy(fields, c->p->fields, c->p->n_fields * sizeof *fields);
    c->p->fields = fields;
    c->cap_fields = cap;
    return 0;
}

/* The number of the field in the predicate's list. */
static int intern_field(struct compiler *c, struct slice name, size_t *out)
{
    struct predicate *p = c->p;
    for (*out = 0; *out < p->n_fields; ++*out)
        if (slice_eq(p->fields[*out], name))
            return 0;
    if (p->n_fields == PREDICATE_FIELDS_MAX)
        return diag_set(c->why, E_LIMIT, c->now.col, "more than %d different fields", PREDICATE_FIELDS_MAX);
    if (p->n_fields == c->cap_fields && grow_fields(c) < 0)
        return -ENOMEM;
    struct slice copy = arena_copy(&p->arena, name);
    if (!copy.p)
        return -ENOMEM;
    p->fields[p->n_fields++] = copy;
    return 0;
}

static int push_field(struct compiler *c, struct slice name)
{
    size_t field;
    if (name.n > EVENT_NAME_MAX)
        return diag_set(c->why, E_LIMIT, c->now.col, "a field's name has at most %d bytes", EVENT_NAME_MAX);
    if (!text_is_name(name))
        return diag_set(c->why, E_PROTO, c->now.col,
                        "\"%s\" is no field's name (A-Z a-z 0-9 . _ : -); text is quoted with '…'",
                        predicate_excerpt(name).z);
    int r = intern_field(c, name, &field);
    if (r < 0)
        return r;
    struct instr load = {.op = OP_LOAD, .slot = (uint16_t)(SLOT_FIELDS + field)};
    return push_operand(c, (struct node){.in = load, .known = KNOWN_NOTHING, .col = c->now.col});
}

/* A head in the wrong case would be a field that no event has: refused unless it is quoted. */
static int push_name(struct compiler *c, struct slice name, bool is_quoted)
{
    for (size_t i = 0; i < HEADS; i++) {
        struct slice head = slice_str(heads[i].word);
        if (slice_eq(name, head)) {
            struct instr load = {.op = OP_LOAD, .slot = heads[i].slot};
            return push_operand(c, (struct node){.in = load, .known = heads[i].known, .col = c->now.col});
        }
        if (!is_quoted && slice_eq_nocase(name, head))
            return diag_set(c->why, E_PROTO, c->now.col,
                            "did you mean %s? A field of that name is written \"%.*s\"", heads[i].word,
                            SLICE_ARG(name));
    }
    return push_field(c, name);
}

static int parse_name(struct compiler *c)
{
    int r;
    if (at(c, TOKEN_QUOTED)) {
        struct slice name = slice_of(c->now.text.p + 1, c->now.text.n - 2);
        bool is_field = name.n && name.p[0] == '$';
        r = is_field ? push_field(c, slice_from(name, 1)) : push_name(c, name, true);
    } else {
        r = push_name(c, c->now.text, false);
    }
    struct token name = c->now;
    if (r == 0)
        r = advance(c);
    if (r == 0 && at(c, TOKEN_LEFT))
        return diag_set(c->why, E_PROTO, name.col, "%s( … ): there are no functions here",
                        predicate_excerpt(name.text).z);
    return r;
}

/* --- operators --- */

static int parse_logic(struct compiler *c, enum binding b)
{
    struct token op = c->now;
    struct instr in = {.op = b == BIND_AND ? OP_AND : OP_OR};
    int r = predicate_check_condition(c, &c->nodes[c->n - 1]);
    if (r == 0)
        r = advance(c);
    size_t right = c->n;
    if (r == 0)
        r = parse_expression(c, b + 1);
    if (r == 0)
        r = predicate_check_condition(c, &c->nodes[c->n - 1]);
    if (r == 0)
        r = push_operator(c, in, op.col);
    if (r == 0 && c->n > right) /* not folded: the left side has at least one node */
        c->nodes[right].jump_for = (uint16_t)(c->n - 1);
    return r;
}

static int parse_arith(struct compiler *c, enum binding b)
{
    static const uint8_t ops[] = {
        [TOKEN_PLUS] = OP_ADD,     [TOKEN_MINUS] = OP_SUBTRACT,    [TOKEN_STAR] = OP_MULTIPLY,
        [TOKEN_SLASH] = OP_DIVIDE, [TOKEN_PERCENT] = OP_REMAINDER,
    };
    struct token op = c->now;
    int r = predicate_check_number(c, &c->nodes[c->n - 1]);
    if (r == 0)
        r = advance(c);
    if (r == 0)
        r = parse_expression(c, b + 1);
    if (r == 0)
        r = predicate_check_number(c, &c->nodes[c->n - 1]);
    return r < 0 ? r : push_operator(c, (struct instr){.op = ops[op.kind]}, op.col);
}

/* Which operands are columns: struct instr's want. */
static uint8_t columns_among(struct node **operands, size_t n)
{
    uint8_t columns = 0;
    for (size_t i = 0; i < n; i++)
        if (operands[i]->in.op == OP_LOAD)
            columns |= (uint8_t)(1U << i);
    return columns;
}

static int parse_compare(struct compiler *c, enum binding b)
{
    struct token op = c->now;
    struct node *operands[2];
    int r = advance(c);
    if (r == 0)
        r = parse_expression(c, b + 1);
    if (r < 0)
        return r;
    last_operands(c, 2, operands);
    r = predicate_check_compare(c, operands, 2);
    struct instr in = {.op = OP_COMPARE, .arg = op.orders, .want = columns_among(operands, 2)};
    return r < 0 ? r : push_operator(c, in, op.col);
}

/* Behind IS. */
static int parse_is_null(struct compiler *c, uint32_t col)
{
    bool negated = at(c, TOKEN_NOT);
    int r = negated ? advance(c) : 0;
    if (r < 0)
        return r;
    if (!at(c, TOKEN_NULL))
        return diag_set(c->why, E_PROTO, c->now.col, "IS takes NULL or NOT NULL; to compare write =");
    r = advance(c);
    return r < 0 ? r : push_operator(c, (struct instr){.op = OP_IS_NULL, .arg = negated}, col);
}

static int parse_between(struct compiler *c, bool negated, uint32_t col)
{
    struct node *operands[3];
    int r = parse_expression(c, BIND_LESS);
    if (r < 0)
        return r;
    if (!at(c, TOKEN_AND))
        return diag_set(c->why, E_PROTO, c->now.col, "BETWEEN takes two bounds: x BETWEEN 1 AND 9");
    r = advance(c);
    if (r == 0)
        r = parse_expression(c, BIND_LESS);
    if (r < 0)
        return r;
    last_operands(c, 3, operands);
    r = predicate_check_compare(c, operands, 3);
    struct instr in = {.op = OP_BETWEEN, .arg = negated, .want = columns_among(operands, 3)};
    return r < 0 ? r : push_operator(c, in, col);
}

static int add_item(struct compiler *c, struct value v, uint32_t col)
{
    if (c->n_items == PREDICATE_IN_MAX)
        return diag_set(c->why, E_LIMIT, col, "more than %d values in an IN list", PREDICATE_IN_MAX);
    if (c->n_items == c->cap_items) {
        size_t cap = c->cap_items ? c->cap_items * 2 : 16;
        struct value *items = mem_try_resize(c->items, cap * sizeof *items);
        if (!items)
            return -ENOMEM;
        c->items = items;
        c->cap_items = cap;
    }
    c->items[c->n_items++] = v;
    return 0;
}

/* [-] constant, translated to what the left side is. */
static int parse_item(struct compiler *c)
{
    struct node item;
    bool minus = at(c, TOKEN_MINUS);
    int r = minus ? advance(c) : 0;
    if (r < 0)
        return r;
    if (!at_constant(c) || (minus && !at(c, TOKEN_NUMBER)))
        return diag_set(c->why, E_PROTO, c->now.col,
                        "IN takes a list of constants in parentheses: 1, 'text' (quoted), NULL");
    r = parse_constant(c, &item);
    if (r < 0)
        return r;
    if (minus)
        item = predicate_const_node(predicate_apply(&(struct instr){.op = OP_NEGATE}, &item.in.k), item.col);
    r = predicate_check_compare(c, (struct node *[]){&c->nodes[c->n - 1], &item}, 2);
    return r < 0 ? r : add_item(c, item.in.k, item.col);
}

static int missing_right(struct compiler *c, uint32_t open_col)
{
    return diag_set(c->why, E_PROTO, c->now.col, "missing ): the ( at column %u is not closed",
                    (unsigned)open_col);
}

static int parse_in(struct compiler *c, bool negated, uint32_t col)
{
    struct instr in = {.op = OP_IN, .arg = negated};
    uint32_t open = c->now.col;
    if (!at(c, TOKEN_LEFT))
        return diag_set(c->why, E_PROTO, open, "IN takes a list in parentheses: x IN (1, 2, 3)");
    c->n_items = 0;
    do {
        int r = advance(c);
        if (r == 0)
            r = parse_item(c);
        if (r < 0)
            return r;
    } while (at(c, TOKEN_COMMA));
    if (!at(c, TOKEN_RIGHT))
        return missing_right(c, open);
    int r = predicate_set_create(&c->p->arena, c->items, c->n_items, &in.set);
    if (r == 0)
        r = advance(c);
    if (r < 0)
        return r;
    c->nodes[c->n - 1].in.want = in.set->want;
    return push_operator(c, in, col);
}

/* The escape character of LIKE, or -1. */
static int parse_escape(struct compiler *c, int *escape)
{
    *escape = -1;
    if (!at(c, TOKEN_ESCAPE))
        return 0;
    int r = advance(c);
    if (r < 0)
        return r;
    struct node n;
    if (!at(c, TOKEN_TEXT))
        return diag_set(c->why, E_PROTO, c->now.col, "ESCAPE takes one character in quotes: ESCAPE '!'");
    r = parse_constant(c, &n);
    if (r < 0)
        return r;
    if (n.in.k.n != 1)
        return diag_set(c->why, E_PROTO, n.col, "ESCAPE takes one ASCII character in quotes: ESCAPE '!'");
    *escape = (unsigned char)n.in.k.p[0];
    return 0;
}

static int make_pattern(struct compiler *c, struct instr *in, const struct node *n, int escape)
{
    struct slice pattern = value_slice(n->in.k);
    c->pattern_bytes += pattern.n;
    if (c->pattern_bytes > PREDICATE_PATTERN_MAX)
        return diag_set(c->why, E_LIMIT, n->col, "patterns of more than %d bytes together",
                        PREDICATE_PATTERN_MAX);
    if (in->op == OP_GLOB) {
        in->k = n->in.k;
        if (text_glob_is_closed(pattern))
            return 0;
        return diag_set(c->why, E_PROTO, n->col,
                        "a [ in this pattern is not closed; for the character write [[]");
    }
    int r = predicate_like_create(&c->p->arena, pattern, escape, &in->like);
    if (r == E_PROTO)
        return diag_set(c->why, r, n->col,
                        "there is nothing behind the ESCAPE character at the end of this pattern");
    return r;
}

static int parse_pattern(struct compiler *c, uint8_t op, bool negated, uint32_t col)
{
    const char *name = op == OP_LIKE ? "LIKE" : "GLOB";
    struct instr in = {.op = op, .arg = negated};
    struct node pattern;
    int escape = -1;
    int r = predicate_check_text(c, &c->nodes[c->n - 1], name);
    if (r < 0)
        return r;
    if (!at(c, TOKEN_TEXT))
        return diag_set(c->why, E_PROTO, c->now.col, "%s takes a pattern in quotes, as in %s '%s'", name,
                        name, op == OP_LIKE ? "transfer.%" : "transfer.*");
    r = parse_constant(c, &pattern);
    if (r == 0 && op == OP_LIKE)
        r = parse_escape(c, &escape);
    if (r == 0)
        r = make_pattern(c, &in, &pattern, escape);
    if (r < 0)
        return r;
    c->nodes[c->n - 1].in.want = CLASS_TEXT;
    return push_operator(c, in, col);
}

/* IS, or [NOT] IN, BETWEEN, LIKE, GLOB. */
static int parse_word_operator(struct compiler *c)
{
    uint32_t col = c->now.col;
    bool negated = at(c, TOKEN_NOT);
    int r = negated ? advance(c) : 0;
    struct token word = c->now;
    if (r == 0)
        r = advance(c);
    if (r < 0)
        return r;
    switch (word.kind) {
    case TOKEN_IN:
        return parse_in(c, negated, col);
    case TOKEN_BETWEEN:
        return parse_between(c, negated, col);
    case TOKEN_LIKE:
        return parse_pattern(c, OP_LIKE, negated, col);
    case TOKEN_GLOB:
        return parse_pattern(c, OP_GLOB, negated, col);
    default:
        break;
    }
    if (!negated)
        return parse_is_null(c, col);
    return diag_set(c->why, E_PROTO, word.col,
                    "behind NOT comes IN, BETWEEN, LIKE or GLOB here; write NOT x = y");
}

static enum binding binding_of(uint8_t token)
{
    static const uint8_t bindings[] = {
        [TOKEN_OR] = BIND_OR,        [TOKEN_AND] = BIND_AND,       [TOKEN_NOT] = BIND_EQUAL,
        [TOKEN_IS] = BIND_EQUAL,     [TOKEN_IN] = BIND_EQUAL,      [TOKEN_BETWEEN] = BIND_EQUAL,
        [TOKEN_LIKE] = BIND_EQUAL,   [TOKEN_GLOB] = BIND_EQUAL,    [TOKEN_EQUAL] = BIND_EQUAL,
        [TOKEN_LESS] = BIND_LESS,    [TOKEN_PLUS] = BIND_SUM,      [TOKEN_MINUS] = BIND_SUM,
        [TOKEN_STAR] = BIND_PRODUCT, [TOKEN_SLASH] = BIND_PRODUCT, [TOKEN_PERCENT] = BIND_PRODUCT,
        [TOKEN_FALSE] = BIND_NONE, /* the last token */
    };
    return bindings[token];
}

static int parse_operator(struct compiler *c, enum binding b)
{
    if (b == BIND_OR || b == BIND_AND)
        return parse_logic(c, b);
    if (b >= BIND_SUM)
        return parse_arith(c, b);
    if (at(c, TOKEN_EQUAL) || at(c, TOKEN_LESS))
        return parse_compare(c, b);
    return parse_word_operator(c);
}

/* --- operands --- */

static int parse_parenthesis(struct compiler *c)
{
    uint32_t open = c->now.col;
    int r = enter(c);
    if (r == 0)
        r = advance(c);
    if (r == 0)
        r = parse_expression(c, BIND_OR);
    if (r < 0)
        return r;
    leave(c);
    if (at(c, TOKEN_COMMA))
        return diag_set(c->why, E_PROTO, c->now.col, "a list of values comes only after IN");
    return at(c, TOKEN_RIGHT) ? advance(c) : missing_right(c, open);
}

static int parse_not(struct compiler *c, enum binding at_least)
{
    uint32_t col = c->now.col;
    if (at_least > BIND_NOT)
        return diag_set(c->why, E_PROTO, col, "put NOT and what it belongs to in parentheses here");
    int r = enter(c);
    if (r == 0)
        r = advance(c);
    if (r == 0)
        r = parse_expression(c, BIND_NOT);
    if (r == 0)
        r = predicate_check_condition(c, &c->nodes[c->n - 1]);
    leave(c);
    return r < 0 ? r : push_operator(c, (struct instr){.op = OP_NOT}, col);
}

static int parse_minus(struct compiler *c)
{
    uint32_t col = c->now.col;
    int r = enter(c);
    if (r == 0)
        r = advance(c);
    if (r == 0)
        r = parse_expression(c, BIND_UNARY);
    if (r == 0)
        r = predicate_check_number(c, &c->nodes[c->n - 1]);
    leave(c);
    return r < 0 ? r : push_operator(c, (struct instr){.op = OP_NEGATE}, col);
}

static int no_operand(struct compiler *c)
{
    struct excerpt e = predicate_excerpt(c->now.text);
    if (at(c, TOKEN_END))
        return diag_set(c->why, E_PROTO, c->now.col,
                        c->n ? "the predicate ends where a value or field should come"
                             : "the predicate is empty");
    if (predicate_is_keyword(c->now.kind))
        return diag_set(c->why, E_PROTO, c->now.col,
                        "a value or field should come before %s; a field of that name is written \"%s\"", e.z,
                        e.z);
    return diag_set(c->why, E_PROTO, c->now.col, "a value or field should come before %s", e.z);
}

static int parse_operand(struct compiler *c, enum binding at_least)
{
    if (at_constant(c)) {
        struct node n;
        int r = parse_constant(c, &n);
        return r < 0 ? r : push_operand(c, n);
    }
    switch (c->now.kind) {
    case TOKEN_NAME:
    case TOKEN_QUOTED:
        return parse_name(c);
    case TOKEN_LEFT:
        return parse_parenthesis(c);
    case TOKEN_NOT:
        return parse_not(c, at_least);
    case TOKEN_MINUS:
        return parse_minus(c);
    default:
        return no_operand(c);
    }
}

static int parse_expression(struct compiler *c, enum binding at_least)
{
    int r = parse_operand(c, at_least);
    while (r == 0) {
        enum binding b = binding_of(c->now.kind);
        if (b == BIND_NONE || b < at_least)
            break;
        r = parse_operator(c, b);
    }
    return r;
}

static int unexpected(struct compiler *c)
{
    struct excerpt e = predicate_excerpt(c->now.text);
    const char *keyword = at(c, TOKEN_NAME) ? predicate_nearest_keyword(c->now.text) : NULL;
    if (keyword)
        return diag_set(c->why, E_PROTO, c->now.col, "unexpected %s; did you mean %s?", e.z, keyword);
    if (at(c, TOKEN_RIGHT))
        return diag_set(c->why, E_PROTO, c->now.col, "this ) closes nothing");
    if (at(c, TOKEN_COMMA))
        return diag_set(c->why, E_PROTO, c->now.col, "a list of values comes only after IN");
    return diag_set(c->why, E_PROTO, c->now.col, "an operator such as = or AND should come before %s", e.z);
}

int predicate_parse(struct compiler *c)
{
    int r = advance(c);
    if (r == 0)
        r = parse_expression(c, BIND_OR);
    if (r < 0)
        return r;
    if (!at(c, TOKEN_END))
        return unexpected(c);
    assert(c->nodes[c->n - 1].start == 0);
    return predicate_check_condition(c, &c->nodes[c->n - 1]);
}
