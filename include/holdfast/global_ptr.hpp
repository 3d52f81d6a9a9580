// holdfast::global_ptr<T>: a pointer that may lead into another heap than the one that it lies in.
//
//     // in a heap of orders, to a heap of customers
//     struct order { holdfast::global_ptr<customer> by; };
//     made->by = found_in_the_other_heap;
//     made->by->name;   // throws error(not_found) where the heap of customers is not open in this process
//
// Layout: two words of 8 bytes, the first 8 bytes of the uuid of the target's heap and the target's offset in it.
// Zeroed memory is null. Both heaps may be mapped anywhere. The pointer means the same wherever it lies: unlike a ptr
// it may be copied by memcpy, and lie in ordinary memory, a file or a message.
//
// A copy of a heap (copy(), snapshot()) has a uuid of its own, so pointers go on to lead to the heap that was copied,
// those in its own copy as well; a heap whose files were moved, or copied by other programs, keeps its uuid. Where
// heaps of one uuid are open, a pointer leads to the one that is open for writing, else to the one that was opened
// first.
//
// Nothing keeps the target: its heap may free it, and tracing (collect, `holdfast leaks`) does not follow a global_ptr.
// Give the target a root or an object's name in its own heap.
//
// Thread safety: as two words. Durability: as any store of the program. A crash, or a store of another thread, between
// the two words leaves a mixture: in durability `atomic` store them in a transaction (open()).
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

namespace detail {

struct global_words {
    std::uint64_t heap = 0;    ///< the first 8 bytes of its uuid; 0: null
    std::uint64_t offset = 0;  ///< 0 where null
    [[nodiscard]] friend bool operator==(const global_words&, const global_words&) noexcept = default;
    [[nodiscard]] friend auto operator<=>(const global_words&, const global_words&) noexcept = default;
};
/// Null gives null. Throws error(bad_address) for an address in no open heap.
[[nodiscard]] global_words global_words_of(const volatile void* target);
/// `words` are not null. Throws error(not_found) where no heap of that uuid is open in this process, and
/// error(bad_address) where the heap ends before the offset.
[[nodiscard]] void* target_of_global(const global_words& words);
/// Null instead of an exception.
[[nodiscard]] void* find_target_of_global(const global_words& words) noexcept;

}  // namespace detail

/// T may be void, const, or incomplete. Trivially copyable.
template <class T>
class global_ptr {
public:
    using element_type = T;

    constexpr global_ptr() noexcept = default;
    constexpr global_ptr(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as a raw pointer
    /// The heap of the target must be open in this process. Throws error(bad_address).
    explicit global_ptr(T* target) : words_(detail::global_words_of(target)) {}
    /// To const, to void. For a base class use global_ptr<base>(derived.get()).
    template <class U>
        requires(std::is_convertible_v<U*, T*> && !std::is_same_v<U, T> &&
                 (std::is_void_v<T> || std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>>))
    global_ptr(const global_ptr<U>& other) noexcept  // NOLINT(google-explicit-constructor): as a raw pointer
        : words_(other.words()) {}

    /// As the constructor; after an exception the pointer is as it was.
    global_ptr& operator=(T* target) {
        words_ = detail::global_words_of(target);
        return *this;
    }
    global_ptr& operator=(std::nullptr_t) noexcept {
        words_ = {};
        return *this;
    }

    /// The target in this process. Throws error(not_found), which names the uuid, where its heap is not open here, and
    /// error(bad_address) where that heap is shorter than it was. The address is valid until the heap is closed.
    [[nodiscard]] T* get() const { return is_null() ? nullptr : static_cast<T*>(detail::target_of_global(words_)); }
    /// Null where get() would throw.
    [[nodiscard]] T* find() const noexcept {
        return is_null() ? nullptr : static_cast<T*>(detail::find_target_of_global(words_));
    }
    [[nodiscard]] T* operator->() const { return get(); }
    template <class U = T>
        requires(!std::is_void_v<U>)
    [[nodiscard]] U& operator*() const {
        return *get();
    }
    /// Of the pointer alone: the heap may be closed.
    explicit operator bool() const noexcept { return !is_null(); }
    [[nodiscard]] const detail::global_words& words() const noexcept { return words_; }

    /// In no order of addresses, but one that stays.
    [[nodiscard]] friend bool operator==(const global_ptr&, const global_ptr&) noexcept = default;
    [[nodiscard]] friend auto operator<=>(const global_ptr&, const global_ptr&) noexcept = default;
    [[nodiscard]] friend bool operator==(const global_ptr& pointer, std::nullptr_t) noexcept {
        return pointer.is_null();
    }

private:
    [[nodiscard]] bool is_null() const noexcept { return words_.heap == 0; }

    detail::global_words words_;
};

static_assert(sizeof(global_ptr<int>) == 16 && alignof(global_ptr<int>) == 8);
static_assert(std::is_trivially_copyable_v<global_ptr<int>>);

}  // namespace holdfast

template <class T>
struct std::hash<holdfast::global_ptr<T>> {
    [[nodiscard]] std::size_t operator()(const holdfast::global_ptr<T>& pointer) const noexcept {
        return std::hash<std::uint64_t>{}(pointer.words().heap ^ pointer.words().offset * 0x9e37'79b9'7f4a'7c15U);
    }
};
