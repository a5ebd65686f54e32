/* SPDX-License-Identifier: Apache-2.0 */
/* The shared library as a plug-in loads it: opened, used by threads, closed, again and again; and a plug-in
 * with call sites of its own that comes and goes while the levels change. argv[1] is libgridline.so, argv[2]
 * the plug-in. */
#include "unit/test.h"

#include "gridline/gridline.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static const char *library, *plugin;

struct api {
    gridline *(*open)(const char *, const char *, unsigned);
    void (*close)(gridline *);
    int (*write)(gridline *, int, const char *, const char *, ...);
    void (*set_level)(gridline *, int);
    void (*stats)(gridline *, struct gridline_stats *, size_t);
};

static void *find(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p)
        fail_msg("%s", dlerror());
    return p;
}

static struct api load(void **lib)
{
    *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!*lib)
        fail_msg("%s", dlerror());
    struct api a;
    *(void **)&a.open = find(*lib, "gridline_open");
    *(void **)&a.close = find(*lib, "gridline_close");
    *(void **)&a.write = find(*lib, "gridline_write");
    *(void **)&a.set_level = find(*lib, "gridline_set_level");
    *(void **)&a.stats = find(*lib, "gridline_stats");
    return a;
}

struct job {
    struct api api;
    gridline *g;
    pthread_barrier_t wrote, closed;
};

static void *use_and_outlive(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < 1000; i++)
        (void)j->api.write(j->g, GRIDLINE_INFO, "plug", "i=%d",
                           i); /* the sum below says whether it was taken */
    (void)pthread_barrier_wait(&j->wrote);
    (void)pthread_barrier_wait(&j->closed);
    return NULL; /* its thread-specific data goes now, when the library has been closed */
}

static void test_load_and_unload(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        void *lib;
        struct job j = {.api = load(&lib)};
        pthread_t t[2];
        struct gridline_stats s;
        j.g = j.api.open("plug", "mem:1M", round % 2 ? GRIDLINE_THREAD : 0);
        assert_non_null(j.g);
        assert_int_equal(pthread_barrier_init(&j.wrote, NULL, 3), 0);
        assert_int_equal(pthread_barrier_init(&j.closed, NULL, 3), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&t[i], NULL, use_and_outlive, &j), 0);
        (void)pthread_barrier_wait(&j.wrote);
        j.api.stats(j.g, &s, sizeof s);
        assert_int_equal(s.taken, 2000);
        j.api.close(j.g);
        assert_int_equal(dlclose(lib), 0);
        (void)pthread_barrier_wait(&j.closed);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(t[i], NULL), 0);
        (void)pthread_barrier_destroy(&j.wrote);
        (void)pthread_barrier_destroy(&j.closed);
    }
}

static void test_plugin_with_sites(void **state)
{
    (void)state;
    void *lib;
    struct api api = load(&lib);
    gridline *g = api.open("plug", "mem:1M", 0);
    uint64_t expected = 0;
    for (int round = 0; round < 50; round++) {
        void *p = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        if (!p)
            fail_msg("%s", dlerror());
        void (*run)(gridline *);
        *(void **)&run = find(p, "plugin_run");
        run(g);
        api.set_level(g, GRIDLINE_DEBUG); /* its two sites, one of them Debug, are there */
        run(g);
        assert_int_equal(dlclose(p), 0);
        api.set_level(g, GRIDLINE_INFO); /* and now they are not */
        expected += 1 + 2;
        struct gridline_stats s;
        api.stats(g, &s, sizeof s);
        assert_int_equal(s.taken, expected);
    }
    api.close(g);
    assert_int_equal(dlclose(lib), 0);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fputs("usage: library_test LIBGRIDLINE PLUGIN\n", stderr);
        return 2;
    }
    library = argv[1];
    plugin = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_and_unload),
        cmocka_unit_test(test_plugin_with_sites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
