// What every refusal owes: the right code, path, field, found and expected, and files that are as they were.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

namespace holdfast::support {

/// What the test expects of the error. `field`, `found` and `expected` are parts of the text.
struct refusal {
    errc code = errc::none;
    std::string path;
    std::string field;
    std::string found;
    std::string expected;
};

/// The error that `action` throws, compared with `wanted`. Nothing under `directory` may change.
std::optional<error> expect_refusal(const std::string& directory, const refusal& wanted,
                                    const std::function<void()>& action);

/// An open for writing and an open for reading each fail with the error `wanted` and change no file; consistent() says
/// that the heap is not.
void expect_no_open(const std::string& heap, const refusal& wanted);

/// The step that the heap holds when it is opened for reading; shows that check() finds nothing.
[[nodiscard]] std::uint64_t step_when_opened(const std::string& heap);

/// Opens for writing, takes the heap one step further, closes, and reads it again: the heap works.
void expect_heap_goes_on(const std::string& heap);

/// Makes mounts of this process its own. False where a process may not, as in some containers.
[[nodiscard]] bool keep_mounts_apart() noexcept;
/// Whether a child of fork can.
[[nodiscard]] bool can_keep_mounts_apart();

/// Runs `action` in a child of fork: an exception or a failed expectation there fails the test here.
void in_child(const std::function<void()>& action);

}  // namespace holdfast::support
