/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "sensor/mounts.h"

/* "place type device class" a line. */
static void parse(const char *text, size_t n, struct strbuf *out)
{
    struct mounts m;
    strbuf_reset(out);
    mounts_init(&m);
    assert_int_equal(mounts_parse(&m, slice_of(text, n)), 0);
    assert_int_equal(m.version, 1);
    for (size_t i = 0; i < m.n; i++) {
        assert_int_equal(m.v[i].path[strlen(m.v[i].path)], '\0');
        strbuf_printf(out, "%.*s %.*s %.*s %s\n", SLICE_ARG(m.v[i].mount), SLICE_ARG(m.v[i].type),
                      SLICE_ARG(m.v[i].device), m.v[i].class == MOUNT_LOCAL ? "local" : "remote");
    }
    strbuf_add(out, "", 0);
    mounts_fini(&m);
}

static void assert_parsed(const char *text, const char *expected)
{
    struct strbuf out = {0};
    parse(text, strlen(text), &out);
    assert_string_equal(out.n ? out.p : "", expected);
    strbuf_fini(&out);
}

static const char desktop[] =
    "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n"
    "27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "24 27 0:6 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=12331664k\n"
    "25 24 0:23 / /dev/shm rw,nosuid shared:3 master:4 - tmpfs tmpfs rw\n"
    "60 27 8:1 / /boot rw - vfat /dev/sda1 rw\n"
    "61 27 0:50 / /home rw,relatime shared:9 - nfs4 server.example:/export/home rw,vers=4.2\n"
    "62 27 0:51 / /mnt/My\\040Disk\\134\\011\\012x rw - cifs //nas/My\\040Share rw\n"
    "63 27 0:52 / /media/phone rw - fuse.sshfs anna@phone:/ rw,user_id=0\n"
    "64 27 0:53 / /data rw - somethingnew new rw\n";

static void kinds_and_escapes(void **state)
{
    (void)state;
    assert_parsed(desktop, "/ ext4 /dev/vda1 local\n"
                           "/dev/shm tmpfs tmpfs local\n"
                           "/boot vfat /dev/sda1 local\n"
                           "/home nfs4 server.example:/export/home remote\n"
                           "/mnt/My Disk\\\t\nx cifs //nas/My Share remote\n"
                           "/media/phone fuse.sshfs anna@phone:/ remote\n"
                           "/data somethingnew new remote\n");
}

/* A filesystem comes once, and where it shows its root; at one place only the last one is seen. */
static void once_each(void **state)
{
    (void)state;
    assert_parsed("1 0 8:1 /sub /jail rw - ext4 /dev/sda1 rw\n"
                  "2 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                  "3 2 8:1 /etc /mnt/etc rw - ext4 /dev/sda1 rw\n"
                  "4 2 8:1 / /mnt/again rw - ext4 /dev/sda1 rw\n"
                  "5 2 0:40 /@home /home rw - btrfs /dev/sdb1 rw\n"
                  "6 2 0:40 /@var /var rw - btrfs /dev/sdb1 rw\n"
                  "7 2 0:41 / /tmp rw - tmpfs old rw\n"
                  "8 7 0:42 / /tmp rw - tmpfs new rw\n"
                  "9 2 0:43 / /covered rw - tmpfs hidden rw\n"
                  "10 9 0:44 / /covered rw - proc proc rw\n",
                  "/ ext4 /dev/sda1 local\n"
                  "/home btrfs /dev/sdb1 local\n"
                  "/tmp tmpfs new local\n");
}

static void lines_that_are_no_mounts(void **state)
{
    (void)state;
    assert_parsed("", "");
    assert_parsed("\n\n", "");
    assert_parsed("x 1 8:1 / /a rw - ext4 d rw\n"
                  "1 1 81 / /a rw - ext4 d rw\n"
                  "1 1 8:x / /a rw - ext4 d rw\n"
                  "1 1 4294967296:1 / /a rw - ext4 d rw\n"
                  "1 1 8:1 / /a rw ext4 d rw\n"
                  "1 1 8:1 / /a rw -\n"
                  "1 1 8:1 / /a rw - ext4 d\n"
                  "1 1 8:1\n"
                  "1 1 8:1 / /\\04 rw - ext4 d\\400\\ rw\n",
                  "/\\04 ext4 d\\400\\ local\n");
}

/* Bytes that are no text are written out; the path for system calls keeps them. */
static void names_that_are_no_text(void **state)
{
    (void)state;
    struct mounts m;
    mounts_init(&m);
    assert_int_equal(mounts_parse(&m, SLICE_LIT("1 0 8:1 / /caf\xe9 rw - ext4 \xff\\040x rw\n"
                                                "2 0 8:2 / /caf\xc3\xa9 rw - ext4 d rw\n")),
                     0);
    assert_int_equal(m.n, 2);
    assert_slice(m.v[0].mount, "/caf\\351");
    assert_string_equal(m.v[0].path, "/caf\xe9");
    assert_slice(m.v[0].device, "\\377 x");
    assert_slice(m.v[1].mount, "/caf\xc3\xa9");
    mounts_fini(&m);
}

/* Cut anywhere it is the list of the whole lines before. */
static void cut_at_every_byte(void **state)
{
    (void)state;
    struct strbuf cut = {0}, whole = {0};
    for (size_t n = 0; n < sizeof desktop; n++) {
        size_t lines = n;
        while (lines > 0 && desktop[lines - 1] != '\n')
            lines--;
        parse(desktop, n, &cut);
        parse(desktop, lines, &whole);
        assert_int_equal(cut.n, whole.n);
        if (cut.n)
            assert_memory_equal(cut.p, whole.p, whole.n);
    }
    strbuf_fini(&cut);
    strbuf_fini(&whole);
}

static void many(void **state)
{
    (void)state;
    struct mounts m;
    struct strbuf text = {0};
    for (unsigned i = 0; i < MOUNTS_MAX; i++)
        strbuf_printf(&text, "%u 0 0:%u / /m/%u rw - tmpfs tmpfs rw\n", i, i, i);
    mounts_init(&m);
    assert_int_equal(mounts_parse(&m, strbuf_slice(&text)), 0);
    assert_int_equal(m.n, MOUNTS_MAX);
    strbuf_add_str(&text, "1 0 1:1 / /one/more rw - tmpfs tmpfs rw\n");
    assert_int_equal(mounts_parse(&m, strbuf_slice(&text)), E_LIMIT);
    assert_int_equal(m.n, 0);
    assert_int_equal(m.version, 0); /* to be made again */
    mounts_fini(&m);
    strbuf_fini(&text);
}

static void classes(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum mount_class class;
    } all[] = {
        {"autofs", MOUNT_PSEUDO}, {"usbfs", MOUNT_PSEUDO},  {"cgroup2", MOUNT_PSEUDO}, {"rpc_pipefs", MOUNT_PSEUDO},
        {"adfs", MOUNT_LOCAL},    {"zfs", MOUNT_LOCAL},     {"ext4", MOUNT_LOCAL},     {"overlay", MOUNT_LOCAL},
        {"xfs", MOUNT_LOCAL},     {"tmpfs", MOUNT_LOCAL},   {"btrfs", MOUNT_LOCAL},    {"f2fs", MOUNT_LOCAL},
        {"nfs", MOUNT_REMOTE},    {"nfs4", MOUNT_REMOTE},   {"fuse", MOUNT_REMOTE},    {"fuseblk", MOUNT_REMOTE},
        {"lustre", MOUNT_REMOTE}, {"gpfs", MOUNT_REMOTE},   {"ceph", MOUNT_REMOTE},    {"9p", MOUNT_REMOTE},
        {"ext", MOUNT_REMOTE},    {"ext44", MOUNT_REMOTE},  {"", MOUNT_REMOTE},        {"zz", MOUNT_REMOTE},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(mounts_classify(slice_str(all[i].type)), all[i].class);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_escapes),        cmocka_unit_test(once_each),
        cmocka_unit_test(lines_that_are_no_mounts), cmocka_unit_test(names_that_are_no_text),
        cmocka_unit_test(cut_at_every_byte),        cmocka_unit_test(many),
        cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
