#include <algorithm>
#include <chrono>
#include <cstdint>

#include "c_api/c_api.hpp"

using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;

hf_code hf_follow_this_thread(hf_heap* heap, int* followed) {
    return guarded([&] {
        const bool moved = manager_of(heap).follow_this_thread();
        if (followed != nullptr) {
            *followed = moved ? 1 : 0;
        }
    });
}

hf_code hf_shrink(hf_heap* heap, uint64_t target, hf_shrink_report* report) {
    return guarded([&] {
        holdfast::shrink_options wanted;
        wanted.target = target;
        const holdfast::shrink_report in = manager_of(heap).shrink(wanted);
        if (report != nullptr) {
            const hf_shrink_report known{
                0,           in.charged_before, in.charged_after, in.apparent_before, in.apparent_after, in.given_back,
                in.shortened};
            holdfast::c_api::fill_known_part(report, known, "report", "HF_SHRINK_REPORT_INIT");
        }
    });
}

hf_code hf_refresh(hf_heap* heap, hf_refresh_report* report) {
    return guarded([&] {
        const holdfast::refresh_report done = manager_of(heap).refresh();
        if (report != nullptr) {
            const hf_refresh_report known{0, done.version, done.commits, done.pages};
            holdfast::c_api::fill_known_part(report, known, "report", "HF_REFRESH_REPORT_INIT");
        }
    });
}

hf_code hf_wait_for_change(hf_heap* heap, uint64_t nanoseconds, int* changed) {
    return guarded([&] {
        const auto most = static_cast<uint64_t>(std::chrono::nanoseconds::max().count());
        const std::chrono::nanoseconds longest(static_cast<std::int64_t>(std::min(nanoseconds, most)));
        required(changed, "changed") = manager_of(heap).wait_for_change(longest) ? 1 : 0;
    });
}

hf_code hf_pin(hf_heap* heap, const void* begin, size_t bytes) {
    return guarded([&] { manager_of(heap).pin(begin, bytes); });
}

hf_code hf_unpin(hf_heap* heap, const void* begin, size_t bytes) {
    return guarded([&] { manager_of(heap).unpin(begin, bytes); });
}
