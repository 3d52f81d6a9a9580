// What a call that may fail returns: its value, or a failure, which the compiler lets nobody ignore. The api layer
// turns a failure into `holdfast::error` (C++) or an error code (C). C++20 has no std::expected.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/assert.hpp"

namespace holdfast::base {

/// The values are part of the C interface (api/error.cpp asserts them): append only.
enum class failure_code : std::uint32_t {
    none = 0,
    invalid_argument,
    not_a_heap,           ///< the path exists
    version_unsupported,  ///< the library does not read this format version
    corrupt,              ///< content of media breaks its checksum or an invariant
    missing,
    already_exists,
    not_found,  ///< open, where nothing exists; an unknown name
    locked,
    read_only,
    permission,
    no_space,       ///< also of a quota or of the heap's own capacity
    address_taken,  ///< the heap's address range is occupied
    io,             ///< another failure of a system call
    type_mismatch,  ///< also another size
    name_exists,
    promise_unavailable,      ///< the storage cannot keep the durability asked for
    wrong_process,            ///< a child of fork used its parent's heap
    concurrent_modification,  ///< memory changed while commit() ran
    poisoned,                 ///< an earlier sync failed; the heap must be reopened
    limit,                    ///< of the system or of the format
    out_of_memory,            ///< DRAM for the heap's own bookkeeping
    bad_address,              ///< no start of an allocated block
    unsupported,              ///< by the file system or the kernel
};

[[nodiscard]] std::string_view to_string(failure_code code) noexcept;

/// message() leaves empty strings out.
struct failure {
    failure_code code = failure_code::none;
    std::string path;   ///< file or directory
    std::string field;  ///< part of the file, or operation
    std::string found;
    std::string expected;
    std::string hint;
    int os_error = 0;  ///< errno; 0: no system call failed

    /// "corrupt: /data/graph.hf/superblock: checksum of copy 1: found 0x.., expected 0x..: hint"
    [[nodiscard]] std::string message() const;
};

namespace detail {
inline constinit std::atomic<bool> texts_are_read{true};
}
/// For a process in which nobody reads them (the drop-in malloc): from here on, failures of calls that may fail often
/// have their code alone.
inline void leave_out_texts() noexcept { detail::texts_are_read.store(false, std::memory_order_relaxed); }
/// Of calls that may fail often.
template <class Make>
[[nodiscard]] failure failure_to_read(failure_code code, Make make) {
    if (detail::texts_are_read.load(std::memory_order_relaxed)) {
        return make();
    }
    failure what;
    what.code = code;
    return what;
}

/// In English: "No space left on device".
[[nodiscard]] std::string_view meaning_of(int os_error) noexcept;

/// `code` follows from errno (ENOSPC and EDQUOT: no_space, EACCES and EPERM: permission, ...).
[[nodiscard]] failure os_failure(int os_error, std::string_view operation, std::string_view path);

template <class T>
class [[nodiscard]] result {
public:
    result(T value) : content_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
    result(failure what) : content_(std::in_place_index<1>, std::move(what)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    [[nodiscard]] T& value() & noexcept {
        HF_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    [[nodiscard]] const T& value() const& noexcept {
        HF_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    [[nodiscard]] T&& value() && noexcept {
        HF_ASSERT(ok());
        return std::move(*std::get_if<0>(&content_));
    }
    [[nodiscard]] T& operator*() & noexcept { return value(); }
    [[nodiscard]] const T& operator*() const& noexcept { return value(); }
    [[nodiscard]] T* operator->() noexcept { return &value(); }
    [[nodiscard]] const T* operator->() const noexcept { return &value(); }

    [[nodiscard]] failure& error() & noexcept {
        HF_ASSERT(!ok());
        return *std::get_if<1>(&content_);
    }
    [[nodiscard]] const failure& error() const& noexcept {
        HF_ASSERT(!ok());
        return *std::get_if<1>(&content_);
    }
    [[nodiscard]] failure&& error() && noexcept {
        HF_ASSERT(!ok());
        return std::move(*std::get_if<1>(&content_));
    }

private:
    std::variant<T, failure> content_;
};

template <>
class [[nodiscard]] result<void> {
public:
    result() = default;
    result(failure what) : content_(std::move(what)) {  // NOLINT(google-explicit-constructor)
        HF_ASSERT(content_.code != failure_code::none);
    }

    [[nodiscard]] bool ok() const noexcept { return content_.code == failure_code::none; }
    explicit operator bool() const noexcept { return ok(); }
    [[nodiscard]] failure& error() & noexcept { return content_; }
    [[nodiscard]] const failure& error() const& noexcept { return content_; }
    [[nodiscard]] failure&& error() && noexcept { return std::move(content_); }

private:
    failure content_;
};

}  // namespace holdfast::base

#define HF_CONCAT_2(a, b) a##b
#define HF_CONCAT(a, b) HF_CONCAT_2(a, b)
#define HF_TRY(expression)                                       \
    do {                                                         \
        if (auto hf_try_result = (expression); !hf_try_result) { \
            return std::move(hf_try_result).error();             \
        }                                                        \
    } while (false)
#define HF_TRY_ASSIGN_2(temporary, target, expression) \
    auto temporary = (expression);                     \
    if (!temporary) {                                  \
        return std::move(temporary).error();           \
    }                                                  \
    target = std::move(temporary).value()
#define HF_TRY_ASSIGN(target, expression) HF_TRY_ASSIGN_2(HF_CONCAT(hf_try_, __LINE__), target, expression)
