#pragma once

#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include <holdfast/detail/c_interface.hpp>
#include <holdfast/error.hpp>
#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>

#include "c_api/heap_users.hpp"

struct hf_heap {
    explicit hf_heap(holdfast::manager&& opened) : manager(std::move(opened)) {}

    holdfast::manager manager;
    // What leads here:
    holdfast::c_api::heap_users transactions;
    std::atomic<std::size_t> indexes{0};
    hf_heap* next_kept = nullptr;  ///< of those that were discarded too early

    [[nodiscard]] std::uint64_t users() noexcept { return transactions.count() + indexes; }
};

namespace holdfast::c_api {

/// Throws error(invalid_argument) where a caller's struct is too small.
void throw_unless_sized(std::size_t size, std::string_view name, std::string_view initialiser);
/// Throws error(invalid_argument) as throw_unless_sized(), and where the struct is longer than this library's (`known`
/// bytes) and a byte behind that is not 0.
void throw_unless_known(const void* given, std::size_t size, std::size_t known, std::string_view name,
                        std::string_view initialiser);
/// The caller's struct in this library's version. Fields that an older header lacks are those of `defaults`; fields
/// that only a newer header has must be 0.
template <class Struct>
Struct known_part(const Struct& given, const Struct& defaults, const char* name, const char* initialiser) {
    throw_unless_known(&given, given.size, sizeof(Struct), name, initialiser);
    Struct known = defaults;
    std::memcpy(&known, &given, given.size < sizeof known ? given.size : sizeof known);
    return known;
}
/// Only the fields that both the caller and this library know, without the size.
template <class Struct>
void fill_known_part(Struct* out, Struct known, const char* name, const char* initialiser) {
    Struct& given = required(out, name);
    throw_unless_sized(given.size, name, initialiser);
    known.size = given.size;
    std::memcpy(&given, &known, given.size < sizeof known ? given.size : sizeof known);
}

/// NULL: the defaults.
[[nodiscard]] allocation_traits traits_of(const hf_traits* given);

/// hf_ptr and ptr<void> have the same layout.
inline const ptr<void>& word_of(const hf_ptr* pointer) noexcept { return *reinterpret_cast<const ptr<void>*>(pointer); }
inline ptr<void>& word_of(hf_ptr* pointer) noexcept { return *reinterpret_cast<ptr<void>*>(pointer); }

/// Empty where the options name no function.
[[nodiscard]] std::function<void(offline_heap&)> calls_before_trace(const hf_options& options);

/// Throws error(invalid_argument) for NULL.
template <class Heap>
auto& manager_of(Heap* heap) {
    return required(heap, "heap").manager;
}

}  // namespace holdfast::c_api
