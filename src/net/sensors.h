/* SPDX-License-Identifier: Apache-2.0 */
/* sensors.h - SENSORS (docs/protocol.md, "Sensors"): an agent's whole list of sensors, within its
 * registration. It replaces the list before. One that is large comes in several frames: the first says so,
 * all but the last say that more follow. As frame.h: pure functions, slices borrowed from the payload. */
#ifndef GRIDLINE_NET_SENSORS_H
#define GRIDLINE_NET_SENSORS_H

#include "net/args.h"
#include "net/frame.h"

enum sensors_frame { FRAME_SENSORS = 32 };

enum {
    SENSORS_MAX = 1024,           /* of a list */
    SENSORS_FRAME_MAX = 32 << 10, /* bytes of a frame's sensors, about: a writer begins another one then */
    SENSORS_NAME_MAX = 160,
    SENSORS_EVENTS_MAX = 8192, /* bytes of the names of its events, and of their hashes */
    SENSORS_WORD_MAX = 32,     /* of mode and status */
    SENSORS_WHY_MAX = 1024
};

/* One sensor. What is "" or 0 is not known, or there is none. */
struct sensors_one {
    struct slice sensor;  /* as `sensor.list` names it: "cpu", "exec/root-disk" */
    struct slice events;  /* the names of what it makes, by commas */
    struct slice schemas; /* the hash of each, 16 hex digits or nothing, by commas */
    struct slice mode;    /* always, on-request, port, off */
    struct slice status;  /* running, idle, suspended, failed, stopped */
    struct slice why;     /* of `failed` */
    uint64_t every_ms;    /* how often it is read */
    int64_t since_ns;     /* UTC: when it became what it is */
};

/* A frame's part of the list, checked: walking it can't fail. */
struct frame_sensors {
    bool is_first, has_more;
    uint32_t n;
    struct slice bytes;
};

int frame_get_sensors(struct slice payload, struct frame_sensors *out);
/* The next sensor of it, which gets shorter: true; false at its end. */
bool sensors_next(struct frame_sensors *list, struct sensors_one *out);

/* Frames being made: begin, any number of adds, end. The buffer then holds one frame after the other. */
struct sensors_writer {
    struct strbuf *out;  /* borrowed */
    struct strbuf bytes; /* of the frame that is being made */
    struct args_writer one;
    uint32_t n, total;
    bool has_begun; /* the list's first frame is out */
};
void sensors_begin(struct sensors_writer *w, struct strbuf *out);
/* false: it can't be said: the list is full, or something is longer than it may be. It is left out. */
bool sensors_add(struct sensors_writer *w, const struct sensors_one *s);
void sensors_end(
    struct sensors_writer *w); /* frees what the writer holds; *out says whether memory ran out */

#endif
