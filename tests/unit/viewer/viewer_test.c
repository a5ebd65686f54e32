/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever this build has: the page itself, or the page that says that there is none. */
#include "viewer/viewer.h"

#include "unit/test.h"

static const struct viewer_asset *find(const char *name)
{
    return viewer_find(slice_str(name));
}

static void the_page_is_there(void **state)
{
    (void)state;
    const struct viewer_asset *page = find("index.html");
    assert_non_null(page);
    assert_string_equal(page->type, "text/html; charset=utf-8");
    assert_false(page->is_immutable);
    assert_true(page->raw.n > 100);
    assert_non_null(memmem(page->raw.p, page->raw.n, "gridline", 8));
    assert_int_equal(page->raw.p[page->raw.n], 0); /* where the next one begins is behind its end */
}

static void others_are_not(void **state)
{
    static const char *const names[] = {"", "index.htm", "index.html/", "../index.html", "app.js.map"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(find(names[i]));
}

/* What a browser is told of each is what it gets. */
static void each_is_whole(void **state)
{
    (void)state;
    for (const struct viewer_asset *a = viewer_assets; a->name; a++) {
        assert_ptr_equal(find(a->name), a);
        assert_true(a->raw.n > 0);
        assert_int_equal(strlen(a->etag), 34);
        assert_int_equal(a->etag[0], '"');
        assert_int_equal(a->etag[33], '"');
        if (!a->gz.n)
            continue;
        const unsigned char *p = (const unsigned char *)a->gz.p;
        assert_true(a->gz.n < a->raw.n && a->gz.n > 18);
        assert_int_equal(p[0] << 8 | p[1], 0x1f8b);
        const unsigned char *end = p + a->gz.n - 4; /* gzip ends with the length of what is in it */
        assert_int_equal(end[0] | end[1] << 8 | end[2] << 16 | (uint32_t)end[3] << 24, a->raw.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_there),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(each_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
