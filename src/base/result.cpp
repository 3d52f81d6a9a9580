#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <cstring>

namespace holdfast::base {

std::string_view to_string(failure_code code) noexcept {
    static constexpr std::array<std::string_view, 24> names{
        "none",
        "invalid_argument",
        "not_a_heap",
        "version_unsupported",
        "corrupt",
        "missing",
        "already_exists",
        "not_found",
        "locked",
        "read_only",
        "permission",
        "no_space",
        "address_taken",
        "io",
        "type_mismatch",
        "name_exists",
        "promise_unavailable",
        "wrong_process",
        "concurrent_modification",
        "poisoned",
        "limit",
        "out_of_memory",
        "bad_address",
        "unsupported",
    };
    const auto index = static_cast<std::size_t>(code);
    return index < names.size() ? names.at(index) : std::string_view{"unknown"};
}

#if !__GLIBC_PREREQ(2, 32)
// A program for an older C library has the text where it runs with a newer one.
extern "C" [[gnu::weak]] const char* strerrordesc_np(int error) noexcept;
#endif

/// strerror() translates, under a lock whose other holders allocate: they may wait for the caller.
std::string_view meaning_of(int os_error) noexcept {
#if !__GLIBC_PREREQ(2, 32)
    if (&strerrordesc_np == nullptr) {
        return "an error that this C library does not describe without a lock";
    }
#endif
    const char* const text = strerrordesc_np(os_error);
    return text == nullptr ? "an unknown error" : text;
}

std::string failure::message() const {
    std::string text{to_string(code)};
    const auto add = [&text](std::string_view part) {
        if (!part.empty()) {
            text.append(": ").append(part);
        }
    };
    add(path);
    add(field);
    if (!found.empty()) {
        add("found " + found);
    }
    if (!expected.empty()) {
        text.append(found.empty() ? ": " : ", ").append("expected ").append(expected);
    }
    add(hint);
    if (os_error != 0) {
        if (const std::string_view meaning = meaning_of(os_error); meaning != found) {
            add(meaning);
        }
    }
    return text;
}

namespace {

failure_code code_of_errno(int os_error) noexcept {
    switch (os_error) {
        case ENOSPC:
        case EDQUOT: return failure_code::no_space;
        case EACCES:
        case EPERM: return failure_code::permission;
        case EROFS: return failure_code::read_only;
        case ENOENT:
        case ENOTDIR: return failure_code::not_found;
        case EEXIST: return failure_code::already_exists;
        case ENOMEM: return failure_code::out_of_memory;
        case EMFILE:
        case ENFILE:
        case EFBIG: return failure_code::limit;
        case EOPNOTSUPP:
        case ENOSYS: return failure_code::unsupported;
        default: return failure_code::io;
    }
}

std::string_view expected_by(failure_code code) noexcept {
    switch (code) {
        case failure_code::no_space: return "free space";
        case failure_code::permission: return "permission";
        case failure_code::read_only: return "a writable file system";
        case failure_code::not_found: return "something of this name";
        case failure_code::already_exists: return "nothing of this name";
        case failure_code::out_of_memory: return "free memory";
        case failure_code::limit: return "a system below its limits";
        case failure_code::unsupported: return "a file system and kernel that can do it";
        default: return "success";
    }
}

std::string_view hint_of_errno(int os_error) noexcept {
    switch (os_error) {
        case EMFILE: return "close files, or raise the limit of descriptors (ulimit -n)";
        case EFBIG:
            return "raise the limit of a file's size (ulimit -f), or use smaller files (segment_size of a new heap)";
        default: return {};
    }
}

}  // namespace

failure os_failure(int os_error, std::string_view operation, std::string_view path) {
    failure what;
    what.code = code_of_errno(os_error);
    what.path = path;
    what.field = operation;
    what.found = meaning_of(os_error);
    what.expected = expected_by(what.code);
    what.hint = hint_of_errno(os_error);
    what.os_error = os_error;
    return what;
}

}  // namespace holdfast::base
