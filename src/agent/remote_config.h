/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the place of the real one, which comes from its own branch. */
struct remote_config; struct remote_document{const char*url;int error;const char*why;struct slice text;bool is_signed;};
static inline int remote_config_create(struct event_base*b,const struct agent_config*c,void(*f)(void*,const struct remote_document*),void*a,struct remote_config**o,struct diag*w){(void)b;(void)c;(void)f;(void)a;(void)o;(void)w;return 0;}
static inline void remote_config_destroy(struct remote_config*r){(void)r;}
static inline void remote_config_ask(struct remote_config*r){(void)r;}
static inline int64_t remote_config_next_ns(struct remote_config*r){(void)r;return INT64_MAX;}
static inline void remote_config_pump(struct remote_config*r,int64_t n){(void)r;(void)n;}
