/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/session_query.h"

#include "base/mem.h"
#include "gateway/channel.h"
#include "gateway/sql.h"
#include "net/query.h"

#include <errno.h>

static const int64_t ns_per_ms = 1000000;

struct running {
    struct query_asker asker; /* first: the callbacks get it */
    struct session_queries *all;
    struct query *query; /* NULL: this place is free */
    uint32_t id;
    bool is_held; /* a piece is asked for when the connection takes more */
};

struct session_queries {
    struct session *session;
    struct strbuf head; /* work space */
    struct running running[SESSION_QUERIES];
};

static struct running *of(struct query_asker *a)
{
    return (struct running *)(void *)a;
}

static const struct query_ops *ops_of(const struct session_queries *all)
{
    return session_all(all->session)->query;
}

static void close_one(struct running *r)
{
    if (r->query)
        ops_of(r->all)->close(r->query);
    r->query = NULL;
    r->is_held = false;
}

static void send_end(struct session_queries *all, const struct frame_query_end *end)
{
    if (!session_is_ready(all->session))
        return;
    frame_put_query_end(&session_all(all->session)->out, end);
    session_send(all->session);
}

/* ---------------------------------------------------------------- what comes of it */

static void on_piece(struct query_asker *a, struct slice bytes)
{
    struct running *r = of(a);
    struct session *s = r->all->session;
    if (!session_is_ready(s))
        return; /* it is going, and its queries with it */
    strbuf_reset(&r->all->head);
    frame_put_rows_head(&r->all->head, r->id, bytes.n);
    const struct slice parts[] = {strbuf_slice(&r->all->head), bytes};
    if (strbuf_failed(&r->all->head) || stream_send_parts(session_stream(s), parts, 2) < 0) {
        session_failed(s, -ENOMEM, "");
        return;
    }
    r->is_held = stream_waiting(session_stream(s)) > 0;
    if (!r->is_held)
        ops_of(r->all)->more(r->query);
}

static void on_end(struct query_asker *a, const struct query_end *end)
{
    struct running *r = of(a);
    const struct frame_query_end frame = {.id = r->id,
                                          .status = (uint16_t)sql_status(end->r),
                                          .text = slice_str(end->r < 0 ? end->why->message : ""),
                                          .column = end->r < 0 ? end->why->col : 0,
                                          .rows = end->rows,
                                          .lost = end->lost,
                                          .notices = *end->notices};
    send_end(r->all, &frame);
    close_one(r); /* why goes with it */
}

static void on_progress(struct query_asker *a, uint64_t rows_seen, int64_t elapsed_ns)
{
    struct running *r = of(a);
    struct session *s = r->all->session;
    if (!session_is_ready(s) || stream_waiting(session_stream(s)) > 0)
        return; /* it has other things to read */
    frame_put_query_progress(
        &session_all(s)->out,
        &(struct frame_query_progress){
            .id = r->id, .rows_seen = rows_seen, .elapsed_ms = (uint64_t)(elapsed_ns / ns_per_ms)});
    session_send(s);
}

/* ---------------------------------------------------------------- frames */

static struct running *find(struct session_queries *all, uint32_t id)
{
    for (size_t i = 0; i < SESSION_QUERIES; i++)
        if (all->running[i].query && all->running[i].id == id)
            return &all->running[i];
    return NULL;
}

static struct running *find_free(struct session_queries *all)
{
    for (size_t i = 0; i < SESSION_QUERIES; i++)
        if (!all->running[i].query)
            return &all->running[i];
    return NULL;
}

/* false: *why says which. */
static bool read_options(struct args options, struct query_text *out, struct diag *why)
{
    const uint64_t time_max_ms = INT64_MAX / ns_per_ms;
    struct arg a;
    while (args_next(&options, &a)) {
        uint64_t n = a.value.type == VALUE_UINT ? a.value.u : 0;
        if (slice_eq_str(a.name, "time_ms") && n && n <= time_max_ms)
            out->time_ns = (int64_t)n * ns_per_ms;
        else if (slice_eq_str(a.name, "rows") && n)
            out->rows = n;
        else {
            (void)diag_set(why, E_PROTO, 0, "this gateway does not know the option '%.*s', or not that value",
                           SLICE_ARG(a.name));
            return false;
        }
    }
    return true;
}

static int begin(struct session_queries *all, struct running *r, const struct frame_query *f,
                 struct diag *why)
{
    struct query_text text = {.kind = QUERY_SQL, .text = f->text, .format = QUERY_BINARY};
    if (!r)
        return diag_set(why, -EAGAIN, 0, "%d queries run on this connection already", SESSION_QUERIES);
    if (!read_options(f->options, &text, why))
        return E_PROTO;
    *r = (struct running){
        .asker = {.piece = on_piece, .end = on_end, .progress = on_progress}, .all = all, .id = f->id};
    return sql_ask(ops_of(all), &r->asker, session_who(all->session), &text, &r->query, why);
}

static void on_query(struct session_queries *all, struct slice payload)
{
    struct frame_query f;
    struct diag why = {0};
    if (frame_get_query(payload, &f) < 0 || find(all, f.id)) {
        session_protocol_error(all->session, "malformed QUERY, or one whose id is in use");
        return;
    }
    int r = begin(all, find_free(all), &f, &why);
    if (r < 0)
        send_end(all, &(struct frame_query_end){
                          .id = f.id, .status = (uint16_t)sql_status(r), .text = slice_str(why.message)});
}

/* One that has ended meanwhile is nobody's. */
static void on_cancel(struct session_queries *all, struct slice payload)
{
    uint32_t id;
    if (frame_get_query_cancel(payload, &id) < 0) {
        session_protocol_error(all->session, "malformed QUERY_CANCEL");
        return;
    }
    struct running *r = find(all, id);
    if (!r)
        return;
    close_one(r);
    send_end(all, &(struct frame_query_end){
                      .id = id, .status = CONTROL_FAILED, .text = slice_str(err_text(-ECANCELED))});
}

bool session_query_takes(uint8_t type)
{
    return type == FRAME_QUERY || type == FRAME_QUERY_CANCEL;
}

void session_query_frame(struct session_queries **link, struct session *s, const struct frame *f)
{
    if (!*link) {
        *link = mem_try_alloc(sizeof **link);
        if (!*link) {
            session_failed(s, -ENOMEM, "");
            return;
        }
        (*link)->session = s;
    }
    if (f->type == FRAME_QUERY)
        on_query(*link, f->payload);
    else
        on_cancel(*link, f->payload);
}

void session_query_writable(struct session_queries *all)
{
    for (size_t i = 0; all && i < SESSION_QUERIES; i++) {
        struct running *r = &all->running[i];
        if (r->query && r->is_held) {
            r->is_held = false;
            ops_of(all)->more(r->query);
        }
    }
}

size_t session_query_room(const struct session_queries *all)
{
    return all ? (size_t)SESSION_QUERIES * FRAME_PAYLOAD_MAX : 0;
}

void session_query_destroy(struct session_queries *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < SESSION_QUERIES; i++)
        close_one(&all->running[i]);
    strbuf_fini(&all->head);
    mem_free(all);
}
