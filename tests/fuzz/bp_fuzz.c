/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/pairs_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_pairs(&encoding_bp, data, size);
}
