/* SPDX-License-Identifier: Apache-2.0 */
/* api_question.h - a question to control.h from a program that wants all of the answer: it follows the pages
 * (`after`) by itself, one a turn of the loop, until there are no more, its asker has enough, or there is no
 * room for more; then it goes on when the asker says so. HTTP and XML-RPC ask by it. On the loop. */
#ifndef GRIDLINE_GATEWAY_API_QUESTION_H
#define GRIDLINE_GATEWAY_API_QUESTION_H

#include "gateway/control.h"

struct question;

/* How an answer ended. */
struct question_end {
    uint16_t status; /* enum control_status */
    struct slice text;
    struct args values; /* of the last answer, without `rows` and `after` */
    struct value next;  /* `after` of the question that goes on; VALUE_NONE = that was all */
    uint64_t rows;
};

struct question_ops {
    void (*row)(struct question *q, struct args row, struct slice text);
    void (*events)(struct question *q, const struct event *events, size_t n); /* rows that are events */
    /* Shall the next page be asked for? NULL = always. */
    enum question_more { QUESTION_ON, QUESTION_WAIT, QUESTION_ENOUGH } (*more)(struct question *q);
    /* Once, last; the asker ends q. Not from inside of question_ask: from the loop. */
    void (*done)(struct question *q, const struct question_end *end);
};

/* Embedded in who asks; zeroed. */
struct question {
    const struct question_ops *ops;
    struct control_asker asker; /* its own from here on */
    struct control *control;
    struct event *turn;
    struct strbuf verb;
    struct args_writer args; /* without `after` */
    struct args_writer page; /* args, and `after` */
    struct value after;      /* of the next page; text is in after_text */
    struct strbuf after_text;
    struct args_writer values;
    struct strbuf text;
    uint64_t rows;
    uint16_t status;
    bool is_asking;  /* an answer is on its way */
    bool is_inside;  /* within control_ask: what comes now comes together */
    bool is_waiting; /* for question_go_on */
    bool is_ended;   /* the last answer has come; done is next */
};

/* Keeps copies of verb and args; who is borrowed. `after` of args is where it begins. -ENOMEM. question_fini
 * in any case. */
int question_ask(struct question *q, struct event_base *base, struct control *control,
                 const struct access_identity *who, struct slice verb, struct args args);
/* After QUESTION_WAIT: there is room again. */
void question_go_on(struct question *q);
void question_fini(struct question *q); /* also of one that is being answered */

/* Named values from a request's texts: a number where the name says that it is one (after, limit, ...), else
 * text. */
void question_add_text(struct args_writer *out, struct slice name, struct slice text);

#endif
