// holdfast::ptr<T>: an 8-byte pointer that survives being mapped at another address.
//
// Layout of the word: bits 0..47 hold the distance in bytes from the pointer itself to its target, plus 2^47; bits
// 48..63 hold the stamp. A zeroed word is null; a pointer to itself (distance 0) is not. A user address space has 2^47
// bytes, so a distance of exactly -2^47 cannot occur.
//
// The stamp belongs to the word, not to the value: assignment copies the target and keeps the stamp of the pointer
// written to, so never copy a ptr with memcpy. Only the allocator changes a stamp: one durable record is then enough
// for an operation of durability `atomic` (docs/atomic-protocol.md).
//
// Boost.Intrusive keeps the colours of trees in the low bits of pointers to nodes (pointer_plus_bits). Such a word is
// the distance to the target's address with the bits in it. A null pointer has the bits alone as its distance, which no
// pointer has: its target would lie below address 8.
//
// Where HOLDFAST_CHECKED_POINTERS is defined as 1 before the first header, in all files of a program, a construction or
// an assignment of a ptr that lies in an open heap throws error(bad_address) unless its target is null or lies in the
// same heap; an assigned ptr keeps its target then. Such a program links the library, and is slower: each of these
// looks up a heap. Arithmetic is not checked.
//
// Thread safety: as a raw pointer; the word is 8-byte aligned and written with one store. Durability: as any store of
// the program.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>

#include <holdfast/detail/needs_cxx20.hpp>

namespace boost::intrusive {

template <class VoidPointer, std::size_t Alignment>
struct max_pointer_plus_bits;
template <class Pointer, std::size_t NumBits>
struct pointer_plus_bits;

}  // namespace boost::intrusive

namespace holdfast {

template <class T>
class ptr;

namespace detail {

#if defined(HOLDFAST_CHECKED_POINTERS) && HOLDFAST_CHECKED_POINTERS
constexpr bool checks_pointers = true;
#else
constexpr bool checks_pointers = false;
#endif
/// Throws error(bad_address) where `pointer` lies in an open heap and `target` is neither 0 nor in the same.
void refuse_foreign_target(const void* pointer, std::uintptr_t target);

/// For pointer_plus_bits: of targets that are aligned to 8.
inline constexpr std::size_t most_low_bits = 3;
inline constexpr unsigned distance_bits = 48;
inline constexpr std::uint64_t distance_mask = (std::uint64_t{1} << distance_bits) - 1;
inline constexpr std::uint64_t distance_bias = std::uint64_t{1} << (distance_bits - 1);

/// The word and its coding, whatever the target.
class ptr_word {
public:
    constexpr ptr_word() noexcept = default;

protected:
    [[nodiscard]] std::uintptr_t target() const noexcept {
        const std::uint64_t distance = word_ & distance_mask;
        return forget_origin(distance == 0 ? 0 : reinterpret_cast<std::uintptr_t>(this) + distance - distance_bias);
    }
    [[nodiscard]] std::uintptr_t target_of_non_null() const noexcept {
        return forget_origin(reinterpret_cast<std::uintptr_t>(this) + (word_ & distance_mask) - distance_bias);
    }
    void set_target(std::uintptr_t target) noexcept { word_ = (word_ & ~distance_mask) | encode(target); }
    void assign(std::uintptr_t target) noexcept(!checks_pointers) {
        check(target);
        set_target(target);
    }
    void initialise(std::uintptr_t target) noexcept(!checks_pointers) {
        check(target);
        word_ = encode(target);
    }
    [[nodiscard]] bool is_null() const noexcept { return (word_ & distance_mask) == 0; }
    /// The target's address with its low bits; for a null pointer the bits alone.
    [[nodiscard]] std::uintptr_t target_with_bits() const noexcept {
        const std::uint64_t distance = word_ & distance_mask;
        return forget_origin(
            is_bits_alone(distance) ? distance : reinterpret_cast<std::uintptr_t>(this) + distance - distance_bias);
    }
    void set_target_with_bits(std::uintptr_t target) noexcept {
        word_ = (word_ & ~distance_mask) | (is_bits_alone(target) ? target : encode(target));
    }

private:
    void check([[maybe_unused]] std::uintptr_t target) const noexcept(!checks_pointers) {
        if constexpr (checks_pointers) {
            refuse_foreign_target(this, target);
        }
    }
    [[nodiscard]] static constexpr bool is_bits_alone(std::uint64_t value) noexcept {
        return value >> most_low_bits == 0;
    }

    /// Hides, without an instruction, where the address came from. Compilers take an address plus a distance for one in
    /// the same object (GCC bug 49330; clang rewrites it so) and would reorder accesses to a ptr on the stack and to
    /// its target.
    [[nodiscard]] static std::uintptr_t forget_origin(std::uintptr_t address) noexcept {
        __asm__("" : "+r"(address));
        return address;
    }
    [[nodiscard]] std::uint64_t encode(std::uintptr_t target) const noexcept {
        if (target == 0) {
            return 0;
        }
        const std::uint64_t distance = target - reinterpret_cast<std::uintptr_t>(this) + distance_bias;
        // Never true for user addresses; lets the compiler cancel the encoding of a temporary with its decoding.
        if (distance == 0 || distance > distance_mask) {
            __builtin_unreachable();
        }
        return distance;
    }

    std::uint64_t word_ = 0;
};

template <class T>
struct ptr_types {
    using reference = T&;
};
/// Boost's pointer_traits forms a parameter of ptr<void>'s reference.
struct nothing_to_refer_to {};
template <class T>
    requires std::is_void_v<T>
struct ptr_types<T> {
    using reference = nothing_to_refer_to&;
};

}  // namespace detail

/// A fancy pointer (Cpp17NullablePointer, random-access iterator); T may be void, const, or incomplete.
template <class T>
class ptr : private detail::ptr_word {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = ptr<T>;
    using reference = typename detail::ptr_types<T>::reference;
    using iterator_category = std::random_access_iterator_tag;
    template <class U>
    using rebind = ptr<U>;

    constexpr ptr() noexcept = default;
    /// A template, so that the literal 0 of Boost.Container selects the constructor from T*.
    template <std::same_as<std::nullptr_t> Null>
    constexpr ptr(Null) noexcept {}  // NOLINT(google-explicit-constructor): as a raw pointer
    // NOLINTNEXTLINE(google-explicit-constructor): as a raw pointer
    ptr(T* target) noexcept(!detail::checks_pointers) { initialise(address(target)); }
    ptr(const ptr& other) noexcept(!detail::checks_pointers) : detail::ptr_word() { initialise(other.target()); }
    /// To const, to a base class, to void.
    template <class U>
        requires(std::is_convertible_v<U*, T*> && !std::is_same_v<U, T>)
    // NOLINTNEXTLINE(google-explicit-constructor): as a raw pointer
    ptr(const ptr<U>& other) noexcept(!detail::checks_pointers) {
        T* const converted = other.get();
        initialise(address(converted));
    }
    /// To a derived class, from void.
    template <class U>
        requires(!std::is_convertible_v<U*, T*> && requires(U* from) { static_cast<T*>(from); })
    explicit ptr(const ptr<U>& other) noexcept(!detail::checks_pointers) {
        initialise(address(static_cast<T*>(other.get())));
    }
    ~ptr() = default;

    /// Copies the target; this word keeps its stamp.
    ptr& operator=(const ptr& other) noexcept(!detail::checks_pointers) {
        assign(other.target());
        return *this;
    }
    ptr& operator=(T* target) noexcept(!detail::checks_pointers) {
        assign(address(target));
        return *this;
    }
    template <std::same_as<std::nullptr_t> Null>
    ptr& operator=(Null) noexcept {
        set_target(0);
        return *this;
    }
    template <class U>
        requires(std::is_convertible_v<U*, T*> && !std::is_same_v<U, T>)
    ptr& operator=(const ptr<U>& other) noexcept(!detail::checks_pointers) {
        T* const converted = other.get();
        assign(address(converted));
        return *this;
    }

    /// In this process. operator* and operator[] need a ptr that is not null.
    [[nodiscard]] T* get() const noexcept { return reinterpret_cast<T*>(target()); }
    [[nodiscard]] T* operator->() const noexcept { return get(); }
    [[nodiscard]] reference operator*() const noexcept
        requires(!std::is_void_v<T>)
    {
        return *reinterpret_cast<T*>(target_of_non_null());
    }
    template <class Index>
        requires(!std::is_void_v<T> && std::is_integral_v<Index>)
    [[nodiscard]] reference operator[](Index index) const noexcept {
        return reinterpret_cast<T*>(target_of_non_null())[index];
    }
    explicit operator bool() const noexcept { return !is_null(); }
    [[nodiscard]] bool operator!() const noexcept { return is_null(); }

    ptr& operator+=(difference_type distance) noexcept {
        set_target(address(get() + distance));
        return *this;
    }
    ptr& operator-=(difference_type distance) noexcept {
        set_target(address(get() - distance));
        return *this;
    }
    ptr& operator++() noexcept { return *this += 1; }
    ptr& operator--() noexcept { return *this -= 1; }
    ptr operator++(int) noexcept {
        ptr before{*this};
        ++*this;
        return before;
    }
    ptr operator--(int) noexcept {
        ptr before{*this};
        --*this;
        return before;
    }
    [[nodiscard]] friend ptr operator+(const ptr& p, difference_type distance) noexcept {
        return ptr{p.get() + distance};
    }
    [[nodiscard]] friend ptr operator+(difference_type distance, const ptr& p) noexcept {
        return ptr{p.get() + distance};
    }
    [[nodiscard]] friend ptr operator-(const ptr& p, difference_type distance) noexcept {
        return ptr{p.get() - distance};
    }
    [[nodiscard]] friend difference_type operator-(const ptr& a, const ptr& b) noexcept { return a.get() - b.get(); }

    [[nodiscard]] friend bool operator==(const ptr& a, const ptr& b) noexcept { return a.target() == b.target(); }
    [[nodiscard]] friend auto operator<=>(const ptr& a, const ptr& b) noexcept { return a.target() <=> b.target(); }
    template <std::same_as<std::nullptr_t> Null>
    [[nodiscard]] friend bool operator==(const ptr& a, Null) noexcept {
        return a.is_null();
    }
    [[nodiscard]] friend bool operator==(const ptr& a, T* b) noexcept { return a.get() == b; }
    [[nodiscard]] friend auto operator<=>(const ptr& a, T* b) noexcept { return a.target() <=> address(b); }
    friend void swap(ptr& a, ptr& b) noexcept(!detail::checks_pointers) {
        T* const kept = a.get();
        a = b;
        b = kept;
    }

    template <class U = T>
        requires(!std::is_void_v<U>)
    [[nodiscard]] static ptr pointer_to(U& target) noexcept {
        return ptr{std::addressof(target)};
    }
    /// Boost's pointer_traits calls it. Null is allowed.
    template <class U>
    [[nodiscard]] static ptr static_cast_from(const ptr<U>& other) noexcept {
        return ptr{static_cast<T*>(other.get())};
    }
    template <class U>
    [[nodiscard]] static ptr const_cast_from(const ptr<U>& other) noexcept {
        return ptr{const_cast<T*>(other.get())};
    }
    template <class U>
    [[nodiscard]] static ptr dynamic_cast_from(const ptr<U>& other) noexcept {
        return ptr{dynamic_cast<T*>(other.get())};
    }

private:
    template <class Pointer, std::size_t NumBits>
    friend struct boost::intrusive::pointer_plus_bits;

    [[nodiscard]] static std::uintptr_t address(const volatile void* target) noexcept {
        return reinterpret_cast<std::uintptr_t>(target);
    }
};

static_assert(sizeof(ptr<int>) == 8 && alignof(ptr<int>) == 8);

template <class T, class U>
[[nodiscard]] ptr<T> static_pointer_cast(const ptr<U>& p) noexcept {
    return ptr<T>{static_cast<T*>(p.get())};
}
template <class T, class U>
[[nodiscard]] ptr<T> const_pointer_cast(const ptr<U>& p) noexcept {
    return ptr<T>{const_cast<T*>(p.get())};
}
template <class T, class U>
[[nodiscard]] ptr<T> dynamic_pointer_cast(const ptr<U>& p) noexcept {
    return ptr<T>{dynamic_cast<T*>(p.get())};
}
template <class T, class U>
[[nodiscard]] ptr<T> reinterpret_pointer_cast(const ptr<U>& p) noexcept {
    return ptr<T>{reinterpret_cast<T*>(p.get())};
}
template <class T>
[[nodiscard]] T* to_raw_pointer(const ptr<T>& p) noexcept {
    return p.get();
}
/// Serves templates that take raw pointers as well.
template <class T>
[[nodiscard]] T* to_raw_pointer(T* p) noexcept {
    return p;
}

/// The name in Boost.Interprocess and Metall.
template <class T>
using offset_ptr = ptr<T>;

}  // namespace holdfast

template <class T>
struct std::hash<holdfast::ptr<T>> {
    [[nodiscard]] std::size_t operator()(const holdfast::ptr<T>& p) const noexcept { return std::hash<T*>{}(p.get()); }
};

/// Lets trees of Boost.Intrusive and Boost.Container store colours and balances in pointers to nodes.
template <std::size_t Alignment>
struct boost::intrusive::max_pointer_plus_bits<holdfast::ptr<void>, Alignment> {
    static constexpr std::size_t value = Alignment % 8 == 0   ? holdfast::detail::most_low_bits
                                         : Alignment % 4 == 0 ? 2
                                         : Alignment % 2 == 0 ? 1
                                                              : 0;
};

template <class T, std::size_t NumBits>
struct boost::intrusive::pointer_plus_bits<holdfast::ptr<T>, NumBits> {
    static_assert(NumBits <= holdfast::detail::most_low_bits);
    using pointer = holdfast::ptr<T>;
    static constexpr std::uintptr_t mask = (std::uintptr_t{1} << NumBits) - 1;

    [[nodiscard]] static pointer get_pointer(const pointer& stored) noexcept {
        return pointer{reinterpret_cast<T*>(stored.target_with_bits() & ~mask)};
    }
    static void set_pointer(pointer& stored, const pointer& target) noexcept {
        stored.set_target_with_bits(pointer::address(target.get()) | get_bits(stored));
    }
    [[nodiscard]] static std::size_t get_bits(const pointer& stored) noexcept {
        return stored.target_with_bits() & mask;
    }
    static void set_bits(pointer& stored, std::size_t bits) noexcept {
        stored.set_target_with_bits((stored.target_with_bits() & ~mask) | bits);
    }
};
