/* SPDX-License-Identifier: Apache-2.0 */
/* What seal_close makes is compared with an AES-128-GCM written here from the standards (FIPS 197, SP
 * 800-38D), bit by bit and slow, which itself is checked with the test cases of GCM's authors. */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "net/seal.h"

#include <openssl/err.h>

static unsigned char double_of(unsigned char a)
{
    return (unsigned char)(a << 1 ^ (a >> 7) * 0x1b);
}

static unsigned char times(unsigned char a, unsigned char b)
{
    unsigned char sum = 0;
    for (; b; b >>= 1, a = double_of(a))
        sum ^= (unsigned char)((b & 1) * a);
    return sum;
}

static unsigned char substitute(unsigned char a)
{
    unsigned char inverse = 0, out = 0x63;
    for (unsigned i = 1; i < 256 && a; i++)
        if (times(a, (unsigned char)i) == 1)
            inverse = (unsigned char)i;
    for (unsigned i = 0; i < 5; i++)
        out ^= (unsigned char)(inverse << i | inverse >> (8 - i));
    return out;
}

struct aes {
    unsigned char sbox[256];
    unsigned char round[11][16];
};

static void aes_init(struct aes *c, const unsigned char key[16])
{
    for (unsigned i = 0; i < 256; i++)
        c->sbox[i] = substitute((unsigned char)i);
    unsigned char *k = c->round[0], constant = 1;
    memcpy(k, key, 16);
    for (unsigned i = 16; i < 176; i += 4) {
        unsigned char t[4];
        memcpy(t, k + i - 4, 4);
        if (i % 16 == 0) {
            const unsigned char first = t[0];
            t[0] = c->sbox[t[1]] ^ constant;
            t[1] = c->sbox[t[2]];
            t[2] = c->sbox[t[3]];
            t[3] = c->sbox[first];
            constant = double_of(constant);
        }
        for (unsigned j = 0; j < 4; j++)
            k[i + j] = k[i + j - 16] ^ t[j];
    }
}

static void aes_encrypt(const struct aes *c, const unsigned char in[16], unsigned char out[16])
{
    unsigned char s[16], t[16];
    for (unsigned i = 0; i < 16; i++)
        s[i] = in[i] ^ c->round[0][i];
    for (unsigned round = 1; round <= 10; round++) {
        for (unsigned i = 0; i < 16; i++)
            t[i] = c->sbox[s[(i + i % 4 * 4) % 16]];
        for (unsigned i = 0; i < 16; i++) {
            const unsigned char *column = t + i / 4 * 4;
            unsigned char mixed = double_of(column[i % 4]) ^ times(column[(i + 1) % 4], 3) ^
                                  column[(i + 2) % 4] ^ column[(i + 3) % 4];
            s[i] = (round < 10 ? mixed : t[i]) ^ c->round[round][i];
        }
    }
    memcpy(out, s, 16);
}

/* y = (y + block) * h in GCM's field. */
static void ghash_block(unsigned char y[16], const unsigned char h[16], const unsigned char *block, size_t n)
{
    unsigned char v[16], z[16] = {0};
    memcpy(v, h, 16);
    for (size_t i = 0; i < n; i++)
        y[i] ^= block[i];
    for (unsigned bit = 0; bit < 128; bit++) {
        if (y[bit / 8] >> (7 - bit % 8) & 1)
            for (unsigned i = 0; i < 16; i++)
                z[i] ^= v[i];
        const unsigned char carry = v[15] & 1;
        for (unsigned i = 15; i > 0; i--)
            v[i] = (unsigned char)(v[i] >> 1 | v[i - 1] << 7);
        v[0] = (unsigned char)(v[0] >> 1 ^ carry * 0xe1);
    }
    memcpy(y, z, 16);
}

static void ghash(unsigned char y[16], const unsigned char h[16], const unsigned char *p, size_t n)
{
    for (size_t at = 0; at < n; at += 16)
        ghash_block(y, h, p + at, n - at < 16 ? n - at : 16);
}

static void reference_gcm(const unsigned char key[16], const unsigned char nonce[12],
                          const unsigned char *aad, size_t aad_n, const unsigned char *plain, size_t n,
                          unsigned char *out, unsigned char tag[16])
{
    struct aes c;
    unsigned char h[16] = {0}, y[16] = {0}, counter[16] = {0}, pad[16], lengths[16] = {0};
    aes_init(&c, key);
    aes_encrypt(&c, h, h);
    memcpy(counter, nonce, 12);
    for (size_t i = 0; i < n; i++) {
        counter[14] = (unsigned char)((i / 16 + 2) >> 8);
        counter[15] = (unsigned char)(i / 16 + 2);
        aes_encrypt(&c, counter, pad);
        out[i] = plain[i] ^ pad[i % 16];
    }
    ghash(y, h, aad, aad_n);
    ghash(y, h, out, n);
    for (unsigned i = 0; i < 8; i++) {
        lengths[7 - i] = (unsigned char)((uint64_t)aad_n * 8 >> (8 * i));
        lengths[15 - i] = (unsigned char)((uint64_t)n * 8 >> (8 * i));
    }
    ghash_block(y, h, lengths, 16);
    counter[14] = 0;
    counter[15] = 1;
    aes_encrypt(&c, counter, pad);
    for (unsigned i = 0; i < 16; i++)
        tag[i] = y[i] ^ pad[i];
}

static size_t from_hex(const char *hex, unsigned char *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        const char byte[3] = {hex[2 * i], hex[2 * i + 1], 0};
        out[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    return n;
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, cases 1 to 4; also in NIST's. */
static void test_reference(void **state)
{
    (void)state;
    static const struct {
        const char *key, *nonce, *aad, *plain, *cipher, *tag;
    } cases[] = {
        {"00000000000000000000000000000000", "000000000000000000000000", "", "", "",
         "58e2fccefa7e3061367f1d57a4e7455a"},
        {"00000000000000000000000000000000", "000000000000000000000000", "",
         "00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78",
         "ab6e47d42cec13bdf53a67b21257bddf"},
        {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
         "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16"
         "aedf5aa0de657"
         "ba637b391aafd255",
         "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba"
         "30b396a0aac97"
         "3d58e091473f5985",
         "4d5c2af327cd64a62cf35abd2ba6fab4"},
        {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
         "feedfacedeadbeeffeedfacedeadbeefabaddad2",
         "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16"
         "aedf5aa0de657"
         "ba637b39",
         "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba"
         "30b396a0aac97"
         "3d58e091",
         "5bc94fbc3221a5db94fae95ae7121a47"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char key[16], nonce[12], aad[20], plain[64], cipher[64], tag[16], got[64], got_tag[16];
        (void)from_hex(cases[i].key, key);
        (void)from_hex(cases[i].nonce, nonce);
        size_t aad_n = from_hex(cases[i].aad, aad), n = from_hex(cases[i].plain, plain);
        assert_int_equal(from_hex(cases[i].cipher, cipher), n);
        (void)from_hex(cases[i].tag, tag);
        reference_gcm(key, nonce, aad, aad_n, plain, n, got, got_tag);
        assert_memory_equal(got, cipher, n);
        assert_memory_equal(got_tag, tag, 16);
    }
}

static const unsigned char key_a[LEASE_KEY] = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
                                               0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
static const unsigned char key_b[LEASE_KEY] = {1, 2, 3};
static const uint32_t key_id = 0x0a0b0c0d;

/* Head and packet of n bytes in all. */
static void make(unsigned char *p, size_t n, uint8_t level, uint64_t number)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 31 + number);
    datagram_put_head(p,
                      &(struct datagram_head){.level = level, .key = 0x0d, .worker = 77, .number = number});
}

static int open_it(struct seal *s, const unsigned char *key, uint32_t id, unsigned char *p, size_t n,
                   struct slice *packet)
{
    struct datagram_head head;
    int r = datagram_get_head(slice_of((const char *)p, n), &head);
    return r < 0 ? r : seal_open(s, key, id, &head, p, n, packet);
}

static void check_against_reference(struct seal *s, uint8_t level, size_t n, const unsigned char *key,
                                    uint64_t number)
{
    unsigned char plain[DATAGRAM_MAX], sealed[DATAGRAM_MAX], want[DATAGRAM_MAX];
    const unsigned char nonce[12] = {0x0d,
                                     0x0c,
                                     0x0b,
                                     0x0a,
                                     (unsigned char)number,
                                     (unsigned char)(number >> 8),
                                     (unsigned char)(number >> 16),
                                     (unsigned char)(number >> 24),
                                     (unsigned char)(number >> 32),
                                     (unsigned char)(number >> 40)};
    const size_t aad_n = level == SEAL_PRIVATE ? DATAGRAM_HEAD : n;
    make(plain, n, level, number);
    memcpy(sealed, plain, n);
    memcpy(want, plain, n);
    reference_gcm(key, nonce, plain, aad_n, plain + aad_n, n - aad_n, want + aad_n, want + n);
    assert_int_equal(seal_close(s, key, key_id, sealed, n), n + DATAGRAM_TAG);
    assert_memory_equal(sealed, want, n + DATAGRAM_TAG);
    struct slice packet;
    assert_int_equal(open_it(s, key, key_id, sealed, n + DATAGRAM_TAG, &packet), 0);
    assert_int_equal(packet.n, n - DATAGRAM_HEAD);
    assert_ptr_equal(packet.p, sealed + DATAGRAM_HEAD);
    assert_memory_equal(sealed, plain, n);
}

static void test_against_reference(void **state)
{
    (void)state;
    struct seal *s = seal_create();
    assert_non_null(s);
    for (uint8_t level = SEAL_AUTHENTIC; level <= SEAL_PRIVATE; level++)
        for (size_t n = DATAGRAM_HEAD; n <= DATAGRAM_MAX - DATAGRAM_TAG; n += n < 64 ? 1 : 187) {
            /* The same key again, another, and numbers of every length. */
            check_against_reference(s, level, n, key_a, n);
            check_against_reference(s, level, n, key_a, n << 20);
            check_against_reference(s, level, n, key_b, DATAGRAM_NUMBER_MAX - n);
        }
    seal_destroy(s);
}

static void test_level_none(void **state)
{
    (void)state;
    struct seal *s = seal_create();
    unsigned char p[60], before[60];
    struct slice packet;
    make(p, sizeof p, SEAL_NONE, 5);
    memcpy(before, p, sizeof p);
    assert_int_equal(seal_close(s, key_a, key_id, p, sizeof p), sizeof p);
    assert_memory_equal(p, before, sizeof p);
    assert_int_equal(open_it(s, key_a, key_id, p, sizeof p, &packet), 0);
    assert_memory_equal(p, before, sizeof p);
    assert_int_equal(packet.n, sizeof p - DATAGRAM_HEAD);
    seal_destroy(s);
}

static void test_authentic_is_readable(void **state)
{
    (void)state;
    struct seal *s = seal_create();
    unsigned char p[60 + DATAGRAM_TAG], before[60];
    make(before, sizeof before, SEAL_AUTHENTIC, 5);
    memcpy(p, before, sizeof before);
    assert_int_equal(seal_close(s, key_a, key_id, p, sizeof before), sizeof p);
    assert_memory_equal(p, before, sizeof before);
    make(before, sizeof before, SEAL_PRIVATE, 5);
    memcpy(p, before, sizeof before);
    assert_int_equal(seal_close(s, key_a, key_id, p, sizeof before), sizeof p);
    assert_memory_equal(p, before, DATAGRAM_HEAD);
    assert_memory_not_equal(p + DATAGRAM_HEAD, before + DATAGRAM_HEAD, sizeof before - DATAGRAM_HEAD);
    seal_destroy(s);
}

/* Every bit of head, packet and tag; each cut; another key, key id or number. */
static void test_damage(void **state)
{
    (void)state;
    enum { N = 48, ALL = N + DATAGRAM_TAG };
    struct seal *s = seal_create();
    for (uint8_t level = SEAL_AUTHENTIC; level <= SEAL_PRIVATE; level++) {
        unsigned char sealed[ALL], p[ALL];
        struct slice packet = {NULL, 0};
        make(sealed, N, level, 9);
        assert_int_equal(seal_close(s, key_a, key_id, sealed, N), ALL);
        for (size_t bit = 0; bit < ALL * 8; bit++) {
            const struct datagram_head head = {.level = level, .key = 0x0d, .worker = 77, .number = 9};
            memcpy(p, sealed, ALL);
            p[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_int_equal(seal_open(s, key_a, key_id, &head, p, ALL, &packet), E_DAMAGE);
        }
        for (size_t n = DATAGRAM_HEAD + DATAGRAM_TAG; n < ALL; n++) {
            memcpy(p, sealed, ALL);
            assert_int_equal(open_it(s, key_a, key_id, p, n, &packet), E_DAMAGE);
        }
        memcpy(p, sealed, ALL);
        assert_int_equal(open_it(s, key_b, key_id, p, ALL, &packet), E_DAMAGE);
        memcpy(p, sealed, ALL);
        assert_int_equal(open_it(s, key_a, key_id ^ 0x100, p, ALL, &packet), E_DAMAGE);
        memcpy(p, sealed, ALL);
        p[0] ^= SEAL_AUTHENTIC ^ SEAL_PRIVATE;
        assert_int_equal(open_it(s, key_a, key_id, p, ALL, &packet), E_DAMAGE);
        assert_null(packet.p);                 /* untouched by all that failed */
        assert_int_equal(ERR_peek_error(), 0); /* TLS on the same thread would take it for its own */
        memcpy(p, sealed, ALL);
        assert_int_equal(open_it(s, key_a, key_id, p, ALL, &packet), 0); /* and the context still works */
    }
    seal_destroy(s);
}

static void test_no_memory(void **state)
{
    (void)state;
    mem_fail_after(1);
    assert_null(seal_create());
    mem_fail_after(0);
    seal_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),  cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_level_none), cmocka_unit_test(test_authentic_is_readable),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
