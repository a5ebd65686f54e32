/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - for tests: a host's tree in a temporary folder, and what a file cut anywhere does to a sensor.
 *
 *     struct tree t;
 *     tree_make(&t, FIXTURES "server");       (a copy; NULL: empty)
 *     tree_put(&t, "/proc/net/snmp", "...");
 *     ... sense_open(&s, "tcp", t.root, NULL) ...
 *     tree_remove(&t); */
#ifndef GRIDLINE_TESTS_TREE_H
#define GRIDLINE_TESTS_TREE_H

#include "sensor/scan.h"
#include "unit/sensor/sense.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_PATH_MAX = 512 };

struct tree {
    char root[64];
};

static inline void tree_put_bytes(const struct tree *t, const char *path, const char *bytes, size_t n)
{
    char full[TREE_PATH_MAX];
    assert_true((size_t)snprintf(full, sizeof full, "%s%s", t->root, path) < sizeof full);
    for (char *slash = strchr(full + strlen(t->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void tree_put(const struct tree *t, const char *path, const char *text)
{
    tree_put_bytes(t, path, text, strlen(text));
}

/* Any file, outside of trees too; an empty one is fine. */
static inline void tree_read(const char *path, struct strbuf *out)
{
    struct sensor_env env;
    env_init(&env, "");
    int r = env_read_file(&env, path, out);
    assert_true(r == 0 || r == E_NODATA);
}

/* nftw has no argument for its function. */
static const struct tree *tree_target;
static size_t tree_source_len;

static inline int tree_copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    struct strbuf bytes = {0};
    (void)st, (void)ftw; /* only the path matters */
    if (type != FTW_F)
        return 0;
    tree_read(path, &bytes);
    tree_put_bytes(tree_target, path + tree_source_len, strbuf_slice(&bytes).p, bytes.n);
    strbuf_fini(&bytes);
    return 0;
}

static inline void tree_make(struct tree *t, const char *fixture)
{
    (void)snprintf(t->root, sizeof t->root, "/tmp/gridline-tree.XXXXXX");
    assert_non_null(mkdtemp(t->root));
    if (!fixture)
        return;
    tree_target = t;
    tree_source_len = strlen(fixture);
    assert_int_equal(nftw(fixture, tree_copy_one, 8, FTW_PHYS), 0);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw; /* everything goes */
    return remove(path);
}

static inline void tree_remove(const struct tree *t)
{
    assert_int_equal(nftw(t->root, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Is each word of the line a word of one line of whole that begins with the same word? */
static inline bool tree_line_of(struct slice line, struct slice whole)
{
    struct scan w = scan_of(whole);
    struct slice candidate, word;
    while (scan_line(&w, &candidate)) {
        struct scan l = scan_of(line);
        bool is_all = true;
        while (is_all && (word = scan_word(&l)).n) {
            struct scan c = scan_of(candidate);
            struct slice have;
            bool is_in = false;
            while (!is_in && (have = scan_word(&c)).n)
                is_in = slice_eq(have, word);
            is_all = is_in;
        }
        if (is_all)
            return true;
    }
    return false;
}

static inline void tree_assert_part(const struct sense *s, int r, const struct strbuf *whole, size_t cut)
{
    struct scan lines = scan_of(strbuf_slice(&s->text));
    struct slice line;
    if (r != 0 && r != E_NODATA)
        fail_msg("cut at %zu: %s", cut, err_text(r));
    while (scan_line(&lines, &line))
        if (!tree_line_of(line, strbuf_slice(whole)))
            fail_msg("cut at %zu: \"%.*s\" is not in the whole file", cut, SLICE_ARG(line));
}

/* The file cut at every byte: rows hold nothing but what the whole file gives, with a sensor that just opened and with
 * one that has seen the whole file. */
static inline void tree_assert_cuts(const char *sensor, const char *fixture, const char *path,
                                    const char *const *settings)
{
    struct tree t;
    struct sense fresh, old;
    struct strbuf whole = {0};
    struct stat st;
    char full[TREE_PATH_MAX];
    tree_make(&t, fixture);
    assert_true((size_t)snprintf(full, sizeof full, "%s%s", t.root, path) < sizeof full);
    assert_int_equal(stat(full, &st), 0);
    assert_int_equal(sense_open(&old, sensor, t.root, settings), 0);
    assert_int_equal(sense_run(&old), 0);
    assert_true(old.rows > 0);
    strbuf_add_slice(&whole, strbuf_slice(&old.text));
    for (off_t n = st.st_size - 1; n >= 0; n--) {
        assert_int_equal(truncate(full, n), 0);
        tree_assert_part(&old, sense_run(&old), &whole, (size_t)n);
        assert_int_equal(sense_open(&fresh, sensor, t.root, settings), 0);
        tree_assert_part(&fresh, sense_run(&fresh), &whole, (size_t)n);
        sense_close(&fresh);
    }
    sense_close(&old);
    strbuf_fini(&whole);
    tree_remove(&t);
}

/* On that tree: no data, and nothing else. */
static inline void tree_assert_no_data_at(const char *sensor, const char *root, const char *const *settings)
{
    struct sense s;
    assert_int_equal(sense_open(&s, sensor, root, settings), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    assert_int_equal(s.rows, 0);
    assert_int_equal(instance_stats(s.instance)->no_data, 1);
    sense_close(&s);
}

/* The same on a tree without any file. */
static inline void tree_assert_no_data(const char *sensor, const char *const *settings)
{
    struct tree t;
    tree_make(&t, NULL);
    tree_assert_no_data_at(sensor, t.root, settings);
    tree_remove(&t);
}

/* What the sensor gives on that tree, exactly. */
static inline void tree_assert_text(const char *sensor, const char *root, const char *const *settings,
                                    const char *expected)
{
    struct sense s;
    assert_int_equal(sense_open(&s, sensor, root, settings), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, expected);
    sense_close(&s);
}

#endif
