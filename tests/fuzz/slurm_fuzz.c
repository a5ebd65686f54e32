/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's programs print. Whatever it is: a text that is refused gives no row, and a row has what each
 * row has. The first byte chooses jobs or nodes. */
#include "helper/slurm_json.h"

#include "base/text.h"

#include <assert.h>

struct seen {
    bool is_nodes;
    size_t rows;
};

static int check(void *arg, const struct value *row)
{
    struct seen *s = arg;
    size_t n = s->is_nodes ? (size_t)NODE_COLUMNS : (size_t)JOB_COLUMNS;
    assert(s->is_nodes ? row[NODE_STATE].type == VALUE_TEXT : row[JOB_ID].type == VALUE_UINT);
    assert(s->is_nodes || row[JOB_STATE].type == VALUE_TEXT);
    for (size_t i = 0; i < n; i++) {
        assert(row[i].type == VALUE_NONE || row[i].type == VALUE_TEXT || row[i].type == VALUE_UINT ||
               row[i].type == VALUE_FLOAT);
        assert(row[i].type != VALUE_TEXT ||
               (row[i].n && row[i].n <= SLURM_JSON_TEXT_MAX && text_is_utf8(value_slice(row[i]))));
        assert(row[i].type != VALUE_UINT || row[i].u <= UINT64_C(1) << 53);
        assert(row[i].type != VALUE_FLOAT || row[i].f > 0);
    }
    s->rows++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct seen s = {.is_nodes = data[0] == 'n'};
    struct diag why = {0};
    struct slice text = slice_of((const char *)data + 1, size - 1);
    int r = slurm_json_read(s.is_nodes ? &slurm_nodes : &slurm_jobs, text, check, &s, &why);
    assert(r <= 0);
    assert(r == 0 || s.rows == 0);
    assert((r != E_PROTO && r != E_LIMIT) || why.message[0]);
    return 0;
}
