/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

#define MANY FIXTURES "many-disks"

/* The names of the devices of the last run, one behind the other. */
static void names_of(struct sense *s, struct strbuf *out)
{
    static const char mark[] = "disk device=\"";
    strbuf_reset(out);
    for (const char *p = s->text.n ? s->text.p : ""; (p = strstr(p, mark));) {
        p += sizeof mark - 1;
        strbuf_printf(out, "%.*s ", (int)strcspn(p, "\""), p);
    }
}

static void expect_names(const char *root, const char *const *pairs, const char *expected)
{
    struct sense s;
    struct strbuf names = {0};
    assert_int_equal(sense_open(&s, "disk", root, pairs), 0);
    assert_int_equal(sense_run(&s), 0);
    names_of(&s, &names);
    assert_string_equal(names.p, expected);
    strbuf_fini(&names);
    sense_close(&s);
}

/* Whole disks and stacked devices; the loop device that was used, not those that were not, nor the RAM disk. */
static void many_disks(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "disk", MANY, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 60 + 1 + 1 + 1 + 1 + 4 + 1); /* sd, nvme, cciss, sr0, md, dm, loop8 */
        assert_non_null(
            strstr(s.text.p, "disk device=\"loop8\" reads=41 reads_merged=0 read_bytes=358400 read_time=9 "));
        assert_non_null(strstr(s.text.p, "disk device=\"sda\" reads=10000 reads_merged=1000 read_bytes=409600000 "
                                         "read_time=12000 writes=20000 writes_merged=2000 write_bytes=819200000 "
                                         "write_time=30000 queue=0 busy_time=25000 weighted_time=42000 discards=1000 "
                                         "discards_merged=0 discard_bytes=4096000 discard_time=1000 flushes=3000 "
                                         "flush_time=2000\n"));
        assert_null(strstr(s.text.p, "\"sda1\""));
        assert_null(strstr(s.text.p, "\"cciss/c0d0p1\"")); /* sysfs writes the slash as ! */
        assert_null(strstr(s.text.p, "\"loop0\""));
        assert_null(strstr(s.text.p, "\"ram0\""));
    }
    sense_close(&s);
}

static void chosen(void **state)
{
    (void)state;
    expect_names(MANY, (const char *[]){"devices", "sda?", "skip", "sda[b-z]", NULL}, "sdaa ");
    expect_names(MANY, (const char *[]){"devices", "sdb*", "partitions", "yes", "skip", "sdb[a-h]", NULL},
                 "sdb sdb1 sdb2 ");
    struct sense s;
    assert_int_equal(sense_open(&s, "disk", MANY, (const char *[]){"devices", "hd*", NULL}), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    sense_close(&s);
}

/* Without /sys the names tell what is a partition. */
static void container(void **state)
{
    (void)state;
    expect_names(FIXTURES "container", NULL, "vda dm-0 ");
    expect_names(FIXTURES "container", (const char *[]){"partitions", "yes", NULL}, "vda vda1 dm-0 ");
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/diskstats",
             "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n"
             "8 10 sda10 1 2 3 4 5 6 7 8 9 10 11\n8 16 sdaa 1 2 3 4 5 6 7 8 9 10 11\n"
             "259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11\n259 1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11\n"
             "259 2 nvme0n10 1 2 3 4 5 6 7 8 9 10 11\n");
    expect_names(t.root, NULL, "sda sdaa nvme0n1 nvme0n10 ");
    /* What a name is depends on the disk before it, also when it has been seen without one. */
    struct sense s;
    tree_put(&t, "/proc/diskstats", "252 1 vda1 1 0 0 0 0 0 0 0 0 0 0\n");
    assert_int_equal(sense_open(&s, "disk", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    tree_put(&t, "/proc/diskstats", "252 0 vda 1 0 0 0 0 0 0 0 0 0 0\n252 1 vda1 1 0 0 0 0 0 0 0 0 0 0\n");
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    assert_null(strstr(s.text.p, "vda1"));
    sense_close(&s);
    tree_remove(&t);
}

/* 11 numbers for a disk, 4 for a partition. */
static void old_kernel(void **state)
{
    (void)state;
    tree_assert_text(
        "disk", FIXTURES "old-kernel", (const char *[]){"partitions", "yes", NULL},
        "disk device=\"sda\" reads=6000 reads_merged=700 read_bytes=102400000 read_time=31000 writes=9000 "
        "writes_merged=8000 write_bytes=76800000 write_time=99000 queue=1 busy_time=40000 "
        "weighted_time=130000\n"
        "disk device=\"sda1\" reads=6500 read_bytes=97280000 writes=17000 write_bytes=71680000\n");
}

/* A disk goes, one comes, an idle loop device is used: rows follow. */
static void plugging(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/diskstats",
             "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n8 0 sda 1 0 0 0 0 0 0 0 0 0 0\n"
             "8 16 sdb 2 0 0 0 0 0 0 0 0 0 0\n");
    assert_int_equal(sense_open(&s, "disk", t.root, (const char *[]){"devices", "*", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 2);
    tree_put(&t, "/proc/diskstats",
             "7 0 loop0 1 0 2 0 0 0 0 0 0 0 0\n8 32 sdc 0 0 0 0 0 0 0 0 0 0 0\n"
             "8 16 sdb 3 0 0 0 0 0 0 0 0 0 0\n");
    assert_int_equal(sense_run(&s), 0);
    struct strbuf names = {0};
    names_of(&s, &names);
    assert_string_equal(names.p, "loop0 sdc sdb ");
    strbuf_fini(&names);
    tree_put(&t, "/proc/diskstats", "");
    assert_int_equal(sense_run(&s), E_NODATA);
    char path[96];
    (void)snprintf(path, sizeof path, "%s/proc/diskstats", t.root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    sense_close(&s);
    tree_remove(&t);
}

static void damaged(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/diskstats",
             "8 0\n8 x sdx 1 2 3\n\n8 0 sda 5 - 36028797018963968 7 8\n8 16 sda 9 9 9 9\n8 32 sdb\n");
    /* 2^55 sectors are 2^64 bytes; the second sda and lines that are none are passed over; sdb has no number */
    tree_assert_text("disk", t.root, NULL, "disk device=\"sda\" reads=5 read_time=7 writes=8\n");
    tree_remove(&t);
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("disk", NULL);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("disk", FIXTURES "old-kernel", "/proc/diskstats", (const char *[]){"partitions", "yes", NULL});
    tree_assert_cuts("disk", FIXTURES "many-cores", "/proc/diskstats", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_disks),         cmocka_unit_test(chosen),
        cmocka_unit_test(container),          cmocka_unit_test(old_kernel),
        cmocka_unit_test(plugging),           cmocka_unit_test(damaged),
        cmocka_unit_test(no_file_is_no_data), cmocka_unit_test(cut_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
