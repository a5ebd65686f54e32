/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/snmp_value.h"

#include "base/num.h"
#include "base/text.h"

enum { SPEED_MAX = 4294 /* Mbit/s that ifSpeed can tell, with its 32 bits of bit/s */ };

void snmp_texts_reset(struct snmp_texts *t)
{
    arena_reset(&t->arena);
    t->is_out_of_memory = false;
}

void snmp_texts_fini(struct snmp_texts *t)
{
    arena_fini(&t->arena);
    strbuf_fini(&t->text);
}

struct value snmp_keep_text(struct snmp_texts *t, struct slice s)
{
    struct slice copy = arena_copy(&t->arena, s);
    t->is_out_of_memory |= !copy.p;
    return copy.p ? value_text(copy) : value_none();
}

static bool is_printable(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] < 0x20 && !memchr("\t\r\n", s.p[i], 3)) || s.p[i] == 0x7f)
            return false;
    return text_is_utf8(s);
}

/* Addresses and other bytes in strings: 00:1a:2b. */
static void add_hex(struct strbuf *out, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strbuf_printf(out, i ? ":%02x" : "%02x", p[i]);
}

static void add_string(struct strbuf *out, const netsnmp_variable_list *v)
{
    struct slice s = slice_of((const char *)v->val.string, v->val_len);
    while (s.n && s.p[s.n - 1] == '\0') /* some devices count the NUL */
        s.n--;
    if (is_printable(s))
        strbuf_add_slice(out, s);
    else
        add_hex(out, v->val.string, v->val_len);
}

struct value snmp_text_of(struct snmp_texts *t, const netsnmp_variable_list *v)
{
    strbuf_reset(&t->text);
    if (v->val_len > SNMP_STRING_MAX)
        return value_none();
    if (v->type == ASN_OCTET_STR)
        add_string(&t->text, v);
    else if (v->type == ASN_IPADDRESS && v->val_len == 4)
        strbuf_printf(&t->text, "%u.%u.%u.%u", v->val.string[0], v->val.string[1], v->val.string[2],
                      v->val.string[3]);
    else if (v->type == ASN_IPADDRESS || v->type == ASN_OPAQUE)
        add_hex(&t->text, v->val.string, v->val_len);
    else if (v->type == ASN_OBJECT_ID)
        for (size_t i = 0; i < v->val_len / sizeof(oid); i++)
            strbuf_printf(&t->text, i ? ".%lu" : "%lu", v->val.objid[i]);
    else
        return value_none();
    t->is_out_of_memory |= strbuf_failed(&t->text);
    return snmp_keep_text(t, strbuf_slice(&t->text));
}

bool snmp_uint_of(const netsnmp_variable_list *v, uint64_t *out)
{
    switch (v->type) {
    case ASN_INTEGER:
        if (*v->val.integer < 0)
            return false;
        *out = (uint64_t)*v->val.integer;
        return true;
    case ASN_COUNTER:
    case ASN_GAUGE:
    case ASN_TIMETICKS:
    case ASN_UINTEGER:
        *out = (uint32_t)*v->val.integer;
        return true;
    case ASN_COUNTER64:
        *out = (uint64_t)v->val.counter64->high << 32 | (uint32_t)v->val.counter64->low;
        return true;
    default:
        return false;
    }
}

/* IANAifType: those that people meet. */
static struct value if_type(struct snmp_texts *t, uint64_t n)
{
    static const struct {
        unsigned n;
        const char *name;
    } known[] = {{6, "ethernet"}, {23, "ppp"},     {24, "loopback"},    {37, "atm"},     {53, "virtual"},
                 {71, "wifi"},    {131, "tunnel"}, {135, "vlan"},       {136, "l3vlan"}, {150, "mpls_tunnel"},
                 {161, "lag"},    {166, "mpls"},   {199, "infiniband"}, {209, "bridge"}};
    char text[NUM_TEXT_MAX];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].n == n)
            return snmp_static_text(known[i].name);
    return snmp_keep_text(t, slice_of(text, num_print_uint(text, n)));
}

static struct value if_state(uint64_t n)
{
    static const char *const names[] = {"up",      "down",        "testing",         "unknown",
                                        "dormant", "not_present", "lower_layer_down"};
    return n >= 1 && n <= sizeof names / sizeof *names ? snmp_static_text(names[n - 1]) : value_none();
}

/* hrStorageTypes: 1.3.6.1.2.1.25.2.1.N. */
static struct value storage_type(const netsnmp_variable_list *v)
{
    static const char *const names[] = {"other",       "memory", "swap",     "disk",  "removable_disk",
                                        "floppy_disk", "cd",     "ram_disk", "flash", "network_disk"};
    size_t n = v->type == ASN_OBJECT_ID ? v->val_len / sizeof(oid) : 0;
    if (n != 10 || v->val.objid[9] < 1 || v->val.objid[9] > sizeof names / sizeof *names)
        return value_none();
    return snmp_static_text(names[v->val.objid[9] - 1]);
}

static struct value speed_of(uint64_t bits)
{
    return bits == 0 || bits == UINT32_MAX ? value_none()
                                           : value_uint(bits); /* none, or more than it can tell */
}

struct value snmp_convert(struct snmp_texts *t, const netsnmp_variable_list *v, enum snmp_as as)
{
    uint64_t u;
    if (as == SNMP_AS_TEXT)
        return snmp_text_of(t, v);
    if (as == SNMP_AS_STORAGE_TYPE)
        return storage_type(v);
    if (!snmp_uint_of(v, &u))
        return value_none();
    switch (as) {
    case SNMP_AS_KIB:
        return u <= UINT64_MAX / 1024 ? value_uint(u * 1024) : value_none();
    case SNMP_AS_HUNDREDTHS:
        return value_float((double)u / 100);
    case SNMP_AS_STATE:
        return if_state(u);
    case SNMP_AS_IF_TYPE:
        return if_type(t, u);
    case SNMP_AS_SPEED:
        return speed_of(u);
    case SNMP_AS_MEGABITS:
        return u > SPEED_MAX && u <= UINT32_MAX ? value_uint(u * 1000000) : value_none();
    default:
        return value_uint(u);
    }
}
