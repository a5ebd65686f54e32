/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>

const char *err_text(int code)
{
    switch (code) {
    case E_PROTO:
        return "malformed input";
    case E_LIMIT:
        return "over a limit of the event model";
    case E_NODATA:
        return "no data";
    case E_DAMAGE:
        return "damaged (checksum mismatch)";
    case E_VERSION:
        return "made by a later version";
    default:
        break;
    }
    const char *text = code < 0 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

int diag_set(struct diag *d, int code, uint32_t col, const char *format, ...)
{
    if (!d)
        return code;
    d->col = col;
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(d->message, sizeof d->message, format, ap); /* cut to fit is fine for a message */
    va_end(ap);
    return code;
}
