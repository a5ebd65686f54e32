/* SPDX-License-Identifier: Apache-2.0 */
/* From nodes to a program. The nodes are in postfix order already, so one pass over them emits the program:
 *
 *   - a comparison with a constant, IN, LIKE, GLOB and IS NULL take a field or head straight from the event:
 *     the loads and constants just emitted for them are taken back;
 *   - before the right side of AND and OR comes a jump past it. Where only truth matters (nothing above but
 *     AND and OR), unknown is as good as false, the jump is PASS_AND or PASS_OR and the operator vanishes;
 *   - a jump to a jump of the same kind goes to the latter's target at once: its condition is the same.
 *
 * host = 'a' AND size > 5 AND ok:
 *   0 COMPARE_CONST host = 'a'   1 PASS_AND 5   2 COMPARE_CONST size > 5   3 PASS_AND 5   4 LOAD ok   5 END
 *
 * Rejected: a tree walked by recursion (a chain of 300 ORs is 300 deep), and closures or machine code (the
 * interpreter takes a few ns a leaf, less than the cache miss on the event). */
#include "event/predicate_internal.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>

struct generator {
    struct arena *arena;
    struct node *nodes;
    struct instr *code;
    size_t n;
    int depth, depth_max; /* values on the stack at this point, and at most */
};

static bool is_sourced(uint8_t op)
{
    return op >= OP_COMPARE_CONST && op <= OP_IS_NULL;
}

static int stack_effect(const struct instr *in)
{
    switch (in->op) {
    case OP_LOAD:
    case OP_CONST:
        return 1;
    case OP_SKIP_FALSE:
    case OP_SKIP_TRUE:
        return 0;
    case OP_PASS_AND:
    case OP_PASS_OR:
        return -1;
    default:
        return is_sourced(in->op) && in->slot != SLOT_STACK ? 1 : 1 - (int)predicate_operands(in->op);
    }
}

static void emit(struct generator *g, struct instr in)
{
    g->depth += stack_effect(&in);
    if (g->depth > g->depth_max)
        g->depth_max = g->depth;
    g->code[g->n++] = in;
}

/* Takes back the last instruction, which pushed an operand. */
static struct instr take_back(struct generator *g)
{
    g->depth--;
    return g->code[--g->n];
}

static void emit_sourced(struct generator *g, const struct node *operand, struct instr in)
{
    in.slot = SLOT_STACK;
    if (operand->in.op == OP_LOAD) {
        in.want = operand->in.want;
        in.slot = take_back(g).slot;
    }
    emit(g, in);
}

static int emit_compare(struct generator *g, size_t at)
{
    const struct node *right = &g->nodes[at - 1], *left = &g->nodes[right->start - 1];
    struct instr in = g->nodes[at].in;
    if (node_is_const(right)) {
        in.op = OP_COMPARE_CONST;
        in.k = take_back(g).k;
        if (predicate_other(g->arena, &in.k, &in.other) < 0)
            return -ENOMEM;
        emit_sourced(g, left, in);
    } else if (node_is_const(left) && right->in.op == OP_LOAD) {
        in.op = OP_COMPARE_CONST;
        in.arg = predicate_flip(in.arg);
        in.slot = take_back(g).slot;
        in.want = right->in.want;
        in.k = take_back(g).k;
        if (predicate_other(g->arena, &in.k, &in.other) < 0)
            return -ENOMEM;
        emit(g, in);
    } else {
        emit(g, in);
    }
    return 0;
}

/* Before the first node of the right side of the AND or OR at index `of`. */
static void emit_jump(struct generator *g, size_t of)
{
    struct node *logic = &g->nodes[of];
    bool is_and = logic->in.op == OP_AND;
    uint8_t op =
        logic->positive ? (is_and ? OP_PASS_AND : OP_PASS_OR) : (is_and ? OP_SKIP_FALSE : OP_SKIP_TRUE);
    logic->jump_at = (uint32_t)g->n;
    emit(g, (struct instr){.op = op});
}

static int emit_node(struct generator *g, size_t at)
{
    const struct node *n = &g->nodes[at];
    if (n->jump_for)
        emit_jump(g, n->jump_for);
    if (n->in.op == OP_COMPARE) {
        return emit_compare(g, at);
    } else if (is_sourced(n->in.op)) {
        emit_sourced(g, n - 1, n->in);
    } else if (n->in.op == OP_AND || n->in.op == OP_OR) {
        if (!n->positive)
            emit(g, n->in);
        g->code[n->jump_at].target = (uint16_t)g->n;
    } else {
        emit(g, n->in);
    }
    return 0;
}

/* From the root down: parents come after their operands, so backwards meets them first. */
static void mark_positive(struct node *nodes, size_t n)
{
    nodes[n - 1].positive = true;
    for (size_t i = n - 1; i > 0; i--) {
        if (!nodes[i].positive || (nodes[i].in.op != OP_AND && nodes[i].in.op != OP_OR))
            continue;
        nodes[i - 1].positive = true;
        nodes[nodes[i - 1].start - 1].positive = true;
    }
}

static void thread_jumps(struct instr *code, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (code[i].op < OP_SKIP_FALSE)
            continue;
        const struct instr *to = &code[code[i].target];
        if (to->op == code[i].op)
            code[i].target = to->target;
    }
}

static int make_cache(struct predicate *p)
{
    size_t each = PREDICATE_PLACES * p->n_fields;
    if (each == 0)
        return 0;
    uint16_t *index = arena_alloc(&p->arena, PREDICATE_CACHE * each * sizeof *index);
    p->spellings = arena_alloc(&p->arena, p->n_fields * sizeof *p->spellings);
    if (!index || !p->spellings)
        return -ENOMEM;
    for (size_t i = 0; i < PREDICATE_CACHE; i++)
        p->cache[i].index = index + i * each;
    return 0;
}

static bool is_range(const struct instr *in)
{
    return in->op == OP_COMPARE_CONST && in->slot >= SLOT_FIELDS && in->slot != SLOT_STACK &&
           predicate_is_integer(&in->k) && in->k.i >= 0;
}

/* Comparisons with nothing but AND between them: there is no other way than to pass every one. */
static bool has_only_ranges(const struct instr *code)
{
    for (; is_range(code); code += 2) {
        if (code[1].op == OP_END)
            return true;
        if (code[1].op != OP_PASS_AND)
            return false;
    }
    return false;
}

static int generate(struct compiler *c)
{
    struct predicate *p = c->p;
    struct generator g = {.arena = &p->arena, .nodes = c->nodes};
    g.code =
        arena_alloc(&p->arena, (2 * c->n + 1) * sizeof *g.code); /* each node, a jump for some, the end */
    if (!g.code)
        return -ENOMEM;
    mark_positive(c->nodes, c->n);
    for (size_t i = 0; i < c->n; i++)
        if (emit_node(&g, i) < 0)
            return -ENOMEM;
    assert(g.depth == 1);
    g.code[g.n++] = (struct instr){.op = OP_END};
    thread_jumps(g.code, g.n);
    p->code = g.code;
    p->is_ranges = has_only_ranges(g.code);
    p->stack = arena_alloc(&p->arena, (size_t)g.depth_max * sizeof *p->stack);
    return p->stack ? make_cache(p) : -ENOMEM;
}

int predicate_compile(struct slice text, int64_t now_ns, struct predicate **out, struct diag *why)
{
    if (text.n > PREDICATE_TEXT_MAX)
        return diag_set(why, E_LIMIT, PREDICATE_TEXT_MAX + 1,
                        "the predicate is %zu bytes long; at most %d are allowed", text.n,
                        PREDICATE_TEXT_MAX);
    struct compiler c = {
        .lex = {.text = text}, .now_ns = now_ns, .why = why, .p = mem_try_alloc(sizeof *c.p)};
    int r = c.p ? predicate_parse(&c) : -ENOMEM;
    if (r == 0)
        r = generate(&c);
    mem_free(c.nodes);
    mem_free(c.items);
    if (r < 0) {
        predicate_destroy(c.p);
        return r == -ENOMEM ? diag_set(why, r, 0, "out of memory") : r;
    }
    *out = c.p;
    return 0;
}

void predicate_destroy(struct predicate *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < PREDICATE_CACHE; i++)
        schema_unref(p->cache[i].schema);
    arena_fini(&p->arena);
    mem_free(p);
}

/* Does the instruction give nothing for a number column? */
static bool needs_text(const struct instr *in)
{
    switch (in->op) {
    case OP_COMPARE_CONST:
        return in->k.type == VALUE_TEXT && in->other.type == VALUE_NONE;
    case OP_IN:
        return in->set->n_numbers == 0 && in->set->n_texts > 0;
    default:
        return in->op == OP_LIKE || in->op == OP_GLOB;
    }
}

bool predicate_notice(const struct predicate *p, const struct class_source *classes, struct slice event, struct diag *why)
{
    for (const struct instr *in = p->code; classes && in->op != OP_END; in++) {
        if (!is_sourced(in->op) || in->slot < SLOT_FIELDS || in->slot == SLOT_STACK || !needs_text(in))
            continue;
        struct slice field = p->fields[in->slot - SLOT_FIELDS], base;
        struct class_state state;
        bool is_number = class_view(field, &base) == CLASS_NUMBER ||
                         (classes->get(classes->arg, event, field, &state) && state.class == CLASS_NUMBER);
        if (!is_number)
            continue;
        (void)diag_set(why, 0, 0,
                       "%.*s of %.*s is a number column: text that is no number never passes; \"%.*s:text\" has its text",
                       SLICE_ARG(field), SLICE_ARG(event), SLICE_ARG(base));
        return true;
    }
    return false;
}
