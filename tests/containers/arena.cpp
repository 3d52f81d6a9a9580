#include "arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <stdexcept>

#include <gtest/gtest.h>
#include <holdfast/error.hpp>

namespace holdfast::test {

namespace {

std::map<std::uint64_t, arena*>& arenas() {
    static std::map<std::uint64_t, arena*> all;
    return all;
}

std::byte* map_file(int descriptor) {
    void* const mapped = ::mmap(nullptr, arena::size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) {
        throw std::runtime_error("mmap failed");
    }
    return static_cast<std::byte*>(mapped);
}

}  // namespace

arena::arena() : descriptor_(::memfd_create("arena", MFD_CLOEXEC)), key_(1) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
        throw std::runtime_error("memfd_create failed");
    }
    base_ = map_file(descriptor_);
    while (arenas().contains(key_)) {
        ++key_;
    }
    arenas()[key_] = this;
}

arena::~arena() {
    EXPECT_EQ(live_.size(), 0U) << "blocks leaked";
    arenas().erase(key_);
    ::munmap(base_, size);
    ::close(descriptor_);
}

void arena::relocate() {
    std::byte* const old = base_;
    base_ = map_file(descriptor_);  // while the old one stands, so it is another address
    ::munmap(old, size);
    // What stood there stays empty for as long as the arena's file is mapped once: a stale pointer faults or meets
    // zeros.
    void* const guard =
        ::mmap(old, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (guard == MAP_FAILED) {
        throw std::runtime_error("mmap of the guard failed");
    }
}

void* arena::allocate(std::size_t bytes, std::size_t alignment) {
    for (auto candidate = free_.lower_bound(bytes); candidate != free_.end(); ++candidate) {
        if (candidate->second % alignment == 0) {
            const std::size_t offset = candidate->second;
            live_[offset] = candidate->first;
            free_.erase(candidate);
            return base_ + offset;
        }
    }
    const std::size_t offset = (used_ + alignment - 1) / alignment * alignment;
    if (offset + bytes > size) {
        throw bad_alloc("the arena is full");
    }
    used_ = offset + bytes;
    live_[offset] = bytes;
    return base_ + offset;
}

void arena::deallocate(void* address) {
    const auto found = contains(address) ? live_.find(offset_of(address)) : live_.end();
    if (found == live_.end()) {
        ADD_FAILURE() << "freed " << address << ", which is no block of the arena";
        return;
    }
    free_.emplace(found->second, found->first);
    live_.erase(found);
}

bool arena::contains(const void* address) const noexcept {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= base_ && byte < base_ + size;
}

}  // namespace holdfast::test

namespace holdfast::detail {

constinit std::atomic<std::uint32_t> open_readers{0};  // arenas are all to be written
void refuse_reader(std::uint64_t /*heap_key*/, const void* /*asker*/) {}
constinit std::atomic<std::uint32_t> open_heaps{0};  // elements of several arenas: nested_containers_test
bool holds_allocator_of_another_heap(std::uint64_t /*key*/, const void* /*object*/, std::size_t /*bytes*/) noexcept {
    return false;
}
void throw_element_of_another_heap(std::uint64_t /*heap_key*/, const char* type) { throw std::invalid_argument(type); }
void throw_nodes_of_another_heap(std::uint64_t /*heap_key*/, const char* type) { throw std::invalid_argument(type); }

void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) {
    return test::arenas().at(heap_key)->allocate(bytes, alignment);
}

void deallocate(std::uint64_t heap_key, void* address) noexcept {
    if (address != nullptr) {
        test::arenas().at(heap_key)->deallocate(address);
    }
}

void throw_bad_array_length() { throw std::bad_array_new_length(); }

}  // namespace holdfast::detail
