// Makes the n-th call of one kind fail, in this process. Linked between the library and the system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace holdfast::faults {

enum class call : std::uint8_t {
    copy_file_range,
    fallocate,
    fchown,
    fdatasync,
    fdopendir,
    flock,
    fsync,
    ftruncate,
    ioctl,
    madvise,
    mkdirat,
    mmap,
    mremap,
    msync,
    open,
    openat,
    pread,
    pwrite,
    pwritev,
    pwritev2,
    readlinkat,
    renameat,
    symlinkat,
    unlinkat,
    memory,  ///< operator new
};
inline constexpr std::size_t call_count = static_cast<std::size_t>(call::memory) + 1;

[[nodiscard]] std::string_view name_of(call which);
/// The errors that the call may well fail with, at least one.
[[nodiscard]] std::span<const int> errors_of(call which);

struct fault {
    call which = call::memory;
    std::uint64_t nth = 0;  ///< counted from 1; 0: none, count only
    bool from_then_on = false;
    int os_error = 0;
    std::optional<call> also{};  ///< each of this kind fails, too, once the first call has failed
    int also_error = 0;
};

/// For each call the place that it comes from: a hash of the innermost functions on the stack.
struct called_from {
    static constexpr std::uint64_t most = 4096;  ///< later calls of a kind are not noted
    std::array<std::array<std::uint64_t, most>, call_count> place;
};

/// From here calls are counted, and those that the fault names fail. A write that fails has written half before.
/// `noted`: where the calls are noted, too; or null.
void arm(const fault& planned, called_from* noted = nullptr) noexcept;
void disarm() noexcept;
/// While it lives, nothing is counted and nothing fails: for what a scenario needs first.
class disarmed_section {
public:
    disarmed_section() noexcept;
    disarmed_section(const disarmed_section&) = delete;
    disarmed_section& operator=(const disarmed_section&) = delete;
    ~disarmed_section();

private:
    bool was_armed_;
};
/// Calls of each kind since arm().
[[nodiscard]] std::array<std::uint64_t, call_count> calls() noexcept;
/// Calls that failed since arm().
[[nodiscard]] std::uint64_t fired() noexcept;

}  // namespace holdfast::faults
