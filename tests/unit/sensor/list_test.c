/* SPDX-License-Identifier: Apache-2.0 */
/* Every event name of a sensor is reserved (event/reserved.h), and every reserved name is some sensor's, or
 * guards'. */
#include "unit/test.h"

#include "event/reserved.h"
#include "sensor/sensor.h"

#define AS_TEXT(name) name,
static const char *const reserved[] = {RESERVED_EVENTS(AS_TEXT)};
enum { RESERVED = sizeof reserved / sizeof *reserved };

static bool is_of_sensor(const char *name)
{
    for (const struct sensor_ops *const *s = sensor_list; *s; s++)
        for (const struct sensor_schema *e = (*s)->schemas; e && e->name; e++)
            if (strcmp(e->name, name) == 0)
                return true;
    return false;
}

static void names_of_sensors_are_reserved(void **state)
{
    (void)state;
    for (const struct sensor_ops *const *s = sensor_list; *s; s++)
        for (const struct sensor_schema *e = (*s)->schemas; e && e->name; e++) {
            size_t i = 0;
            while (i < RESERVED && strcmp(reserved[i], e->name) != 0)
                i++;
            if (i == RESERVED)
                fail_msg("%s of the sensor %s is not in event/reserved.h", e->name, (*s)->name);
        }
}

static void no_others_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESERVED; i++)
        if (!is_of_sensor(reserved[i]) && !strchr(reserved[i], '*'))
            fail_msg("%s in event/reserved.h is no sensor's", reserved[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_sensors_are_reserved),
        cmocka_unit_test(no_others_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
