// An element that is made before a container moves its own.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast::detail {

/// Constructed and destroyed by the container's allocator beside the container.
template <class T, class Allocator>
class spare_element {
public:
    template <class... Args>
    explicit spare_element(Allocator& allocator, Args&&... args) : allocator_(allocator) {
        std::allocator_traits<Allocator>::construct(allocator_, get(), std::forward<Args>(args)...);
    }
    spare_element(const spare_element&) = delete;
    spare_element& operator=(const spare_element&) = delete;
    ~spare_element() { std::allocator_traits<Allocator>::destroy(allocator_, get()); }
    [[nodiscard]] T* get() noexcept { return std::launder(reinterpret_cast<T*>(&place_)); }

private:
    Allocator& allocator_;
    alignas(T) std::byte place_[sizeof(T)];
};

}  // namespace holdfast::detail
