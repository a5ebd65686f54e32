/* SPDX-License-Identifier: Apache-2.0 */
/* stream_question.h - what the questions about streams (`latest`, `summary`) have in common: which streams
 * are meant (event, host, where), what the asker sees of them, and pages (after).
 *
 *     if (!stream_question_open(&q, turn, streams, ACCESS_QUERY, more))
 *         return;                                       (the turn has ended)
 *     while ((s = stream_question_next(&q)))
 *         ... q.rows++, or stream_question_full(&q, row) and out of the loop
 *     stream_question_end(&q, 0);
 *
 * A page looks at STREAM_QUESTION_LOOKED streams at most, so that a question holds the loop for a few
 * milliseconds; it may then have no row and say `after`. `after` is text, "GROUP-STREAM-ROW" (streams.h):
 * rows before ROW of that stream were given; 0 = all of it. */
#ifndef GRIDLINE_GATEWAY_STREAM_QUESTION_H
#define GRIDLINE_GATEWAY_STREAM_QUESTION_H

#include "event/predicate.h"
#include "gateway/control.h"
#include "gateway/streams.h"

enum { STREAM_QUESTION_LOOKED = 8192 };

struct stream_question {
    struct control_turn *turn;
    const char *verb;
    struct slice events, hosts; /* borrowed from the question */
    struct predicate *where;    /* NULL = all */
    struct access_view *view;
    struct streams_walk walk;
    struct streams_cursor done; /* of the last stream that the page is done with, */
    uint64_t done_row;          /* or not quite: rows before this one */
    uint64_t first_row;         /* of the stream given last: where it goes on */
    size_t looked;
    uint64_t rows; /* given; the caller counts */
    bool is_first, has_choice, has_more;
    struct value room[EVENT_FIELDS_MAX]; /* for the view */
};

/* event: the name of the streams that are meant; "" = those of the question's own `event`. more: names of
 * values that the question may have besides; NULL ends them. false: it was wrong, not allowed,
 * or there is no memory, and the asker has been told. stream_question_end if true. */
bool stream_question_open(struct stream_question *q, struct control_turn *t, const char *verb,
                          const struct streams *streams, enum access_action action, struct slice event,
                          const char *const *more);
/* NULL at the end of the page. */
struct stream *stream_question_next(struct stream_question *q);
/* e as the asker sees it: false, not at all, or it is not of a place that is meant. where has not been asked.
 */
bool stream_question_sees(struct stream_question *q, const struct event *e, struct event *seen);
/* There is no room for that row of the current stream: the next page begins with it. */
void stream_question_full(struct stream_question *q, uint64_t row);
/* Ends the turn; failed: -ENOMEM, or 0. */
void stream_question_end(struct stream_question *q, int failed);

#endif
