/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-helper: what the agent does not do itself, because it can block or needs large libraries. Started
 * by the agent (sensor/remote.h, agent/remote_config.h) with pipes; of no use by hand.
 *
 *     gridline-helper SENSOR INSTANCE     one sensor; the words are for ps(1), the pipe says which
 *     gridline-helper fetch               one document by HTTP */
#include "base/log.h"
#include "helper/fetch.h"
#include "helper/serve.h"
#include "base/strays.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    struct diag why = {0};
    log_start("gridline-helper");
    if (argc < 2 || isatty(STDIN_FILENO)) {
        log_error("is started by gridline-agent, for the sensors that need it");
        return 2;
    }
    (void)strays_adopt(); /* where that can't be, they are searched for */
    bool is_fetch = argc == 2 && strcmp(argv[1], "fetch") == 0;
    int r = is_fetch ? fetch_serve(STDIN_FILENO, STDOUT_FILENO, &why)
                     : helper_serve(STDIN_FILENO, STDOUT_FILENO, helper_find, &why);
    if (r < 0)
        log_error("%s", why.message[0] ? why.message : err_text(r));
    return r < 0;
}
