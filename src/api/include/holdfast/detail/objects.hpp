// What construct, find and destroy of the manager share with the library: requests without templates. Not for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// How an object is found again.
enum class instance_kind : std::uint8_t { named = 1, unique = 2, anonymous = 3 };

struct unique_instance_t {};
struct anonymous_instance_t {};
/// Name of the one object of its type: construct<T>(unique_instance)(args...).
inline constexpr const unique_instance_t* unique_instance = nullptr;
/// No name: the object is found by iteration or through a pointer.
inline constexpr const anonymous_instance_t* anonymous_instance = nullptr;

namespace detail {

class manager_core;
struct manager_door;

/// The name argument of construct and find.
class instance_name {
public:
    // NOLINTBEGIN(google-explicit-constructor): names are written as literals.
    instance_name(const char* name) : kind_(instance_kind::named), name_(name) {}
    instance_name(const std::string& name) : kind_(instance_kind::named), name_(name) {}
    instance_name(std::string_view name) : kind_(instance_kind::named), name_(name) {}
    instance_name(const unique_instance_t*) : kind_(instance_kind::unique) {}
    instance_name(const anonymous_instance_t*) : kind_(instance_kind::anonymous) {}
    // NOLINTEND(google-explicit-constructor)

    [[nodiscard]] instance_kind kind() const noexcept { return kind_; }
    [[nodiscard]] std::string_view name() const noexcept { return name_; }

private:
    instance_kind kind_;
    std::string_view name_;
};

/// The type of an object as media record it: the ABI's name (the same from GCC and clang), size, alignment.
struct object_type {
    std::string_view name;
    std::uint64_t size;
    std::uint64_t alignment;

    template <class T>
    [[nodiscard]] static object_type of() noexcept {
        return {typeid(T).name(), sizeof(T), alignof(T)};
    }
};

struct found_object {
    void* address = nullptr;
    std::size_t count = 0;
};

/// One construction in flight. Holds the heap's object lock (recursive) from begin to end, so that two threads cannot
/// construct one name; gives memory and name back in its destructor unless publish() was reached.
class construction {
public:
    /// Throws error(name_exists) where the name is taken, holdfast::bad_alloc, error(invalid_argument) for count 0 of a
    /// zero-sized request or an empty name.
    construction(manager_core& core, const instance_name& name, object_type type, std::size_t count);
    construction(const construction&) = delete;
    construction& operator=(const construction&) = delete;
    ~construction();

    [[nodiscard]] void* memory() const noexcept { return memory_; }
    /// Makes the object findable. Throws holdfast::bad_alloc; then the caller destroys what it constructed.
    void publish();

private:
    manager_core& core_;
    instance_name name_;
    object_type type_;
    std::size_t count_;
    void* memory_ = nullptr;
    bool published_ = false;
};

/// The object lock, for operations of several steps (find_or_construct). Recursive.
class object_lock {
public:
    explicit object_lock(manager_core& core);
    object_lock(const object_lock&) = delete;
    object_lock& operator=(const object_lock&) = delete;
    ~object_lock();

private:
    manager_core& core_;
};

/// True where the name bears an object, of whatever type.
[[nodiscard]] bool is_taken(manager_core& core, const instance_name& name, object_type type);
/// {nullptr, 0} where there is none. Throws error(type_mismatch) where the name bears an object of another type.
[[nodiscard]] found_object find_object(manager_core& core, const instance_name& name, object_type type);
/// The count of the object at the address; throws error(bad_address) or error(type_mismatch).
[[nodiscard]] found_object find_object_at(manager_core& core, const void* address, object_type type);
/// Takes the object out of the directory; the caller destroys the elements and then calls release_memory.
void unpublish(manager_core& core, void* address);
void release_memory(manager_core& core, void* address) noexcept;
/// Of the heap, for its allocators.
[[nodiscard]] std::uint64_t key_of(const manager_core& core) noexcept;

}  // namespace detail
}  // namespace holdfast
