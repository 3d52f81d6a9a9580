// manager::shrink() and manager::follow_this_thread().
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"

namespace holdfast {

namespace {

shrink_report public_report(const heap::shrink_report& report) {
    return {report.charged_before, report.charged_after, report.apparent_before,
            report.apparent_after, report.given_back,    report.shortened};
}

}  // namespace

bool manager::follow_this_thread() { return core().engine().follow_this_thread(); }

shrink_report manager::shrink(const shrink_options& options) {
    detail::refuse_read_only(core().engine(), "shrink");
    return public_report(
        value_or_throw(core().engine().shrink(options.target, [&options](const heap::shrink_report& so_far) {
            if (options.progress) {
                options.progress(public_report(so_far));
            }
        })));
}

}  // namespace holdfast
