/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of all actuators as C, without their functions: names, options with default and help,
 * traits. Run by the build. So the guard and the commands know what there is to configure, and the code that
 * acts, with the large libraries it needs, is in gridline-act alone. */
#include "actuator/actuator.h"

#include <stdio.h>

static const char *const types[] = {
    [SETTING_FLAG] = "FLAG", [SETTING_INT] = "INT",           [SETTING_FLOAT] = "FLOAT",
    [SETTING_SIZE] = "SIZE", [SETTING_DURATION] = "DURATION", [SETTING_STRING] = "STRING",
    [SETTING_LIST] = "LIST"};

static void print_text(const char *text)
{
    if (!text) {
        (void)fputs("NULL", stdout);
        return;
    }
    (void)putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\' || *p == '?')
            (void)printf("\\%03o", *p);
        else
            (void)putchar(*p);
    (void)putchar('"');
}

static void print_options(const struct actuator_ops *ops)
{
    (void)printf("static const struct parameter %s_options[] = {\n", ops->name);
    for (const struct parameter *o = ops->options; o && o->name; o++) {
        (void)printf("    {SETTING_%s, \"%s\", ", types[o->type], o->name);
        print_text(o->default_text);
        (void)printf(", %zu, ", o->offset);
        print_text(o->help);
        (void)printf(", %d, %d},\n", o->is_program, o->is_needed);
    }
    (void)printf("    {0}};\n");
}

static void print_ops(const struct actuator_ops *ops)
{
    (void)printf("static const struct actuator_ops %s_ops = {.name = \"%s\", .summary = ", ops->name,
                 ops->name);
    print_text(ops->summary);
    (void)printf(
        ",\n    .options = %s_options, .is_repeatable = %d, .is_groupable = %d, .state_size = %zu};\n",
        ops->name, ops->is_repeatable, ops->is_groupable, ops->state_size);
}

int main(void)
{
    (void)printf("#include \"actuator/actuator.h\"\n");
    for (size_t i = 0; actuator_list[i]; i++) {
        print_options(actuator_list[i]);
        print_ops(actuator_list[i]);
    }
    (void)printf("const struct actuator_ops *const actuator_tables[] = {");
    for (size_t i = 0; actuator_list[i]; i++)
        (void)printf("&%s_ops, ", actuator_list[i]->name);
    (void)printf("NULL};\n");
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
