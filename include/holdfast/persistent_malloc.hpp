// holdfast::persistent_malloc: a heap that is mapped at the same address at every open, so raw pointers in it stay
// valid and ordinary containers of the standard library live in it. Source: Makalu.
//
//     holdfast::persistent_malloc heap("words.hf");
//     using word_map = std::map<int, int, std::less<>, holdfast::raw_allocator<std::pair<const int, int>>>;
//     auto* counts = heap.find_or_construct<word_map>("counts", heap.get_allocator<word_map::value_type>());
//     ++(*counts)[42];
//     heap.manager().commit();
//
// If the heap's range of addresses is occupied, the open fails with errc::address_taken. A new heap takes the first
// free one of 16 addresses that are 2 TiB apart, else any, or open_options::base_address. The program must not store
// what does not survive a process: virtual tables, functions, pointers to other memory. The compiler does not check
// that here.
//
// Thread safety and durability: as manager.hpp. Tracing (durability `collect`, manager::collect()) also follows raw
// pointers in such a heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/detail/runtime.hpp>
#include <holdfast/detail/uses_allocator.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/persistable.hpp>

namespace holdfast {

/// Has pointers `T*` and the heap's key; two are equal iff they serve the same heap.
template <class T>
class raw_allocator {
public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;
    using is_always_equal = std::false_type;

    explicit raw_allocator(std::uint64_t heap_key) noexcept : key_(heap_key) {}
    template <class U>
    raw_allocator(const raw_allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
        : key_(other.key()) {}

    /// Throws holdfast::bad_alloc, error(not_found) where the heap is not open for writing, std::bad_array_new_length.
    [[nodiscard]] T* allocate(std::size_t n) { return allocate_typed(n, 0); }
    void deallocate(T* target, std::size_t /*n*/) noexcept {
        detail::deallocate(key_, const_cast<void*>(static_cast<const volatile void*>(target)));
    }
    /// Throws error(invalid_argument) where an allocator in the element is of another open heap;
    /// std::scoped_allocator_adaptor passes this one on.
    template <class U, class... Args>
        requires detail::may_hold_allocator<U>
    void construct(U* target, Args&&... args) {
        detail::construct_as_passed(key_, target, std::forward<Args>(args)...);
    }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }

    [[nodiscard]] friend bool operator==(const raw_allocator& a, const raw_allocator& b) noexcept {
        return a.key_ == b.key_;
    }

protected:
    [[nodiscard]] T* allocate_typed(std::size_t n, std::uint32_t type) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer
        if (n > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T)) {
            detail::throw_bad_array_length();
        }
        detail::expect_writable(key_, this);
        // NOLINTNEXTLINE(bugprone-sizeof-expression)
        return static_cast<T*>(detail::allocate(key_, n * sizeof(T), alignof(T), type));
    }

private:
    std::uint64_t key_;
};

/// As typed_allocator.
template <class T, std::uint32_t Type>
class typed_raw_allocator : public raw_allocator<T> {
public:
    template <class U>
    struct rebind {
        using other = typed_raw_allocator<U, Type>;
    };
    static constexpr std::uint32_t type = Type;
    static_assert(Type != 0 && Type < (std::uint32_t{1} << 20U), "a type number is from 1 to 2^20 - 1");

    using raw_allocator<T>::raw_allocator;
    template <class U>
    typed_raw_allocator(const raw_allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
        : raw_allocator<T>(other) {}

    [[nodiscard]] T* allocate(std::size_t n) { return this->allocate_typed(n, Type); }
};

namespace detail {

/// May hold raw pointers, as its heap is always mapped at the same address.
template <class T>
struct at_one_address {
    template <class... Args>
    explicit at_one_address(std::in_place_t /*tag*/, Args&&... args) : value(std::forward<Args>(args)...) {}
    T value;
};

/// Throws error(invalid_argument) unless the heap was created with same_address.
void require_same_address(const manager& heap);
/// At an address that the kernel and the loader do not choose.
[[nodiscard]] manager open_at_one_address(const std::string& path, const open_options& options);

}  // namespace detail

template <class T>
struct persistable<detail::at_one_address<T>> : std::true_type {};

class persistent_malloc {
public:
    /// Opens or creates. Throws error as an open does; address_taken; invalid_argument where the heap was created
    /// without `same_address`.
    explicit persistent_malloc(const std::string& path, const open_options& options = {})
        : heap_(detail::open_at_one_address(path, options)) {}

    [[nodiscard]] holdfast::manager& manager() noexcept { return heap_; }
    [[nodiscard]] const holdfast::manager& manager() const noexcept { return heap_; }

    template <class T>
    [[nodiscard]] raw_allocator<T> get_allocator() const noexcept {
        return raw_allocator<T>(heap_.get_segment_manager()->key());
    }

    /// Constructs it where there is none. Throws as manager::find_or_construct().
    template <class T, class... Args>
    T* find_or_construct(const char* name, Args&&... args) {
        return &heap_
                    .template find_or_construct<detail::at_one_address<T>>(name)(std::in_place,
                                                                                 std::forward<Args>(args)...)
                    ->value;
    }
    template <class T>
    [[nodiscard]] T* find(const char* name) const {
        detail::at_one_address<T>* const found = heap_.template find<detail::at_one_address<T>>(name).first;
        return found == nullptr ? nullptr : &found->value;
    }
    template <class T>
    bool destroy(const char* name) {
        return heap_.template destroy<detail::at_one_address<T>>(name);
    }

    /// Blocks of at least 16 bytes, aligned to 16. Throw as manager's.
    [[nodiscard]] void* allocate(std::size_t bytes) { return heap_.allocate(bytes < 16 ? 16 : bytes); }
    void deallocate(void* block) { heap_.deallocate(block); }

private:
    holdfast::manager heap_;
};

}  // namespace holdfast
