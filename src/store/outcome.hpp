// What persist/ answers, as LMDB's codes.
#pragma once

#include <algorithm>
#include <new>
#include <string>

#include "base/result.hpp"
#include "store/status.hpp"

namespace holdfast::store_engine {

[[nodiscard]] inline status status_of(const base::failure& what) noexcept {
    // It is no file, or became shorter.
    return what.code == base::failure_code::corrupt ? status::invalid_file : from_errno(what.os_error);
}

/// no_memory also where there is none for a failure's text.
template <class Call>
[[nodiscard]] status outcome_of(Call call) noexcept {
    try {
        const auto answer = call();
        return answer ? status::ok : status_of(answer.error());
    } catch (const std::bad_alloc&) {
        return status::no_memory;
    }
}

[[nodiscard]] inline std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

}  // namespace holdfast::store_engine
