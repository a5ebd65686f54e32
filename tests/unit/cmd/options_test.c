/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "cmd/options.h"
#include "event/encoding.h"
#include "event/level.h"

struct state {
    bool flag, other;
    const char *text, *file;
    const struct encoding *format, *input;
    uint64_t size;
    int64_t duration;
    struct option_time time;
    uint8_t level;
    struct option_texts texts;
};

static const struct option_spec table[] = {
    {'f', "flag", OPTION_FLAG, NULL, offsetof(struct state, flag), "a flag"},
    {'x', "other-flag", OPTION_FLAG, NULL, offsetof(struct state, other), "another"},
    {'w', "where", OPTION_TEXT, "EXPR", offsetof(struct state, text), "text"},
    {'o', "output", OPTION_FILE, "FILE", offsetof(struct state, file), "a file"},
    {'t', "format", OPTION_FORMAT, "FORMAT", offsetof(struct state, format), "a format"},
    {0, "input", OPTION_INPUT, "FORMAT", offsetof(struct state, input), "a format"},
    {0, "memory", OPTION_SIZE, "SIZE", offsetof(struct state, size), "a size"},
    {0, "timeout", OPTION_DURATION, "DURATION", offsetof(struct state, duration), "a duration"},
    {0, "from", OPTION_TIME, "TIME", offsetof(struct state, time), "a time"},
    {'l', "level", OPTION_LEVEL, "LEVEL", offsetof(struct state, level), "a level"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", offsetof(struct state, texts), "texts"},
    {0},
};

static const struct verb verb = {
    .name = "try", .operands = "FILE...", .operands_min = 1, .operands_max = 3, .options = table};

static struct state state;
static struct operands operands;
static struct diag why;
static char *words[16];

/* The words of text, separated by blanks. */
static enum options_result parse(const char *text)
{
    static char copy[512];
    int n = 0;
    size_t length = strlen(text);
    assert_true(length < sizeof copy);
    memcpy(copy, text, length + 1);
    for (char *p = copy; *p; n++) {
        words[n] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = '\0';
    }
    state = (struct state){0};
    operands = (struct operands){0};
    why = (struct diag){0};
    return options_parse(&verb, n, words, 1000 * NS_PER_S, &state, &operands, &why);
}

static void test_forms(void **unused)
{
    (void)unused;
    assert_int_equal(parse("-fx --where=a=b -oout one -t ulm --memory 2MiB --timeout 250ms two"), OPTIONS_OK);
    assert_true(state.flag && state.other);
    assert_string_equal(state.text, "a=b");
    assert_string_equal(state.file, "out");
    assert_string_equal(state.format->name, "ulm");
    assert_int_equal(state.size, 2 << 20);
    assert_int_equal(state.duration, 250000000);
    assert_false(state.time.is_set);
    assert_int_equal(operands.n, 2);
    assert_string_equal(operands.v[0], "one");
    assert_string_equal(operands.v[1], "two");
}

static void test_values(void **unused)
{
    (void)unused;
    assert_int_equal(parse("--from now-10s --level WARN --input json -fw e a"), OPTIONS_OK);
    assert_true(state.time.is_set);
    assert_int_equal(state.time.at_ns, 990 * NS_PER_S);
    assert_int_equal(state.level, LEVEL_WARNING);
    assert_string_equal(state.input->name, "ndjson");
    assert_string_equal(state.text, "e");
    assert_int_equal(parse("--where= a"), OPTIONS_OK);
    assert_string_equal(state.text, "");
}

static void test_operands(void **unused)
{
    (void)unused;
    assert_int_equal(parse("- -- --flag -x"), OPTIONS_OK);
    assert_int_equal(operands.n, 3);
    assert_string_equal(operands.v[0], "-");
    assert_string_equal(operands.v[1], "--flag");
    assert_false(state.flag);
    assert_int_equal(parse("-f"), OPTIONS_BAD);
    assert_non_null(strstr(why.message, "missing FILE"));
    assert_int_equal(parse("a b c d"), OPTIONS_BAD);
    assert_non_null(strstr(why.message, "'d'"));
}

static void test_help_wins(void **unused)
{
    (void)unused;
    assert_int_equal(parse("--help"), OPTIONS_HELP);
    assert_int_equal(parse("a b -h --no-such"), OPTIONS_HELP);
    assert_int_equal(parse("a -- --help"), OPTIONS_OK);
}

static void test_texts_add_up(void **unused)
{
    char *many[2 * OPTION_TEXTS_MAX + 2], letter[] = "-s", text[] = "a=1";
    int n = 0;
    (void)unused;
    assert_int_equal(parse("-s a=1 --set b=2 -sa=3 file"), OPTIONS_OK);
    assert_int_equal(state.texts.n, 3);
    assert_string_equal(state.texts.v[0], "a=1");
    assert_string_equal(state.texts.v[1], "b=2");
    assert_string_equal(state.texts.v[2], "a=3");
    for (; n < 2 * OPTION_TEXTS_MAX + 2; n++)
        many[n] = n % 2 ? text : letter;
    state = (struct state){0};
    assert_int_equal(options_parse(&verb, n, many, 0, &state, &operands, &why), OPTIONS_BAD);
    assert_non_null(strstr(why.message, "64 times"));
}

static void refuses(const char *text, const char *says)
{
    assert_int_equal(parse(text), OPTIONS_BAD);
    if (!strstr(why.message, says))
        fail_msg("'%s' says '%s', not '%s'", text, why.message, says);
}

static void test_refusals(void **unused)
{
    (void)unused;
    refuses("--formt ulm a", "did you mean --format?");
    refuses("--otput=x a", "did you mean --output?");
    refuses("--zzzzzz a", "gridline help try");
    refuses("-z a", "no option -z");
    refuses("--flag=1 a", "takes no value");
    refuses("a --where", "--where needs a value: --where EXPR");
    refuses("a -w", "--where needs a value");
    refuses("-t ulmm a", "did you mean ulm?");
    refuses("-t nothing a", "there are ulm bp");
    refuses("--input csv a", "not read");
    refuses("-l wraning a", "did you mean warning?");
    refuses("-l zzzzzzzzz a", "a level");
    refuses("--memory many a", "a size");
    refuses("--timeout soon a", "a duration");
    refuses("--from yesterday a", "now-15m");
    refuses("--from= a", "a time");
}

static void test_nearest(void **unused)
{
    const char *list[] = {"log", "convert", "merge"};
    (void)unused;
    assert_string_equal(options_nearest(SLICE_LIT("convret"), list, 3, sizeof *list), "convert");
    assert_string_equal(options_nearest(SLICE_LIT("lgo"), list, 3, sizeof *list), "log");
    assert_null(options_nearest(SLICE_LIT("x"), list, 3, sizeof *list));
    assert_null(options_nearest(SLICE_LIT("subscribe"), list, 3, sizeof *list));
    assert_null(options_nearest(SLICE_LIT(""), list, 3, sizeof *list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_values),   cmocka_unit_test(test_operands),
        cmocka_unit_test(test_help_wins), cmocka_unit_test(test_refusals), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_texts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
