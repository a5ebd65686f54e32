/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers come from a counter; the table of copies is in chunks that are mapped when the first number in them
 * is used; the copies are cut from mapped chunks as well. All published by compare-and-swap, never freed: a
 * site costs about 100 bytes.
 *
 * A site's bits are written by two: by whoever registers it, and by site_update_all. The one that registers
 * publishes the site first and looks at the rules then, and does it again if they changed meanwhile
 * (activate_epoch); so the last to write has seen the newest rules. */
#include "client/site.h"

#include "client/activate.h"
#include "event/limits.h"

#include <link.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { TABLE_CHUNK = 1024, ARENA_CHUNK = 64 * 1024 };

struct chunk {
    _Atomic size_t used; /* may pass the size: then the chunk is full */
    char bytes[ARENA_CHUNK - sizeof(size_t)];
};

typedef struct site_info *_Atomic site_ref;

static _Atomic uint32_t last_number;
static site_ref *_Atomic table[SITES_MAX / TABLE_CHUNK];
static struct chunk *_Atomic arena;

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *arena_take(size_t n)
{
    n = (n + 7) & ~(size_t)7;
    for (;;) {
        struct chunk *c = atomic_load(&arena);
        if (c) {
            size_t at = atomic_fetch_add(&c->used, n);
            if (at + n <= sizeof c->bytes)
                return c->bytes + at;
        }
        struct chunk *fresh = map(sizeof *fresh);
        if (!fresh)
            return NULL;
        if (!atomic_compare_exchange_strong(&arena, &c, fresh))
            (void)munmap(fresh, sizeof *fresh); /* somebody else was faster */
    }
}

/* The place of a number in the table, its chunk made if need be. */
static site_ref *table_place(uint32_t number)
{
    site_ref *_Atomic *chunk = &table[number / TABLE_CHUNK];
    site_ref *c = atomic_load(chunk);
    if (!c) {
        site_ref *fresh = map(TABLE_CHUNK * sizeof *fresh);
        if (!fresh)
            return NULL;
        if (atomic_compare_exchange_strong(chunk, &c, fresh))
            c = fresh;
        else
            (void)munmap(fresh, TABLE_CHUNK * sizeof *fresh);
    }
    return &c[number % TABLE_CHUNK];
}

const struct site_info *site_at(uint32_t number)
{
    if (number == 0 || number >= SITES_MAX)
        return NULL;
    site_ref *c = atomic_load_explicit(&table[number / TABLE_CHUNK], memory_order_acquire);
    return c ? atomic_load_explicit(&c[number % TABLE_CHUNK], memory_order_acquire) : NULL;
}

/* Over-long names are kept up to one byte more than is allowed: enough for schema_create to refuse them. */
static struct slice copy_name(char **at, const char *name)
{
    size_t n = strnlen(name, EVENT_NAME_MAX + 1);
    memcpy(*at, name, n);
    struct slice s = {*at, n};
    *at += n;
    return s;
}

static struct site_info *copy_site(struct gridline_site *s)
{
    size_t n = s->n_fields, text = strnlen(s->event, EVENT_NAME_MAX + 1);
    for (size_t i = 0; i < n; i++)
        text += strnlen(s->fields[i].name, EVENT_NAME_MAX + 1);
    struct site_info *info = arena_take(sizeof *info + n * sizeof *info->fields + text);
    if (!info)
        return NULL;
    char *at = (char *)&info->fields[n];
    info->site = s;
    info->level = s->level;
    info->n_fields = (uint8_t)n;
    info->event = copy_name(&at, s->event);
    for (size_t i = 0; i < n; i++) {
        info->fields[i].type = s->fields[i].type;
        info->fields[i].name = copy_name(&at, s->fields[i].name);
    }
    return info;
}

/* Without bit 0: it is registered. */
static void set_bits(struct gridline_site *s, const struct site_info *info)
{
    uint64_t epoch;
    do {
        epoch = activate_epoch();
        __atomic_store_n(&s->on, activate_bits(info->level, info->event), __ATOMIC_SEQ_CST);
    } while (activate_epoch() != epoch);
}

bool site_register(struct gridline_site *s)
{
    if (atomic_load(&last_number) >= SITES_MAX - 1 || s->version != 1 || s->n_fields > SITE_FIELDS_MAX)
        return false;
    struct site_info *info = copy_site(s);
    uint32_t number = info ? atomic_fetch_add(&last_number, 1) + 1 : SITES_MAX;
    site_ref *place = number < SITES_MAX ? table_place(number) : NULL;
    if (!place)
        return false;
    info->number = number;
    atomic_store(place, info);
    void *none = NULL;
    (void)__atomic_compare_exchange_n(
        &s->own, &none, (void *)(uintptr_t)number, false, __ATOMIC_SEQ_CST,
        __ATOMIC_SEQ_CST); /* if another thread was faster: this number stays unused */
    set_bits(s, info);
    return true;
}

/* All registered sites within [from, to), which is mapped as long as the loader's lock is held. A site whose
 * own number is another one lies where an unloaded module had been. */
static void update_range(uintptr_t from, uintptr_t to)
{
    uint32_t last = atomic_load(&last_number);
    for (uint32_t i = 1; i <= last && i < SITES_MAX; i++) {
        const struct site_info *info = site_at(i);
        uintptr_t at = info ? (uintptr_t)info->site : 0;
        if (!info || at < from || at + sizeof(struct gridline_site) > to)
            continue;
        if (__atomic_load_n(&info->site->own, __ATOMIC_SEQ_CST) == (void *)(uintptr_t)i)
            set_bits(info->site, info);
    }
}

static int update_module(struct dl_phdr_info *module, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (unsigned i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &module->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W))
            update_range(module->dlpi_addr + p->p_vaddr, module->dlpi_addr + p->p_vaddr + p->p_memsz);
    }
    return 0;
}

void site_update_all(void)
{
    if (atomic_load(&last_number))
        (void)dl_iterate_phdr(update_module, NULL); /* the value is what update_module returns: 0 */
}
