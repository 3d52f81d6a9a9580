// The exceptions of the C++ interface and the codes that the C interface shares with them.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// As hf_code in holdfast.h, which explains each. The values never change.
enum class errc : std::uint32_t {
    none = 0,
    invalid_argument = 1,
    not_a_heap = 2,
    version_unsupported = 3,
    corrupt = 4,
    missing = 5,
    already_exists = 6,
    not_found = 7,
    locked = 8,
    read_only = 9,
    permission = 10,
    no_space = 11,
    address_taken = 12,
    io = 13,
    type_mismatch = 14,
    name_exists = 15,
    promise_unavailable = 16,
    wrong_process = 17,
    concurrent_modification = 18,
    poisoned = 19,
    limit = 20,
    out_of_memory = 21,
    bad_address = 22,
    unsupported = 23,
};

/// The category "holdfast"; a code's message is its name.
[[nodiscard]] const std::error_category& error_category() noexcept;
[[nodiscard]] std::error_code make_error_code(errc code) noexcept;

namespace detail {
struct error_fields {
    std::string path;
    std::string field;
    std::string found;
    std::string expected;
    std::string hint;
    int os_error = 0;
};
}  // namespace detail

/// Every failure but bad_alloc. `what()` names the path, the field, what was found, what was expected, and what to do;
/// each part may be empty. Copying does not throw.
class error : public std::system_error {
public:
    error(errc code, const std::string& message, detail::error_fields fields);

    [[nodiscard]] errc reason() const noexcept;
    [[nodiscard]] const std::string& path() const noexcept { return fields_->path; }
    [[nodiscard]] const std::string& field() const noexcept { return fields_->field; }
    [[nodiscard]] const std::string& found() const noexcept { return fields_->found; }
    [[nodiscard]] const std::string& expected() const noexcept { return fields_->expected; }
    [[nodiscard]] const std::string& hint() const noexcept { return fields_->hint; }
    /// errno of the system call that failed, 0 where none did.
    [[nodiscard]] int os_error() const noexcept { return fields_->os_error; }
    const char* what() const noexcept override { return message_->c_str(); }

private:
    std::shared_ptr<const detail::error_fields> fields_;
    std::shared_ptr<const std::string> message_;
};

/// The disk, the quota, the reservation or the heap's maximum size has no space, or the process no memory, as `what()`
/// says. The heap stays usable. An allocation that fails for another reason throws `error`.
class bad_alloc : public std::bad_alloc {
public:
    explicit bad_alloc(const std::string& message, errc reason = errc::no_space)
        : reason_(reason), message_(std::make_shared<const std::string>(message)) {}
    /// no_space; limit (of the process or of the system); out_of_memory.
    [[nodiscard]] errc reason() const noexcept { return reason_; }
    const char* what() const noexcept override { return message_->c_str(); }

private:
    errc reason_;
    std::shared_ptr<const std::string> message_;
};

}  // namespace holdfast

template <>
struct std::is_error_code_enum<holdfast::errc> : std::true_type {};
