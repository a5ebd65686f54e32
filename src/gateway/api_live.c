/* SPDX-License-Identifier: Apache-2.0 */
/* GET and POST /api/v1/live: the newest tiles of some lanes (live_request.h), pushed when they change, as one
 * answer that does not end.
 *
 *   frames   u32 bytes of the payload, u16 lane, u8 kind, u8 0, all little-endian; then the payload. Kinds:
 *            1 a tile (GLT1); 2 JSON about the lane, or of lane 0 about the connection; 3 a sign of life,
 * empty sse      event: tile, data: {"lane":1,"tile":{...}}; event: note, data: the JSON above; a comment as
 * sign of life
 *
 * A round each tick: one tile after the other is asked of the archive, for each lane the one that holds now
 * and those before it that ended within GRACE_S, up to TILES. So a connection has one query at a time,
 * however many lanes it has, and a slow archive makes ticks longer instead of a queue. What is known of a
 * tile is its hash: it goes out when that is another.
 *
 * A client that does not read: while HTTP_OUTPUT_LOW bytes wait no round begins, and one that has begun stops
 * at HTTP_OUTPUT_HIGH. Nothing is kept for it but the hashes: when it reads again it gets what is newest, and
 * a note that says how many ticks were skipped. */
#include "gateway/api.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "event/json.h"
#include "gateway/live_request.h"
#include "gateway/sql.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>

enum { GRACE_S = 5, TILES = 4, PING_S = 15, EVERY_MS = 250, QUIET_S = 2 };
enum live_kind { LIVE_TILE = 1, LIVE_NOTE = 2, LIVE_PING = 3 };
enum live_format { LIVE_FRAMES, LIVE_SSE };

static const struct api_format formats[] = {{"frames", "application/vnd.gridline.live"},
                                            {"sse", "text/event-stream"}};

/* What the client has of a lane. */
struct lane_state {
    struct {
        int64_t index;
        uint64_t hash;
        bool is_known;
    } tiles[TILES]; /* by index modulo TILES */
    int error;      /* of the last answer, as it was told; 0 = none */
};

struct live {
    struct query_asker asker; /* first: the callbacks get it */
    struct http_request *request;
    struct live_request asked;
    enum live_format format;
    struct lane_state states[LIVE_LANES_MAX];
    struct event *timer;
    struct query *query;  /* of the tile at lane, index; NULL = none */
    struct strbuf answer; /* to it */
    struct strbuf text;   /* what is asked, what is sent */
    bool is_in_round;     /* lane and index are where it is */
    size_t lane, left;    /* left: lanes to go, with this one */
    int64_t index, last;  /* last: of this lane */
    int64_t round_ns;     /* when the round began; monotonic, as sent_ns and settled_ns */
    int64_t sent_ns;      /* when something was sent */
    uint64_t settled;     /* record of the journal */
    int64_t settled_ns;   /* when it changed */
    uint64_t skipped;     /* ticks, since the last note */
};

static const struct query_ops *ops_of(const struct live *l)
{
    return l->request->options->query;
}

static void wake_in(struct live *l, int64_t ns)
{
    const struct timeval in = {ns / NS_PER_S, ns % NS_PER_S / 1000};
    (void)evtimer_add(l->timer, &in); /* without memory: until the client leaves */
}

/* ---------------------------------------------------------------- sending */

/* What is in l->text goes out. */
static void flush(struct live *l)
{
    if (!strbuf_failed(&l->text)) /* else it comes with the next change */
        http_send(l->request, strbuf_slice(&l->text));
    strbuf_reset(&l->text);
    l->sent_ns = clock_mono_ns();
}

static void put_frame(struct live *l, enum live_kind kind, uint16_t lane, struct slice payload)
{
    strbuf_reset(&l->text);
    strbuf_add_u32(&l->text, (uint32_t)payload.n);
    strbuf_add_u16(&l->text, lane);
    strbuf_add_char(&l->text, (char)kind);
    strbuf_add_char(&l->text, '\0');
    strbuf_add_slice(&l->text, payload);
    flush(l);
}

/* In JSON a line end is only ever between its words. */
static void add_line(struct strbuf *out, struct slice json)
{
    for (size_t i = 0; i < json.n; i++)
        strbuf_add_char(out, json.p[i] == '\n' || json.p[i] == '\r' ? ' ' : json.p[i]);
}

static void send_tile(struct live *l, uint16_t lane, struct slice tile)
{
    if (l->format == LIVE_FRAMES) {
        put_frame(l, LIVE_TILE, lane, tile);
        return;
    }
    strbuf_reset(&l->text);
    strbuf_printf(&l->text, "event: tile\ndata: {\"lane\":%u,\"tile\":", lane);
    add_line(&l->text, tile);
    strbuf_add_str(&l->text, "}\n\n");
    flush(l);
}

static void send_note(struct live *l, uint16_t lane, const struct strbuf *json)
{
    if (l->format == LIVE_FRAMES) {
        put_frame(l, LIVE_NOTE, lane, strbuf_slice(json));
        return;
    }
    strbuf_reset(&l->text);
    strbuf_printf(&l->text, "event: note\ndata: %s\n\n", strbuf_slice(json).p);
    flush(l);
}

static void send_ping(struct live *l)
{
    if (l->format == LIVE_FRAMES)
        put_frame(l, LIVE_PING, 0, SLICE_LIT(""));
    else
        http_send(l->request, SLICE_LIT(":\n\n"));
    l->sent_ns = clock_mono_ns();
}

static void note_begin(struct live *l)
{
    struct strbuf json = {0};
    strbuf_printf(&json, "{\"lanes\":%zu,\"every_ms\":%" PRId64 "}", l->asked.n, l->asked.every_ns / 1000000);
    send_note(l, 0, &json);
    strbuf_fini(&json);
}

static void note_skipped(struct live *l)
{
    struct strbuf json = {0};
    if (!l->skipped)
        return;
    strbuf_printf(&json, "{\"skipped\":%" PRIu64 "}", l->skipped);
    l->skipped = 0;
    send_note(l, 0, &json);
    strbuf_fini(&json);
}

/* Once for each change of what is wrong. */
static void note_error(struct live *l, int error, const struct diag *why)
{
    struct strbuf json = {0};
    uint16_t lane = l->asked.lanes[l->lane].number;
    if (l->states[l->lane].error == error)
        return;
    l->states[l->lane].error = error;
    strbuf_printf(&json, "{\"lane\":%u,\"status\":%d,\"text\":", lane, api_query_status(error));
    json_add_string(&json, slice_str(why->message[0] ? why->message : err_text(error)));
    strbuf_add_char(&json, '}');
    send_note(l, lane, &json);
    strbuf_fini(&json);
}

/* ---------------------------------------------------------------- a tile */

static void on_piece(struct query_asker *asker, struct slice bytes)
{
    struct live *l = (struct live *)(void *)asker;
    strbuf_add_slice(&l->answer, bytes);
    ops_of(l)->more(l->query);
}

static void take_tile(struct live *l)
{
    struct lane_state *state = &l->states[l->lane];
    size_t place = (size_t)(((l->index % TILES) + TILES) % TILES);
    struct cursor c = cursor_of(strbuf_slice(&l->answer));
    (void)cursor_bytes(&c, 8); /* whether it is final, and what it is */
    uint64_t hash = cursor_u64(&c);
    bool is_same = state->tiles[place].is_known && state->tiles[place].index == l->index &&
                   state->tiles[place].hash == hash;
    state->error = 0;
    if (c.bad || strbuf_failed(&l->answer) || is_same)
        return;
    state->tiles[place].index = l->index;
    state->tiles[place].hash = hash;
    state->tiles[place].is_known = true;
    send_tile(l, l->asked.lanes[l->lane].number, slice_from(strbuf_slice(&l->answer), QUERY_TILE_HEAD));
}

/* The next one is not asked from here, but from the loop: a query can't be asked while another ends. A tile
 * itself says what is not in it. */
static void on_end(struct query_asker *asker, const struct query_end *end)
{
    struct live *l = (struct live *)(void *)asker;
    if (end->r < 0)
        note_error(l, end->r, end->why);
    else
        take_tile(l);
    ops_of(l)->close(l->query);
    l->query = NULL;
    l->index++;
    wake_in(l, 0);
}

/* 0, or what is wrong: -EAGAIN, the archive has too many to do. */
static int ask_tile(struct live *l, struct diag *why)
{
    strbuf_reset(&l->answer);
    strbuf_reset(&l->text);
    live_lane_tile(&l->asked.lanes[l->lane], l->index, l->format == LIVE_SSE, &l->text);
    if (strbuf_failed(&l->text))
        return -ENOMEM;
    const struct query_text question = {.kind = QUERY_TILE, .text = strbuf_slice(&l->text)};
    return sql_ask(l->request->options->query, &l->asker, l->request->who, &question, &l->query, why);
}

/* ---------------------------------------------------------------- rounds */

static void begin_lane(struct live *l)
{
    const struct live_lane *lane = &l->asked.lanes[l->lane];
    int64_t now = clock_utc_ns();
    l->last = live_lane_index(lane, now);
    l->index = live_lane_index(lane, now - GRACE_S * NS_PER_S);
    if (l->index < l->last - (TILES - 1))
        l->index = l->last - (TILES - 1);
}

/* Until the next round, or the next sign of life. */
static void wait_for_tick(struct live *l, int64_t now_ns)
{
    int64_t due = l->round_ns + l->asked.every_ns - now_ns;
    wake_in(l, due > PING_S * NS_PER_S ? PING_S * NS_PER_S : due > 0 ? due : 0);
}

/* Where the round was ended the next one goes on, so that no lane is always the last. */
static void end_round(struct live *l, bool is_cut)
{
    l->is_in_round = false;
    l->skipped += is_cut;
    wait_for_tick(l, clock_mono_ns());
}

/* Asks for the next tile, or ends the round. */
static void go_on(struct live *l)
{
    struct diag why = {0};
    for (;;) {
        if (l->index > l->last) {
            l->lane = (l->lane + 1) % l->asked.n;
            if (--l->left == 0) {
                end_round(l, false);
                return;
            }
            begin_lane(l);
        }
        if (http_waiting(l->request) > HTTP_OUTPUT_HIGH) {
            end_round(l, true);
            return;
        }
        int e = ask_tile(l, &why);
        if (e == 0)
            return;
        if (e == -EAGAIN || e == -ENOMEM) {
            end_round(l, true);
            return;
        }
        note_error(l, e, &why);
        l->index++;
    }
}

/* Nothing has come for a while, nor has it become time for another tile: all would be as it was. The archive
 * is a little behind the journal. */
static bool is_quiet(struct live *l, int64_t now_ns)
{
    uint64_t settled = ingest_settled(l->request->options->ingest);
    if (settled != l->settled || !l->settled_ns)
        l->settled_ns = now_ns;
    l->settled = settled;
    if (now_ns - l->settled_ns < QUIET_S * NS_PER_S)
        return false;
    int64_t now = clock_utc_ns();
    for (size_t i = 0; i < l->asked.n; i++) {
        int64_t index = live_lane_index(&l->asked.lanes[i], now);
        size_t place = (size_t)(((index % TILES) + TILES) % TILES);
        bool has_it = l->states[i].tiles[place].is_known && l->states[i].tiles[place].index == index;
        if (!has_it && !l->states[i].error)
            return false;
    }
    return true;
}

static void begin_round(struct live *l, int64_t now_ns)
{
    l->round_ns = now_ns;
    if (http_waiting(l->request) > HTTP_OUTPUT_LOW) {
        l->skipped++;
        wait_for_tick(l, now_ns);
        return;
    }
    if (is_quiet(l, now_ns)) {
        wait_for_tick(l, now_ns);
        return;
    }
    note_skipped(l);
    l->is_in_round = true;
    l->left = l->asked.n;
    begin_lane(l);
    go_on(l);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct live *l = arg;
    int64_t now = clock_mono_ns();
    (void)fd, (void)what; /* a timer's */
    if (now - l->sent_ns >= PING_S * NS_PER_S && http_waiting(l->request) <= HTTP_OUTPUT_LOW)
        send_ping(l);
    if (!http_is_current(l->request)) /* signed out, or a certificate is over */
        http_end_soon(l->request);
    else if (l->is_in_round)
        go_on(l);
    else if (l->round_ns && now < l->round_ns + l->asked.every_ns)
        wait_for_tick(l, now);
    else
        begin_round(l, now);
}

/* ---------------------------------------------------------------- life */

static void on_gone(struct http_request *r)
{
    struct live *l = r->state;
    if (l->query)
        ops_of(l)->close(l->query);
    if (l->timer)
        event_free(l->timer);
    live_request_fini(&l->asked);
    strbuf_fini(&l->answer);
    strbuf_fini(&l->text);
    mem_free(l);
}

/* 0, or why not. */
static int read_request(struct http_request *r, struct live_request *out, struct diag *why)
{
    struct slice lanes, every;
    bool has_lanes = http_query_take(&r->query, "lanes", &lanes);
    bool has_every = http_query_take(&r->query, "every", &every);
    if (r->query.n)
        return diag_set(why, E_PROTO, 0, "%.*s is no parameter here; there are lanes, every and format",
                        SLICE_ARG(r->query.params[0].name));
    int e = live_request_parse(r->method == HTTP_POST ? r->body : lanes, out, why);
    if (e < 0 && r->method == HTTP_GET && !has_lanes)
        return diag_set(
            why, E_PROTO, 0,
            "lanes: what to follow, as JSON: [{\"lane\":1,\"kind\":\"points\",\"name\":\"*\",\"level\":14}]");
    if (e == 0 && has_every)
        e = live_request_every(every, &out->every_ns, why);
    if (!out->every_ns)
        out->every_ns = EVERY_MS * INT64_C(1000000);
    return e;
}

static void begin(struct http_request *r, struct live *l)
{
    struct diag why = {0};
    int e = read_request(r, &l->asked, &why);
    if (e < 0) {
        http_problem_error(r, e, &why);
        return;
    }
    l->timer = evtimer_new(r->options->base, on_timer, l);
    if (!l->timer) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    http_start(r, 200, formats[l->format].mime);
    if (r->is_head) {
        http_end_soon(r);
        return;
    }
    note_begin(l);
    wake_in(l, 0);
}

void api_live(struct http_request *r)
{
    int format = api_choose_format(r, formats, sizeof formats / sizeof *formats);
    if (format < 0)
        return;
    if (!r->options->query) {
        http_problem(r, 404, "this gateway keeps no archive");
        return;
    }
    if (!access_check(r->who, ACCESS_QUERY, SLICE_LIT(""), SLICE_LIT(""))) {
        http_problem_control(r, CONTROL_NOT_ALLOWED, SLICE_LIT("you may not query events here"));
        return;
    }
    if (!http_be_stream(r))
        return;
    struct live *l = mem_try_alloc(sizeof *l);
    if (!l) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    l->asker = (struct query_asker){.piece = on_piece, .end = on_end};
    l->request = r;
    l->format = (enum live_format)format;
    l->sent_ns = clock_mono_ns();
    r->state = l;
    r->gone = on_gone;
    begin(r, l);
}
