// What libholdfast-malloc.so replaces of the C library and the C++ runtime.
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "base/units.hpp"
#include "malloc/drop_in.hpp"

#define HF_EXPORTED [[gnu::visibility("default")]]

namespace {

namespace drop_in = holdfast::drop_in;

/// The C++ runtime and libraries that were linked before are initialised.
[[gnu::constructor]] void open_heap() {
    try {
        static_cast<void>(drop_in::open(drop_in::settings_from_environment()));
    } catch (const std::bad_alloc&) {
        return;  // the arena serves all calls
    }
}
[[gnu::destructor]] void close_heap() { drop_in::close(); }

std::size_t size_of_page() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

/// What the standard asks of operator new without memory.
[[gnu::noinline]] void* allocate_with_handler(std::size_t bytes, std::size_t alignment) {
    for (;;) {
        if (void* const block = drop_in::allocate(bytes, alignment)) {
            return block;
        }
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            throw std::bad_alloc();
        }
        handler();
    }
}

void* allocate_or_throw(std::size_t bytes) {
    void* const block = drop_in::allocate(bytes);
    return block != nullptr ? block : allocate_with_handler(bytes, drop_in::malloc_alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const block = drop_in::allocate(bytes, alignment);
    return block != nullptr ? block : allocate_with_handler(bytes, alignment);
}

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
    try {
        return allocate_or_throw(bytes, alignment);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

}  // namespace

extern "C" {

HF_EXPORTED void* malloc(std::size_t bytes) noexcept {  // lint-allow(hand-memory): this is malloc
    return drop_in::allocate(bytes);
}
HF_EXPORTED void* calloc(std::size_t count, std::size_t bytes) noexcept {  // lint-allow(hand-memory): this is calloc
    return drop_in::allocate_zeroed(count, bytes);
}
HF_EXPORTED void* realloc(void* block, std::size_t bytes) noexcept {  // lint-allow(hand-memory): this is realloc
    return drop_in::reallocate(block, bytes);
}
HF_EXPORTED void* reallocarray(void* block, std::size_t count, std::size_t bytes) noexcept {
    const auto all = holdfast::base::checked_multiply(std::uint64_t{count}, std::uint64_t{bytes});
    if (!all) {
        errno = ENOMEM;
        return nullptr;
    }
    return drop_in::reallocate(block, *all);
}
HF_EXPORTED void free(void* block) noexcept { drop_in::free(block); }
HF_EXPORTED void cfree(void* block) noexcept { drop_in::free(block); }

HF_EXPORTED void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    // As in glibc, an alignment is rounded up to a power of two.
    constexpr std::size_t largest = std::size_t{1} << 62U;
    if (alignment > largest) {
        errno = EINVAL;
        return nullptr;
    }
    return drop_in::allocate(bytes, std::bit_ceil(alignment));
}
HF_EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    if (!std::has_single_bit(alignment)) {
        errno = EINVAL;
        return nullptr;
    }
    return drop_in::allocate(bytes, alignment);
}
HF_EXPORTED int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
    if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) {
        return EINVAL;
    }
    const int before = errno;
    void* const made = drop_in::allocate(bytes, alignment);
    errno = before;
    if (made == nullptr) {
        return ENOMEM;
    }
    *block = made;
    return 0;
}
HF_EXPORTED void* valloc(std::size_t bytes) noexcept { return drop_in::allocate(bytes, size_of_page()); }
HF_EXPORTED void* pvalloc(std::size_t bytes) noexcept {
    const std::size_t page = size_of_page();
    if (bytes > SIZE_MAX - page) {
        errno = ENOMEM;
        return nullptr;
    }
    return drop_in::allocate((bytes + page - 1) / page * page, page);
}
HF_EXPORTED std::size_t malloc_usable_size(void* block) noexcept { return drop_in::usable_size(block); }

}  // extern "C"

using std::align_val_t;
using std::nothrow_t;

HF_EXPORTED void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
HF_EXPORTED void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
HF_EXPORTED void* operator new(std::size_t bytes, const nothrow_t& /*no*/) noexcept {
    return allocate_or_null(bytes, drop_in::malloc_alignment);
}
HF_EXPORTED void* operator new[](std::size_t bytes, const nothrow_t& /*no*/) noexcept {
    return allocate_or_null(bytes, drop_in::malloc_alignment);
}
HF_EXPORTED void* operator new(std::size_t bytes, align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
HF_EXPORTED void* operator new[](std::size_t bytes, align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
HF_EXPORTED void* operator new(std::size_t bytes, align_val_t alignment, const nothrow_t& /*no*/) noexcept {
    return allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
HF_EXPORTED void* operator new[](std::size_t bytes, align_val_t alignment, const nothrow_t& /*no*/) noexcept {
    return allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
HF_EXPORTED void operator delete(void* block) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete[](void* block) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete(void* block, const nothrow_t& /*no*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete[](void* block, const nothrow_t& /*no*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete(void* block, std::size_t /*bytes*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete[](void* block, std::size_t /*bytes*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete(void* block, align_val_t /*alignment*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete[](void* block, align_val_t /*alignment*/) noexcept { drop_in::free(block); }
HF_EXPORTED void operator delete(void* block, std::size_t /*bytes*/, align_val_t /*alignment*/) noexcept {
    drop_in::free(block);
}
HF_EXPORTED void operator delete[](void* block, std::size_t /*bytes*/, align_val_t /*alignment*/) noexcept {
    drop_in::free(block);
}
HF_EXPORTED void operator delete(void* block, align_val_t /*alignment*/, const nothrow_t& /*no*/) noexcept {
    drop_in::free(block);
}
HF_EXPORTED void operator delete[](void* block, align_val_t /*alignment*/, const nothrow_t& /*no*/) noexcept {
    drop_in::free(block);
}
