// holdfast::allocator<T>: an allocator over an open heap, for containers that store fancy pointers.
//
// It holds the heap's key, a number that is the same in all processes and in copies of the heap: it is trivially
// copyable and stays right in a heap that is mapped elsewhere. A cache of the thread leads from the key to the open
// heap.
//
// Thread safety and durability: as manager::allocate() and manager::deallocate(). In durability `atomic` a crash before
// the container has stored a block's address leaks the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <boost/container/scoped_allocator.hpp>
#include <boost/move/traits.hpp>
#include <holdfast/detail/refused.hpp>
#include <holdfast/detail/runtime.hpp>
#include <holdfast/detail/uses_allocator.hpp>
#include <holdfast/persistable.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast {

namespace detail {
class manager_core;
}

/// A handle to an open heap, for Boost.Interprocess programs. Valid as long as its manager, and thread-safe like it.
class segment_manager {
public:
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using void_pointer = ptr<void>;

    explicit segment_manager(detail::manager_core& heap) noexcept;
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }

    /// As in manager.
    [[nodiscard]] void* allocate(size_type bytes) const;
    [[nodiscard]] void* allocate(size_type bytes, const std::nothrow_t&) const noexcept;
    [[nodiscard]] void* allocate_aligned(size_type bytes, size_type alignment) const;
    void deallocate(void* address) const;
    /// Include <holdfast/manager.hpp>.
    template <class T>
    bool destroy_ptr(const T* object) const;
    [[nodiscard]] size_type get_size() const;
    [[nodiscard]] size_type get_free_memory() const;

private:
    std::uint64_t key_;
    detail::manager_core* heap_;
};

/// Two are equal iff they serve the same heap. They do not propagate: a move or a swap between two heaps moves the
/// elements one by one, as pointers into another heap would not survive remapping.
template <class T, class SegmentManager>
class allocator {
public:
    using value_type = T;
    using pointer = ptr<T>;
    using const_pointer = ptr<const T>;
    using void_pointer = ptr<void>;
    using const_void_pointer = ptr<const void>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;
    using is_always_equal = std::false_type;
    template <class U>
    struct rebind {
        using other = allocator<U, SegmentManager>;
    };
    static_assert(detail::refuse_raw_nodes<T>::passed);

    /// A container without an allocator fails to compile with this sentence, not with a list of constructors.
    template <class Needed = T>
    allocator() noexcept {
        static_assert(sizeof(Needed) == 0,
                      "holdfast: a container needs the allocator of its heap: pass heap.get_allocator<T>() as its last "
                      "argument, or make it with heap.construct<container>(name)()");
    }
    allocator(const SegmentManager* heap) noexcept : key_(heap->key()) {}  // NOLINT(google-explicit-constructor)
    explicit allocator(std::uint64_t heap_key) noexcept : key_(heap_key) {}
    template <class U>
    allocator(const allocator<U, SegmentManager>& other) noexcept  // NOLINT(google-explicit-constructor)
        : key_(other.key()) {}

    /// For n objects of a persistable T. Throws holdfast::bad_alloc; std::bad_array_new_length; error(not_found) where
    /// no heap with the key is open for writing, or this allocator lies in a heap that is open read-only.
    [[nodiscard]] pointer allocate(size_type n) {
        static_assert(detail::require_persistable<T>());
        if (n > max_size()) {
            detail::throw_bad_array_length();
        }
        expect_writable();
        return pointer{static_cast<T*>(detail::allocate(key_, n * sizeof(T), alignof(T)))};
    }
    /// A target that is no allocated block goes to the error handler (set_error_handler()) and changes nothing.
    void deallocate(const pointer& target, size_type /*n*/) noexcept {
        detail::deallocate(key_, erase_type(target.get()));
    }
    [[nodiscard]] size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(T);
    }
    /// Elements that take an allocator, and halves of pairs that do, get this one: a map<string, vector<int>> lies in
    /// one heap, with all that was moved into it from another. A struct takes one if it has an `allocator_type` and
    /// constructors that take an allocator last. Any other struct with a container of another open heap in it is
    /// refused with error(invalid_argument), and unchanged.
    template <class U, class... Args>
        requires(detail::reaches_allocator<U, allocator>::value || detail::may_hold_allocator<U>)
    void construct(U* target, Args&&... args) {
        detail::construct_with(*this, target, std::forward<Args>(args)...);
    }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    /// For containers that allocate through a copy of their allocator. Throws error(not_found) where this one lies in a
    /// heap that is open read-only.
    void expect_writable() const { detail::expect_writable(key_, this); }

    [[nodiscard]] friend bool operator==(const allocator& a, const allocator& b) noexcept { return a.key_ == b.key_; }

private:
    [[nodiscard]] static void* erase_type(T* target) noexcept {
        return const_cast<void*>(static_cast<const volatile void*>(target));
    }

    std::uint64_t key_;
};

static_assert(std::is_trivially_copyable_v<allocator<int>>);

/// Gives its blocks a type number (allocation_traits::type), so precise collection reads elements by their registered
/// layout:
///
///     heap.register_type<edge>(3);
///     auto* edges = heap.construct<holdfast::vector<edge, holdfast::typed_allocator<edge, 3>>>("edges")(
///         heap.get_allocator<edge>());
///
/// In containers of nodes (list, map) the layout or visitor describes the node. A vector's reserve behind its last
/// element is read, too: an old pointer there may keep a block that a later collection frees.
template <class T, std::uint32_t Type>
class typed_allocator : public allocator<T> {
public:
    using typename allocator<T>::pointer;
    using typename allocator<T>::size_type;
    template <class U>
    struct rebind {
        using other = typed_allocator<U, Type>;
    };
    static constexpr std::uint32_t type = Type;
    static_assert(Type != 0 && Type < (std::uint32_t{1} << 20U), "a type number is from 1 to 2^20 - 1");

    using allocator<T>::allocator;
    template <class U>
    typed_allocator(const holdfast::allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
        : allocator<T>(other) {}

    [[nodiscard]] pointer allocate(size_type n) {
        static_assert(detail::require_persistable<T>());
        if (n > this->max_size()) {
            detail::throw_bad_array_length();
        }
        this->expect_writable();
        return pointer{static_cast<T*>(detail::allocate(this->key(), n * sizeof(T), alignof(T), Type))};
    }
};

static_assert(std::is_trivially_copyable_v<typed_allocator<int, 1>>);
static_assert(sizeof(typed_allocator<int, 1>) == sizeof(allocator<int>));

/// Without a heap it uses operator new: one container type works in heaps and on the stack. Source: Metall.
template <class T>
class fallback_allocator {
public:
    using value_type = T;
    using pointer = ptr<T>;
    using const_pointer = ptr<const T>;
    using void_pointer = ptr<void>;
    using const_void_pointer = ptr<const void>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;
    using is_always_equal = std::false_type;
    template <class U>
    struct rebind {
        using other = fallback_allocator<U>;
    };
    static_assert(detail::refuse_raw_nodes<T>::passed);

    fallback_allocator() noexcept = default;
    template <class U>
    fallback_allocator(const allocator<U>& heap) noexcept : key_(heap.key()) {}  // NOLINT(google-explicit-constructor)
    template <class U>
    fallback_allocator(const fallback_allocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
        : key_(other.key()) {}

    [[nodiscard]] pointer allocate(size_type n) {
        if (key_ == 0) {
            return pointer{std::allocator<T>{}.allocate(n)};
        }
        expect_writable();
        return allocator<T>{key_}.allocate(n);
    }
    void deallocate(const pointer& target, size_type n) noexcept {
        if (key_ == 0) {
            std::allocator<T>{}.deallocate(target.get(), n);
        } else {
            allocator<T>{key_}.deallocate(target, n);
        }
    }
    template <class U, class... Args>
        requires(detail::reaches_allocator<U, fallback_allocator>::value || detail::may_hold_allocator<U>)
    void construct(U* target, Args&&... args) {
        detail::construct_with(*this, target, std::forward<Args>(args)...);
    }
    [[nodiscard]] size_type max_size() const noexcept {
        return static_cast<size_type>(std::numeric_limits<difference_type>::max()) / sizeof(T);
    }
    /// 0 where there is no heap.
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    void expect_writable() const {
        if (key_ != 0) {
            detail::expect_writable(key_, this);
        }
    }

    [[nodiscard]] friend bool operator==(const fallback_allocator& a, const fallback_allocator& b) noexcept {
        return a.key_ == b.key_;
    }

private:
    std::uint64_t key_ = 0;
};

/// Passes the allocator on to the elements.
template <class Allocator>
using scoped_allocator_adaptor = boost::container::scoped_allocator_adaptor<Allocator>;
template <class T>
using scoped_allocator = scoped_allocator_adaptor<allocator<T>>;

}  // namespace holdfast

/// Makes Boost.Container destroy a moved-from string, which it skips where pointer and allocator have trivial
/// destructors; but its move assignment swaps, so the old block would leak.
template <class T>
struct boost::has_trivial_destructor_after_move<holdfast::ptr<T>> {
    static const bool value = false;
};
