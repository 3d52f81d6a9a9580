// The parts of construct, find and destroy that need no templates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

enum class instance_kind : std::uint8_t { named = 1, unique = 2, anonymous = 3 };

struct unique_instance_t {};
struct anonymous_instance_t {};
/// Name of the one object of its type: construct<T>(unique_instance)(args...).
inline constexpr const unique_instance_t* unique_instance = nullptr;
/// No name: iteration or a pointer finds the object.
inline constexpr const anonymous_instance_t* anonymous_instance = nullptr;

namespace detail {

class manager_core;
struct manager_access;

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

/// On media: the type's name, as the ABI mangles it (GCC and clang agree), and its size.
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

/// The memory of one object, freed unless publish() has succeeded. Without an object_lock around it, another thread may
/// publish the name first; publish() then throws error(name_exists).
class construction {
public:
    /// Throws error(name_exists); error(invalid_argument) for an empty name or count 0; error(read_only);
    /// holdfast::bad_alloc.
    construction(manager_core& core, const instance_name& name, object_type type, std::size_t count);
    construction(const construction&) = delete;
    construction& operator=(const construction&) = delete;
    ~construction();

    [[nodiscard]] void* memory() const noexcept { return memory_; }
    /// If it throws, the caller destroys the elements.
    void publish();

private:
    manager_core& core_;
    instance_name name_;
    object_type type_;
    std::size_t count_;
    void* memory_ = nullptr;
    bool published_ = false;
};

/// Recursive, for operations of several steps (find_or_construct).
class object_lock {
public:
    explicit object_lock(manager_core& core);
    object_lock(const object_lock&) = delete;
    object_lock& operator=(const object_lock&) = delete;
    ~object_lock();

private:
    manager_core& core_;
};

/// By an object of any type.
[[nodiscard]] bool is_taken(manager_core& core, const instance_name& name, object_type type);
/// {nullptr, 0} where there is none. Throws error(type_mismatch) for another type.
[[nodiscard]] found_object find_object(manager_core& core, const instance_name& name, object_type type);
/// Throws error(bad_address) or error(type_mismatch).
[[nodiscard]] found_object find_object_at(manager_core& core, const void* address, object_type type);
/// The caller then destroys the elements and calls release_memory().
void unpublish(manager_core& core, void* address);
void release_memory(manager_core& core, void* address) noexcept;
[[nodiscard]] std::uint64_t key_of(const manager_core& core) noexcept;

}  // namespace detail
}  // namespace holdfast
