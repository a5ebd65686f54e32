/* SPDX-License-Identifier: Apache-2.0 */
/* A link into the viewer. The whole view is in the fragment (web/src/state.js); what lanes are is in
 * web/src/pages/timeline-lanes.js. */
#include "base/clock.h"
#include "cmd/demo.h"
#include "net/ask.h"

#include <stdio.h>

#define MARGIN_NS (3 * NS_PER_S / 2) /* before and after the pause */

static int take_address(void *arg, const struct frame_answer *row)
{
    strbuf_add_slice(arg, args_text(row->args, "address"));
    return 0;
}

/* "http://127.0.0.1:14831/#key=..."; nothing where the gateway has no viewer. */
static void find_address(const struct demo *d, struct strbuf *out)
{
    const struct ask_options options = {
        .gateway = d->socket.p, .prog = "gridline-demo", .timeout_ns = 5 * NS_PER_S};
    const struct ask_question q = {.verb = SLICE_LIT("viewer.key")};
    struct ask_end end;
    struct ask *a;
    if (ask_open(&options, &a, NULL) < 0)
        return;
    if (ask_run(a, &q, take_address, out, &end, NULL) < 0)
        strbuf_reset(out);
    ask_close(a);
}

/* As encodeURIComponent of JavaScript, but for what may stand in a fragment and is read better as it is. */
static void add_encoded(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || (slice_lower((char)c) >= 'a' && slice_lower((char)c) <= 'z') ||
            strchr("-_.!~*'():/,@[]{}", c))
            strbuf_add_char(out, (char)c);
        else if (c == ' ')
            strbuf_add_char(out, '+');
        else
            strbuf_printf(out, "%%%02X", c);
    }
}

static void add_time(struct strbuf *out, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    size_t n = clock_print_iso(text, at_ns / 1000 * 1000);
    strbuf_printf(out, "%s=%.*s&", name, (int)n, text);
}

/* Lifelines of the worst server's blocks, its retransmits, and the machine's processors: as in the survey's
 * figure. */
static void add_lanes(const struct demo *d, struct strbuf *out)
{
    const char *server = d->found.bad_server;
    struct strbuf json = {0};
    strbuf_printf(&json,
                  "{\"lanes\":[{\"kind\":\"lifelines\",\"title\":\"Blocks from "
                  "%s\",\"ids\":\"id\",\"event\":\"block.*\","
                  "\"where\":\"server = '%s'\",\"height\":380},",
                  server, server);
    strbuf_printf(&json,
                  "{\"kind\":\"curves\",\"title\":\"TCP retransmits of "
                  "%s\",\"of\":[{\"event\":\"tcp\",\"field\":\"retransmits\","
                  "\"isRate\":true}],\"host\":\"%s\",\"height\":140},",
                  server, server);
    strbuf_add_str(&json, "{\"kind\":\"curves\",\"title\":\"CPU\",\"of\":[{\"event\":\"vector\",\"field\":"
                          "\"cpu_user\"},{\"event\":"
                          "\"vector\",\"field\":\"cpu_system\"}],\"height\":100}]}");
    add_encoded(out, json.p);
    strbuf_fini(&json);
}

void demo_link(struct demo *d, struct strbuf *out, struct strbuf *key)
{
    find_address(d, key);
    const char *fragment = key->n ? strstr(key->p, "#key=") : NULL;
    if (!fragment)
        return;
    strbuf_add(out, key->p, (size_t)(fragment - key->p));
    strbuf_add_str(out, "#/timeline?");
    add_time(out, "from", d->found.pause.from_ns - MARGIN_NS);
    add_time(out, "to", d->found.pause.to_ns + MARGIN_NS);
    strbuf_add_str(out, "o=");
    add_lanes(d, out);
}

int demo_show_link(struct demo *d)
{
    struct strbuf link = {0}, key = {0};
    demo_link(d, &link, &key);
    if (link.n && !d->is_quiet) {
        demo_say(d,
                 "On one picture, in a browser (%s): the first address signs in, once; the second is the "
                 "timeline around the longest pause, "
                 "with the lifelines of its blocks, the retransmits and the processors one above the other.",
                 d->options->stays ? "until Ctrl-C" : "gridline demo --stay keeps it there");
        (void)printf("\n     %s\n     %s\n", key.p, link.p);
        (void)fflush(stdout);
    }
    strbuf_fini(&link);
    strbuf_fini(&key);
    return EXIT_OK;
}
