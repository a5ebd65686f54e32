/* SPDX-License-Identifier: Apache-2.0 */
/* fanout_peers nats|mqtt PORT CONSUMERS SECONDS WINDOW: what bench/fanout gives to the brokers. The publisher
 * is the broker's own C library, NATS core or MQTT with QoS 0; the consumers are bare sockets that subscribe
 * by hand and count bytes, since a client library for each would be what is measured (PEERS.md, 7).
 *
 * Not built by meson, as nobody else needs the libraries: bench/fanout installs them and builds it. */
#include "drain.h"

#include <errno.h>
#include <mosquitto.h>
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBJECT "f" /* also in mqtt_subscribe, by hand */

/* As a ULM line of ours has it: bench/consumers/gateway.c sends the same as events. */
static const char event[] =
    "DATE=20261116071009.123456 HOST=node-042.grid.example PROG=transfer LVL=Info NL.EVNT=block "
    "id=1000001 k=355 size=65536 ms=12.345";
_Static_assert(sizeof event == EVENT_BYTES + 1, "128 bytes");

struct nats {
    struct publisher publisher;
    natsConnection *connection;
    bool is_flushed;
};

struct mqtt {
    struct publisher publisher;
    struct mosquitto *client;
};

static void nats_check(natsStatus s, const char *what)
{
    if (s == NATS_OK)
        return;
    (void)fprintf(stderr, "fanout: %s: %s\n", what, natsStatus_GetText(s));
    exit(1);
}

static void nats_round(struct publisher *p)
{
    struct nats *n = (struct nats *)p;
    for (int i = 0; i < ROUND; i++)
        nats_check(natsConnection_Publish(n->connection, SUBJECT, event, EVENT_BYTES), "publish");
    n->is_flushed = false;
}

static void nats_idle(struct publisher *p)
{
    struct nats *n = (struct nats *)p;
    if (!n->is_flushed)
        nats_check(natsConnection_Flush(n->connection), "flush");
    n->is_flushed = true;
}

static void nats_dial(struct nats *n, uint16_t port)
{
    char url[64];
    (void)snprintf(url, sizeof url, "nats://127.0.0.1:%u", port);
    n->publisher = (struct publisher){nats_round, nats_idle};
    nats_check(natsConnection_ConnectTo(&n->connection, url), "connect");
}

/* Subscribes, and reads until the answer to PING says that it holds. */
static void nats_subscribe(struct consumer *c)
{
    static const char hello[] = "CONNECT {\"verbose\":false}\r\nSUB " SUBJECT " 1\r\nPING\r\n";
    char said[4096];
    size_t n = 0;
    drain_write(c->fd, hello, sizeof hello - 1);
    do {
        ssize_t k = n < sizeof said - 1 ? read(c->fd, said + n, sizeof said - 1 - n) : 0;
        if (k <= 0)
            drain_fail("nats-server's welcome");
        n += (size_t)k;
        said[n] = '\0';
    } while (!strstr(said, "PONG\r\n"));
    c->event_bytes = (uint64_t)snprintf(NULL, 0, "MSG " SUBJECT " 1 %d\r\n\r\n", EVENT_BYTES) + EVENT_BYTES;
}

static void mqtt_check(int rc, const char *what)
{
    if (rc == MOSQ_ERR_SUCCESS)
        return;
    (void)fprintf(stderr, "fanout: %s: %s\n", what, mosquitto_strerror(rc));
    exit(1);
}

static void mqtt_round(struct publisher *p)
{
    struct mqtt *m = (struct mqtt *)p;
    for (int i = 0; i < ROUND; i++)
        mqtt_check(mosquitto_publish(m->client, NULL, SUBJECT, EVENT_BYTES, event, 0, false), "publish");
}

static void mqtt_dial(struct mqtt *m, uint16_t port)
{
    m->publisher = (struct publisher){.round = mqtt_round};
    (void)mosquitto_lib_init();
    m->client = mosquitto_new(NULL, true, NULL);
    if (!m->client)
        drain_fail("mosquitto_new");
    mqtt_check(mosquitto_connect(m->client, "127.0.0.1", port, 600), "connect");
    mqtt_check(mosquitto_loop_start(m->client), "loop");
}

/* CONNECT (3.1.1, clean) and SUBSCRIBE with QoS 0, and their answers. */
static void mqtt_subscribe(struct consumer *c, size_t number)
{
    unsigned char hello[] = {0x10, 17, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 5, 'c', '0', '0', '0', '0'};
    const unsigned char subscribe[] = {0x82, 6, 0, 1, 0, 1, 'f', 0};
    unsigned char answer[5];
    for (size_t i = sizeof hello - 1; i > 14; i--, number /= 10)
        hello[i] = (unsigned char)('0' + number % 10);
    drain_write(c->fd, hello, sizeof hello);
    drain_read(c->fd, answer, 4);
    if (answer[0] != 0x20 || answer[3] != 0)
        drain_fail("mosquitto's welcome");
    drain_write(c->fd, subscribe, sizeof subscribe);
    drain_read(c->fd, answer, 5);
    if (answer[0] != 0x90 || answer[4] != 0)
        drain_fail("mosquitto's answer to SUBSCRIBE");
    c->event_bytes = 1 + 2 + 2 + 1 + EVENT_BYTES; /* type, length in two bytes, topic, payload */
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return fprintf(stderr, "usage: fanout_peers nats|mqtt PORT CONSUMERS SECONDS WINDOW\n"), 2;
    bool is_nats = strcmp(argv[1], "nats") == 0;
    uint16_t port = (uint16_t)strtoul(argv[2], NULL, 10);
    size_t n = strtoul(argv[3], NULL, 10);
    const struct drain_options options = {strtod(argv[4], NULL), (uint32_t)strtoul(argv[5], NULL, 10)};
    struct consumer *consumers = calloc(n, sizeof *consumers), **all = calloc(n, sizeof *all);
    struct nats nats;
    struct mqtt mqtt;
    if (!consumers || !all)
        drain_fail("memory");
    for (size_t i = 0; i < n; i++) {
        all[i] = &consumers[i];
        consumers[i].fd = drain_dial(port);
        consumers[i].per_round = ROUND;
        consumers[i].take = consumer_take_fixed;
        if (is_nats)
            nats_subscribe(&consumers[i]);
        else
            mqtt_subscribe(&consumers[i], i);
    }
    if (is_nats)
        nats_dial(&nats, port);
    else
        mqtt_dial(&mqtt, port);
    drain_run(is_nats ? &nats.publisher : &mqtt.publisher, all, n, &options);
    _exit(0); /* the libraries' threads end with it */
}
