/* SPDX-License-Identifier: Apache-2.0 */
/* gridline viewer: an address for the browser, which signs in who opens it. */
#include "cmd/file.h"
#include "cmd/question.h"
#include "cmd/say.h"
#include "cmd/verbs.h"

static bool take_address(void *arg, const struct frame_answer *row)
{
    struct strbuf *out = arg;
    strbuf_reset(out);
    strbuf_add_slice(out, args_text(row->args, "address"));
    return false; /* it is printed alone */
}

static int viewer_run(void *state, struct operands unused)
{
    const struct question_options *o = state;
    struct strbuf address = {0};
    struct question q = {.table_options = {.event = "viewer"}, .on_row = take_address, .arg = &address};
    (void)unused; /* it has none */
    int code = question_open(&q, o, "gridline-viewer");
    if (code == EXIT_OK)
        code = question_pages(&q, "viewer.key");
    question_close(&q);
    if (code != EXIT_OK) {
        strbuf_fini(&address);
        return code;
    }
    say_plain("For your browser; it works once, within ten minutes:");
    strbuf_add_char(&address, '\n');
    return file_print(&address);
}

static const struct option_spec table[] = {
    QUESTION_OPTION('g', "gateway", OPTION_TEXT, "ADDRESS", gateway,
                    "of this gateway: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT` (default: the one "
                    "on this host)"),
    QUESTION_OPTION(0, "identity", OPTION_FILE, "DIR", identity,
                    "your key and certificate for `tls://` (default: `GRIDLINE_IDENTITY`, or "
                    "`~/.config/gridline/identity`)"),
    {0},
};

static const struct example examples[] = {
    {"gridline viewer", "An address of the viewer on this host"},
    {"gridline viewer --gateway tls://gate.example.org",
     "Of another gateway, as the operator that you are there"},
    {NULL, NULL},
};

const struct verb verb_viewer = {
    .name = "viewer",
    .summary = "an address that signs your browser in",
    .operands = "",
    .description =
        "Asks the gateway for a fresh address of its viewer and prints it. The key in it works once, within "
        "ten "
        "minutes, and is not sent to the gateway by the browser but by the page itself, which gets a session "
        "for it: "
        "a cookie that no script reads, for a week, or until you sign out or the gateway starts again.\n"
        "Who opens it is who asked for it, and may what that may (`gridline access`): by the gateway's "
        "socket its "
        "owner, or another user of this host; by `tls://` the operator of the certificate. So do not pass it "
        "on.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct question_options),
    .run = viewer_run,
};
