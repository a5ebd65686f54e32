/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the place of the real one, which comes from its own branch. */
#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>
struct portmon;
static inline struct portmon *portmon_create(void){return NULL;}
static inline void portmon_destroy(struct portmon*m){(void)m;}
static inline const char *portmon_why(struct portmon*m){(void)m;return "";}
static inline void portmon_set(struct portmon*m,const uint16_t*p,size_t n){(void)m;(void)p;(void)n;}
static inline void portmon_look(struct portmon*m,int64_t n){(void)m;(void)n;}
static inline bool portmon_is_active(struct portmon*m,uint16_t p,int64_t n,int64_t h){(void)m;(void)p;(void)n;(void)h;return false;}
static inline int64_t portmon_next_ns(struct portmon*m){(void)m;return INT64_MAX;}
