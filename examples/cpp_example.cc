// SPDX-License-Identifier: Apache-2.0
// gridline.h from C++17: events, a scope timer by RAII, a summary. usage: cpp_example DESTINATION (see
// gridline.h)
#include <gridline/gridline.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace
{

struct Close {
    void operator()(gridline *log) const { gridline_close(log); }
};
using Log = std::unique_ptr<gridline, Close>;

class Scope
{
  public:
    explicit Scope(gridline_timer *timer) : timer_(timer) { gridline_timer_start(timer_); }
    ~Scope() { gridline_timer_stop(timer_); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    gridline_timer *timer_;
};

} // namespace

int main(int argc, char **argv)
{
    Log log(gridline_open("cpp_example", argc > 1 ? argv[1] : "", argc > 1 ? 0 : GRIDLINE_ENV));
    gridline_timer *timer = gridline_timer_get(log.get(), "sum.time");
    gridline_summary *sums = gridline_summary_get(log.get(), "sum.value", 0);
    GRIDLINE_POINT(log.get(), GRIDLINE_INFO, "sum.begin");
    for (std::uint64_t id = 1; id <= 3; id++) {
        Scope scope(timer);
        const std::string file = "part-" + std::to_string(id);
        std::vector<double> values(id * 1000);
        std::iota(values.begin(), values.end(), 0.0);
        const double sum = std::accumulate(values.begin(), values.end(), 0.0);
        gridline_summary_add(sums, sum);
        GRIDLINE_EVENT(log.get(), GRIDLINE_INFO, "sum.end", (i64, "id", id), (f64, "sum", sum),
                       (b, "ok", true), (textn, "file", file.data(), file.size()), (text, "unit", nullptr));
    }
    return gridline_write(log.get(), GRIDLINE_NOTICE, "sum.done", "parts=%d state=ok", 3) == 0 ? 0 : 1;
}
