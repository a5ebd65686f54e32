/* SPDX-License-Identifier: Apache-2.0 */
/* instrument_tp.h - the LTTng-UST tracepoint of bench/instrument: u64, u64, string. LTTng includes it twice. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER gridline_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./instrument_tp.h"

#if !defined(GRIDLINE_BENCH_INSTRUMENT_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define GRIDLINE_BENCH_INSTRUMENT_TP_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(gridline_bench, transfer,
    LTTNG_UST_TP_ARGS(uint64_t, id, uint64_t, size, const char *, name),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, id, id)
        lttng_ust_field_integer(uint64_t, size, size)
        lttng_ust_field_string(name, name)))

#endif

#include <lttng/tracepoint-event.h>
