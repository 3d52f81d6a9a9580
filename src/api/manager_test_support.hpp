// For the tests of holdfast::manager: a heap of small segments, and what a call threw.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "segment/test_support.hpp"

namespace holdfast {

inline open_options small_options() {
    open_options options;
    options.segment_size = std::uint64_t{2} << 20;
    options.reservation = std::uint64_t{1} << 30;
    return options;
}

inline open_options shared_options() {
    open_options options = small_options();
    options.shared = true;
    return options;
}

/// None where the call returned, out_of_memory for bad_alloc.
template <class Call>
errc reason_of(Call&& call) {
    try {
        std::forward<Call>(call)();
    } catch (const error& thrown) {
        EXPECT_FALSE(std::string(thrown.what()).empty());
        return thrown.reason();
    } catch (const std::bad_alloc&) {
        return errc::out_of_memory;
    }
    return errc::none;
}

class manager_test : public testing::Test {
protected:
    manager create(const std::string& name = "heap") const { return {create_only, path(name), small_options()}; }
    manager open(const std::string& name = "heap") const { return {open_only, path(name)}; }
    [[nodiscard]] manager share() const { return {open_only, path(), shared_options()}; }
    [[nodiscard]] std::string path(const std::string& name = "heap") const { return directory_.path(name); }

    segment::test_directory directory_;
};

/// Must not be changed by a call that failed.
using usage = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
inline usage usage_of(const manager& heap) {
    const heap_statistics numbers = heap.statistics();
    return {numbers.allocated_bytes, numbers.allocated_blocks, numbers.named_objects, numbers.unique_objects,
            numbers.anonymous_objects};
}

}  // namespace holdfast
