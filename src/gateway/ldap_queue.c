/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ldap_queue.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

static void list_init(struct ldap_link_node *head)
{
    head->next = head->before = head;
}

static void list_add(struct ldap_link_node *head, struct ldap_link_node *n)
{
    n->before = head->before;
    n->next = head;
    head->before->next = n;
    head->before = n;
}

static void list_remove(struct ldap_link_node *n)
{
    n->before->next = n->next;
    n->next->before = n->before;
}

/* All of `from`, behind what `to` has. */
static void list_append(struct ldap_link_node *to, struct ldap_link_node *from)
{
    if (from->next == from)
        return;
    from->next->before = to->before;
    to->before->next = from->next;
    from->before->next = to;
    to->before = from->before;
    list_init(from);
}

static struct ldap_item *item_of(struct ldap_link_node *n)
{
    return (struct ldap_item *)(void *)n; /* the first member */
}

void ldap_queue_init(struct ldap_queue *q)
{
    *q = (struct ldap_queue){.round = 1};
    list_init(&q->to_do);
    list_init(&q->removals);
    list_init(&q->settled);
}

static void free_item(struct ldap_item *i)
{
    mem_free(i->record);
    mem_free(i);
}

static void free_list(struct ldap_link_node *head)
{
    while (head->next != head) {
        struct ldap_item *i = item_of(head->next);
        list_remove(&i->node);
        free_item(i);
    }
}

void ldap_queue_fini(struct ldap_queue *q)
{
    free_list(&q->to_do);
    free_list(&q->removals);
    free_list(&q->settled);
    map_fini(&q->items);
}

static void move_to(struct ldap_queue *q, struct ldap_item *i, struct ldap_link_node *list)
{
    bool was_settled = i->settled_in == q->round, is_settled = list == &q->settled;
    q->waiting += was_settled;
    q->waiting -= is_settled;
    i->settled_in = is_settled ? q->round : 0;
    list_remove(&i->node);
    list_add(list, &i->node);
}

static int add_item(struct ldap_queue *q, struct slice name, struct ldap_item **out)
{
    if (q->items.n >= LDAP_ENTRIES_MAX)
        return E_LIMIT;
    struct ldap_item *i = mem_try_alloc(sizeof *i + name.n);
    if (!i)
        return -ENOMEM;
    memcpy(i->name, name.p, name.n);
    i->name_n = name.n;
    int r = map_put(&q->items, slice_of(i->name, i->name_n), i);
    if (r < 0) {
        mem_free(i);
        return r;
    }
    i->settled_in = q->round;
    list_add(&q->settled, &i->node);
    *out = i;
    return 0;
}

int ldap_queue_put(struct ldap_queue *q, struct slice name, struct slice record, bool is_host, bool is_held)
{
    struct ldap_item *i = map_get(&q->items, name);
    if (i && i->record && i->is_held == is_held && slice_eq(slice_of(i->record, i->record_n), record))
        return 0;
    char *copy = mem_try_alloc(record.n ? record.n : 1);
    if (!copy)
        return -ENOMEM;
    int r = i ? 0 : add_item(q, name, &i);
    if (r < 0) {
        mem_free(copy);
        return r;
    }
    memcpy(copy, record.p, record.n);
    mem_free(i->record);
    i->record = copy;
    i->record_n = record.n;
    i->version++;
    i->is_host = is_host;
    i->is_held = is_held;
    move_to(q, i, &q->to_do);
    return 1;
}

bool ldap_queue_remove(struct ldap_queue *q, struct slice name)
{
    struct ldap_item *i = map_get(&q->items, name);
    if (!i || !i->record)
        return false;
    mem_free(i->record);
    i->record = NULL;
    i->record_n = 0;
    i->version++;
    move_to(q, i, i->is_host ? &q->removals : &q->to_do);
    return true;
}

void ldap_queue_begin(struct ldap_queue *q)
{
    q->round++; /* nothing is settled in this one, by its number */
    list_append(&q->to_do, &q->settled);
    q->waiting = q->items.n;
}

bool ldap_queue_seen(struct ldap_queue *q, struct slice name, struct slice record)
{
    struct ldap_item *i = map_get(&q->items, name);
    if (!i)
        return false;
    i->seen_in = q->round;
    if (i->record && slice_eq(slice_of(i->record, i->record_n), record))
        move_to(q, i, &q->settled);
    return true;
}

struct ldap_item *ldap_queue_first(struct ldap_queue *q)
{
    if (q->to_do.next != &q->to_do)
        return item_of(q->to_do.next);
    return q->removals.next != &q->removals ? item_of(q->removals.next) : NULL;
}

void ldap_queue_done(struct ldap_queue *q, struct ldap_item *i, uint64_t version, bool is_there)
{
    i->seen_in = is_there ? q->round : 0;
    if (i->version != version)
        return;
    move_to(q, i, &q->settled);
    if (i->record)
        return;
    list_remove(&i->node);
    (void)map_remove(&q->items, slice_of(i->name, i->name_n)); /* it is i */
    free_item(i);
}
