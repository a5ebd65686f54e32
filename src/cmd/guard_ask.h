/* SPDX-License-Identifier: Apache-2.0 */
/* guard_ask.h - what the commands about faults share: whom they ask (this host's guard by its socket, or a
 * gateway, which has heard of guards), the faults that words mean, and orders. Everything that is wrong has
 * been said when a call returns; results are exit codes. */
#ifndef GRIDLINE_CMD_GUARD_ASK_H
#define GRIDLINE_CMD_GUARD_ASK_H

#include "cmd/question.h"

/* The struct with a command's options begins with this. */
struct guard_options {
    struct question_options question; /* first */
    const char *guard;
};

/* clang-format off */
#define GUARD_OPTION \
    {0, "guard", OPTION_TEXT, "ADDRESS", offsetof(struct guard_options, guard), \
     "ask this guard: `unix:PATH` (default: the one on this host; if there is none, its gateway)"}
/* clang-format on */

struct guard_question {
    struct question question;
    struct question_options options; /* the caller's, with the address that is asked */
    struct strbuf address;
    bool is_guard; /* else it is a gateway */
};

/* As question_open; g->question.table_options and the like are set before. --guard; else --gateway; else this
 * host's guard if it listens; else this host's gateway. guard_close in any case. */
int guard_open(struct guard_question *g, const struct guard_options *o, const char *prog);
void guard_close(struct guard_question *g);

/* Asks verb with g->question.args, which are empty then. Of a row or the last answer: its `id`, in *id (may
 * be NULL). */
int guard_order(struct guard_question *g, const char *verb, uint64_t *id);
/* Adds `by`, this user's name; a gateway knows better, so it is not told. */
void guard_add_by(struct guard_question *g);

/* One fault of an answer. */
struct guard_fault {
    char *id, *rule, *host, *state;
};
struct guard_faults {
    struct guard_fault *v;
    size_t n, cap;
};
/* All faults of that state (as the question has it). */
int guard_faults_ask(struct guard_question *g, const char *state, struct guard_faults *out);
void guard_faults_fini(struct guard_faults *f);
/* The one that the word means: an id, the beginning of one id, or RULE:HOST. NULL after having said why;
 * *code is the exit code. */
const struct guard_fault *guard_faults_find(const struct guard_faults *f, const char *word, int *code);

#endif
