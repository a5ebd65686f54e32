/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/sign_in_verb.h"

#include "base/clock.h"

#include <errno.h>

static void end_wrong(struct control_turn *t, int e)
{
    if (e == -EACCES)
        control_end(
            t, CONTROL_NOT_ALLOWED, (struct args){0}, "%s",
            "nobody knows who you are here: ask by the gateway's socket, or with a certificate or token");
    else
        control_end(t, CONTROL_FAILED, (struct args){0}, "%s",
                    "there are too many keys; try again in ten minutes");
}

static void make_key(void *arg, struct control_turn *t)
{
    struct sign_in_verb *v = arg;
    char key[HTTP_TOKEN_TEXT + 1];
    struct strbuf address = {0};
    struct args_writer row = {0};
    if (!v->address) {
        control_end(t, CONTROL_NOT_FOUND, (struct args){0}, "%s",
                    "this gateway shows no viewer: its configuration says `viewer = false`");
        return;
    }
    int e = sign_in_make_key(v->keys, control_who(t), clock_mono_ns(), key);
    if (e < 0) {
        end_wrong(t, e);
        return;
    }
    strbuf_printf(&address, "%s/#key=%s", v->address, key);
    args_add_text(&row, "address", strbuf_slice(&address));
    args_add_uint(&row, "seconds", SIGN_IN_KEY_S);
    (void)control_row(t, args_of(&row)); /* who does not listen has none */
    control_end(t, CONTROL_DONE, (struct args){0}, "%s", "");
    explicit_bzero(key, sizeof key);
    args_writer_fini(&row);
    strbuf_fini(&address);
}

int sign_in_verb_add(struct control *c, struct sign_in_verb *v)
{
    static const struct control_verb verbs[] = {{"viewer.key", ACCESS_ACTIONS, make_key}};
    return control_add(c, verbs, 1, v);
}
