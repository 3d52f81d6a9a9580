// Shared with the C interfaces of the layers above.
#pragma once

#include <string_view>
#include <utility>

#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>

namespace holdfast::c_api {

/// For hf_errorcode() and hf_errormsg(), which cut the sentence. Returns the code.
hf_code remember(hf_code code, std::string_view sentence) noexcept;
/// Of the exception in flight.
hf_code remember_exception() noexcept;
/// Throws error(invalid_argument).
[[noreturn]] void throw_invalid(std::string_view argument, std::string_view found, std::string_view expected);

template <class Function>
hf_code guarded(Function&& f) noexcept {
    try {
        std::forward<Function>(f)();
        return HF_OK;
    } catch (...) {
        return remember_exception();
    }
}
template <class T>
T& required(T* pointer, std::string_view argument) {
    if (pointer == nullptr) {
        throw_invalid(argument, "NULL", "not NULL");
    }
    return *pointer;
}

/// While it lives, hf_close() refuses the heap. Throws error(invalid_argument) for NULL.
class heap_user {
public:
    explicit heap_user(hf_heap* heap);
    heap_user(const heap_user&) = delete;
    heap_user& operator=(const heap_user&) = delete;
    ~heap_user();
    [[nodiscard]] manager& heap() const noexcept;

private:
    hf_heap& heap_;
};

/// Throws error(invalid_argument) for NULL.
[[nodiscard]] manager& heap_of(hf_heap* heap);

}  // namespace holdfast::c_api
