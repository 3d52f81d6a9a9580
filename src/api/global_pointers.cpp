// Pointers between heaps, and the check of pointers within one.
#include <cstring>

#include <fmt/format.h>
#include <holdfast/global_ptr.hpp>
#include <holdfast/ptr.hpp>

#include "api/manager_core.hpp"
#include "heap/registry.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::detail {

namespace {

using base::failure;
using base::failure_code;

std::string beginning_of_uuid(std::uint64_t name) {
    std::uint8_t uuid[16] = {};
    std::memcpy(uuid, &name, sizeof name);
    return segment::uuid_text(uuid).substr(0, 18);
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_no_target(const global_words& words) {
    const std::string uuid = beginning_of_uuid(words.heap);
    const heap::mapped_heap found = heap::find_mapped(words.heap, words.offset);
    if (found.name == 0) {
        throw_failure(failure{failure_code::not_found,
                              {},
                              "heap of a global_ptr",
                              fmt::format("uuid {}-...", uuid),
                              "a heap open in this process",
                              "open the heap with that uuid, which `holdfast info` prints, or use find()",
                              0});
    }
    throw_failure(failure{failure_code::bad_address,
                          {},
                          "target of a global_ptr",
                          fmt::format("offset {:#x} in the heap with uuid {}-...", words.offset, uuid),
                          fmt::format("less than {:#x}", found.bytes),
                          "the heap is shorter than it was, or an older version of it is open",
                          0});
}

failure out_of(std::string field, const volatile void* target, std::string expected, std::string hint) {
    return failure{failure_code::bad_address,
                   {},
                   std::move(field),
                   fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(target)),
                   std::move(expected),
                   std::move(hint),
                   0};
}

}  // namespace

global_words global_words_of(const volatile void* target) {
    if (target == nullptr) {
        return {};
    }
    const heap::mapped_heap found = heap::find_mapped_at(const_cast<const void*>(target));
    if (found.name == 0) {
        throw_failure(out_of("target of a global_ptr", target, "an address in a heap that is open in this process",
                             "a global_ptr leads to memory of heaps alone"));
    }
    return {found.name, reinterpret_cast<std::uintptr_t>(target) - found.base};
}

void* target_of_global(const global_words& words) {
    void* const target = find_target_of_global(words);
    if (target == nullptr) [[unlikely]] {
        throw_no_target(words);
    }
    return target;
}

void* find_target_of_global(const global_words& words) noexcept {
    const heap::mapped_heap found = heap::find_mapped(words.heap, words.offset);
    return words.offset < found.bytes ? reinterpret_cast<void*>(found.base + words.offset)  // NOLINT(*-int-to-ptr)
                                      : nullptr;
}

void refuse_foreign_target(const void* pointer, std::uintptr_t target) {
    if (target == 0) {
        return;
    }
    const heap::mapped_heap own = heap::find_mapped_at(pointer);
    // One behind the last byte is no foreign address: ends of arrays are there.
    if (own.name != 0 && !own.contains(target) && target - own.base != own.bytes) [[unlikely]] {
        throw_failure(
            out_of("target of a ptr", reinterpret_cast<const void*>(target),  // NOLINT(*-int-to-ptr)
                   fmt::format("an address in the heap of the ptr, {:#x} to {:#x}", own.base, own.base + own.bytes),
                   "after the next open it would lead elsewhere: use a global_ptr for another heap"));
    }
}

}  // namespace holdfast::detail
