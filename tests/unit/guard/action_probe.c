/* SPDX-License-Identifier: Apache-2.0 */
/* action_probe: stands for gridline-act in tests of what runs it. Reads a request, appends a line to the file
 * that the setting `log` names (the order's name, a tab, then each datum that the setting `show` lists, in
 * hexadecimal, tabs between), synced, and then does what the setting `mode` says. */
#include "net/act.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct parameter_setting *setting(const struct act_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_settings; i++)
        if (strcmp(r->settings[i].name, name) == 0)
            return &r->settings[i];
    return NULL;
}

static struct slice datum(const struct act_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_data; i++)
        if (slice_eq_str(r->data[i].name, name))
            return r->data[i].value;
    return SLICE_LIT("?");
}

static int append(const struct act_request *r)
{
    const struct parameter_setting *log = setting(r, "log"), *show = setting(r, "show");
    struct strbuf line = {0};
    strbuf_add_str(&line, r->attempt);
    for (size_t i = 0; show && i < show->n; i++) {
        struct slice v = datum(r, show->texts[i]);
        strbuf_add_char(&line, '\t');
        for (size_t k = 0; k < v.n; k++)
            strbuf_printf(&line, "%02x", (unsigned char)v.p[k]);
    }
    strbuf_add_char(&line, '\n');
    int fd = log ? open(log->texts[0], O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    bool is_written = fd >= 0 && write(fd, line.p, line.n) == (ssize_t)line.n && fsync(fd) == 0;
    strbuf_fini(&line);
    return is_written ? close(fd) : -1;
}

static int reply(int code, const char *text)
{
    struct strbuf out = {0};
    act_reply_put(&out, &(struct act_reply){.code = code,
                                            .exit_code = code ? 7 : 0,
                                            .text = slice_str(text),
                                            .output = SLICE_LIT("printed")});
    bool is_written = write(STDOUT_FILENO, out.p, out.n) == (ssize_t)out.n;
    strbuf_fini(&out);
    return is_written && code == 0 ? 0 : 1;
}

/* Until a file is there; whoever waits for us makes it, or kills us. */
static void wait_for(const char *path)
{
    struct stat st;
    while (stat(path, &st) < 0)
        (void)usleep(2000);
}

int main(void)
{
    struct strbuf in = {0};
    struct arena arena = {0};
    struct act_request r;
    ssize_t n;
    char bytes[4096];
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0)
        strbuf_add(&in, bytes, (size_t)n);
    if (act_request_get(strbuf_slice(&in), &arena, &r) < 0 || append(&r) < 0)
        return 9;
    const struct parameter_setting *mode = setting(&r, "mode"), *gate = setting(&r, "gate");
    const char *m = mode ? mode->texts[0] : "done";
    if (gate)
        wait_for(gate->texts[0]);
    if (strcmp(m, "fail") == 0)
        return reply(-11, "not now");
    if (strcmp(m, "invalid") == 0)
        return reply(-22, "these options do not fit");
    if (strcmp(m, "crash") == 0)
        abort();
    if (strcmp(m, "mute") == 0)
        return 0;
    if (strcmp(m, "hang") == 0)
        wait_for("/nonexistent/never");
    return reply(0, "done");
}
