// What the C face's functions share: handles, and the translation of exceptions to codes.
#pragma once

#include <cstring>
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
/// Throws error(invalid_argument) where the size of a caller's struct cannot be one.
void throw_unless_sized(std::size_t size, std::string_view name, std::string_view initialiser);
/// The same where a longer struct than ours has something in what is unknown here.
void throw_unless_known(const void* given, std::size_t size, std::size_t known, std::string_view name,
                        std::string_view initialiser);
template <class T>
T& required(T* pointer, std::string_view argument) {
    if (pointer == nullptr) {
        throw_invalid(argument, "NULL", "not NULL");
    }
    return *pointer;
}
/// The struct of a caller, whose header may be older than this library's (then the rest is as in `defaults`) or newer
/// (then what is unknown here must be 0). The first field is its size.
template <class Struct>
Struct known_part(const Struct& given, const Struct& defaults, const char* name, const char* initialiser) {
    throw_unless_known(&given, given.size, sizeof(Struct), name, initialiser);
    Struct known = defaults;
    std::memcpy(&known, &given, given.size < sizeof known ? given.size : sizeof known);
    return known;
}
/// Writes numbers to a struct of the caller, as far as both sides know them. The size stays.
template <class Struct>
void fill_known_part(Struct* out, Struct known, const char* name, const char* initialiser) {
    Struct& given = required(out, name);
    throw_unless_sized(given.size, name, initialiser);
    known.size = given.size;
    std::memcpy(&given, &known, given.size < sizeof known ? given.size : sizeof known);
}

/// Pointers of C are those of the C++ face.
inline const ptr<void>& word_of(const hf_ptr* pointer) noexcept { return *reinterpret_cast<const ptr<void>*>(pointer); }
inline ptr<void>& word_of(hf_ptr* pointer) noexcept { return *reinterpret_cast<ptr<void>*>(pointer); }

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
