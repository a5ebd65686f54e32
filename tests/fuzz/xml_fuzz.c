/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/text_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct text_fuzz fuzz = {.encoding = &encoding_xml};
    text_fuzz(&fuzz, data, size);
    return 0;
}
