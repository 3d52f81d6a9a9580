// What the C face's functions share: handles, and the translation of exceptions to codes.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include <holdfast/error.hpp>
#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>

struct hf_heap {
    holdfast::manager manager;
};

namespace holdfast {

namespace detail {
/// The way from a manager to what it holds, for functions whose types have their names as strings.
struct manager_door {
    [[nodiscard]] static manager_core& core(const manager& of) { return of.core(); }
};
}  // namespace detail

namespace c_face {

/// Keeps code and sentence (cut where it is very long) for hf_errormsg(); returns the code.
hf_code remember(hf_code code, std::string_view sentence) noexcept;

/// Throws error(invalid_argument) that names the argument.
[[noreturn]] void throw_invalid(std::string_view argument, std::string_view found, std::string_view expected);
template <class T>
T& required(T* pointer, std::string_view argument) {
    if (pointer == nullptr) {
        throw_invalid(argument, "NULL", "not NULL");
    }
    return *pointer;
}
/// The manager of a handle.
template <class Heap>
auto& manager_of(Heap* heap) {
    return required(heap, "heap").manager;
}

/// Remembers the exception in flight.
hf_code remember_exception() noexcept;

/// Runs f; whatever it throws becomes a code.
template <class Function>
hf_code guarded(Function&& f) noexcept {
    try {
        f();
        return HF_OK;
    } catch (...) {
        return remember_exception();
    }
}

}  // namespace c_face
}  // namespace holdfast
