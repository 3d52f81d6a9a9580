// The proxies behind construct<T>(name)[n](args...). If a constructor throws, they destroy the elements before it.
#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <holdfast/allocator.hpp>
#include <holdfast/detail/objects.hpp>
#include <holdfast/detail/runtime.hpp>
#include <holdfast/detail/uses_allocator.hpp>
#include <holdfast/error.hpp>
#include <holdfast/persistable.hpp>

namespace holdfast::detail {

enum class if_exists { fail, find, return_null };

/// Destroys elements [0, count) in reverse order unless dismissed.
template <class T>
class element_guard {
public:
    explicit element_guard(T* first) noexcept : first_(first) {}
    element_guard(const element_guard&) = delete;
    element_guard& operator=(const element_guard&) = delete;
    ~element_guard() {
        while (count_ > 0) {
            std::destroy_at(first_ + --count_);
        }
    }
    void constructed_one() noexcept { ++count_; }
    void dismiss() noexcept { count_ = 0; }

private:
    T* first_;
    std::size_t count_ = 0;
};

template <class T, class ConstructElement>
T* construct_elements(manager_core& core, const instance_name& name, std::size_t count, if_exists policy,
                      ConstructElement&& construct_element) {
    static_assert(require_persistable<T>());
    const object_lock lock(core);
    if (policy == if_exists::find) {
        const found_object existing = find_object(core, name, object_type::of<T>());
        if (existing.address != nullptr) {
            return static_cast<T*>(existing.address);
        }
    } else if (policy == if_exists::return_null && is_taken(core, name, object_type::of<T>())) {
        return nullptr;
    }
    construction pending(core, name, object_type::of<T>(), count);
    T* const first = static_cast<T*>(pending.memory());
    element_guard<T> guard(first);
    for (std::size_t i = 0; i < count; ++i) {
        construct_element(first + i);
        guard.constructed_one();
    }
    pending.publish();
    guard.dismiss();
    return first;
}

template <class T>
class construct_proxy {
public:
    construct_proxy(manager_core& core, const instance_name& name, if_exists policy)
        : core_(core), name_(name), policy_(policy) {}

    [[nodiscard]] construct_proxy& operator[](std::size_t count) {
        count_ = count;
        return *this;
    }
    /// Several elements get the arguments as lvalues.
    template <class... Args>
    T* operator()(Args&&... args) {
        const auto run = [&]() -> T* {
            if (count_ == 1) {
                return construct_elements<T>(core_, name_, 1, policy_, [&](T* element) {
                    construct_with(allocator<std::byte>(key_of(core_)), element, std::forward<Args>(args)...);
                });
            }
            if constexpr (std::is_constructible_v<T, Args&...> ||
                          takes_allocator_last<T, allocator<std::byte>, Args&...>) {
                return construct_elements<T>(core_, name_, count_, policy_, [&](T* element) {
                    construct_with(allocator<std::byte>(key_of(core_)), element, args...);
                });
            } else {
                throw_bad_array_length();
            }
        };
        if (policy_ != if_exists::return_null) {
            return run();
        }
        try {
            return run();
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }

private:
    manager_core& core_;
    instance_name name_;
    if_exists policy_;
    std::size_t count_ = 1;
};

template <class T>
class construct_it_proxy {
public:
    construct_it_proxy(manager_core& core, const instance_name& name, if_exists policy)
        : core_(core), name_(name), policy_(policy) {}

    [[nodiscard]] construct_it_proxy& operator[](std::size_t count) {
        count_ = count;
        return *this;
    }
    template <class... Iterators>
    T* operator()(Iterators... iterators) {
        return construct_elements<T>(core_, name_, count_, policy_, [&](T* element) {
            construct_with(allocator<std::byte>(key_of(core_)), element, *iterators...);
            (++iterators, ...);
        });
    }

private:
    manager_core& core_;
    instance_name name_;
    if_exists policy_;
    std::size_t count_ = 1;
};

template <class T>
void destroy_found(manager_core& core, const found_object& found) {
    T* const first = static_cast<T*>(found.address);
    unpublish(core, found.address);
    for (std::size_t i = found.count; i > 0; --i) {
        std::destroy_at(first + (i - 1));
    }
    release_memory(core, found.address);
}

}  // namespace holdfast::detail
