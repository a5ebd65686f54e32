/* SPDX-License-Identifier: Apache-2.0 */
/* Writes down, byte for byte, what it was started with, to record.PID beside itself: for argv, the
 * environment and the input each a u32 count (input: 1, or 0 for /dev/null) and then u32 length and bytes of
 * each text.
 *
 *     --stay           goes on until it is ended
 *     --named HEX      calls itself that, and stays
 *     --code N         ends with that code
 *     --linger MARK    leaves processes behind: in its group, in another session, without its environment;
 * stays */
#include "base/strbuf.h"
#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_texts(struct strbuf *out, char **texts)
{
    uint32_t n = 0;
    while (texts[n])
        n++;
    strbuf_add_u32(out, n);
    for (uint32_t i = 0; i < n; i++) {
        strbuf_add_u32(out, (uint32_t)strlen(texts[i]));
        strbuf_add_str(out, texts[i]);
    }
}

static void add_input(struct strbuf *out)
{
    struct strbuf input = {0};
    struct stat st;
    bool is_null = fstat(0, &st) == 0 && S_ISCHR(st.st_mode);
    ssize_t n = is_null ? 0 : 1;
    while (n > 0) {
        char *to = strbuf_room(&input, 65536);
        n = read(0, to, 65536);
        if (n > 0)
            strbuf_advance(&input, (size_t)n);
    }
    strbuf_add_u32(out, !is_null);
    if (!is_null) {
        strbuf_add_u32(out, (uint32_t)input.n);
        strbuf_add_slice(out, strbuf_slice(&input));
    }
    strbuf_fini(&input);
}

/* Appears whole. */
static int record(char **argv, char **env)
{
    struct strbuf out = {0};
    char self[3000], path[4096], final[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return -1;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    add_texts(&out, argv);
    add_texts(&out, env);
    add_input(&out);
    (void)snprintf(path, sizeof path, "%s/.new.%d", self, (int)getpid());
    (void)snprintf(final, sizeof final, "%s/record.%d", self, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, out.p, out.n) != (ssize_t)out.n || close(fd) < 0)
        return -1;
    strbuf_fini(&out);
    return rename(path, final);
}

static void stay(void)
{
    for (;;)
        (void)pause();
}

static void set_name(const char *hex)
{
    char name[16] = "";
    for (size_t i = 0; i < 15 && hex[2 * i] && hex[2 * i + 1]; i++)
        name[i] = (char)(text_hex_digit(hex[2 * i]) << 4 | text_hex_digit(hex[2 * i + 1]));
    (void)prctl(PR_SET_NAME, name);
}

static void linger(const char *mark)
{
    static char *none[] = {NULL};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    (void)signal(SIGTERM, SIG_IGN);
    for (int kind = 0; kind < 3; kind++) {
        if (fork() != 0)
            continue;
        if (kind > 0)
            (void)setsid();
        if (kind > 0 && fork() != 0)
            _exit(0);
        if (kind == 2)
            (void)execve(self, (char *[]){self, (char *)"--quiet", (char *)(uintptr_t)mark, NULL}, none);
        stay();
    }
    stay();
}

int main(int argc, char **argv, char **env)
{
    if (argc > 2 && strcmp(argv[1], "--quiet") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        stay();
    }
    if (argc > 2 && strcmp(argv[1], "--named") == 0)
        set_name(argv[2]);
    if (record(argv, env) < 0)
        return 99;
    if (argc > 2 && strcmp(argv[1], "--linger") == 0)
        linger(argv[2]);
    if (argc > 2 && strcmp(argv[1], "--code") == 0)
        return (int)strtol(argv[2], NULL, 10);
    if (argc > 1 && (strcmp(argv[1], "--stay") == 0 || strcmp(argv[1], "--named") == 0))
        stay();
    (void)printf("probe was here\n");
    return 0;
}
