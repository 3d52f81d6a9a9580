// The allocators of Boost.Interprocess over a Holdfast heap.
//
// All are allocator<T, segment_manager>, whose slabs and thread caches do what pools are for; functions that fill or
// empty pools do nothing. An allocator holds the key of its heap and may lie in it. Thread safety: any number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <holdfast/allocator.hpp>
#include <holdfast/compat/interprocess/managed_mapped_file.hpp>

namespace holdfast::compat::interprocess {

namespace detail {

template <class T, class SegmentManager, template <class> class Allocator>
class basic_allocator : public holdfast::allocator<T, SegmentManager> {
    using base = holdfast::allocator<T, SegmentManager>;

public:
    using typename base::pointer;
    using typename base::size_type;
    using segment_manager = SegmentManager;
    using reference = std::add_lvalue_reference_t<T>;
    using const_reference = std::add_lvalue_reference_t<const T>;
    template <class U>
    struct rebind {
        using other = Allocator<U>;
    };

    // NOLINTBEGIN(google-explicit-constructor): as Boost.Interprocess.
    basic_allocator(SegmentManager* segment) noexcept : base(static_cast<const SegmentManager*>(segment)) {}
    template <class U>
    basic_allocator(const holdfast::allocator<U, SegmentManager>& other) noexcept : base(other) {}
    // NOLINTEND(google-explicit-constructor)

    /// Throws bad_alloc with the reason in what(); interprocess_exception where the segment is closed or read-only.
    pointer allocate(size_type count, const ptr<const void>& /*hint*/ = nullptr) {
        return translated([&] { return base::allocate(count); });
    }
    pointer allocate_one() { return allocate(1); }
    void deallocate_one(const pointer& block) noexcept { this->deallocate(block, 1); }
    size_type size(const pointer& block) const { return get_segment_manager()->size(block.get()) / sizeof(T); }
    /// See segment_blocks::allocation_command().
    pointer allocation_command(allocation_type command, size_type least, size_type& received, pointer& reuse) {
        T* old = reuse.get();
        T* const block = get_segment_manager()->template allocation_command<T>(command, least, received, old);
        reuse = old;
        return block;
    }
    template <class U = T>
    static pointer address(U& object) noexcept {
        return pointer(std::addressof(object));
    }
    /// Null where the heap is not open as a managed_mapped_file of this process.
    SegmentManager* get_segment_manager() const {
        const open_segment* const found = open_segments().with_key(this->key(), this);
        return found == nullptr ? nullptr : found->handle;
    }
};

struct pool_functions {
    static constexpr std::size_t default_max_cached_nodes = 64;
    void deallocate_free_blocks() const noexcept {}
    void deallocate_free_chunks() const noexcept {}
    void deallocate_cache() const noexcept {}
    void set_max_cached_nodes(std::size_t /*count*/) const noexcept {}
    std::size_t get_max_cached_nodes() const noexcept { return default_max_cached_nodes; }
};

template <class SegmentManager>
struct plain_family {
    template <class T>
    using allocator = interprocess::allocator<T, SegmentManager>;
};
/// `Kind` and its parameters tell pools of different names apart.
template <class Kind, class SegmentManager, std::size_t NodesPerBlock>
struct pool_family {
    template <class T>
    class allocator : public basic_allocator<T, SegmentManager, allocator>, public pool_functions {
    public:
        using basic_allocator<T, SegmentManager, allocator>::basic_allocator;
    };
};
struct node_kind;
struct private_node_kind;
struct cached_node_kind;
struct adaptive_kind;
struct private_adaptive_kind;
struct cached_adaptive_kind;

}  // namespace detail

template <class T, class SegmentManager>
class allocator
    : public detail::basic_allocator<T, SegmentManager, detail::plain_family<SegmentManager>::template allocator> {
    using base = detail::basic_allocator<T, SegmentManager, detail::plain_family<SegmentManager>::template allocator>;

public:
    using base::base;
};

template <class T, class SegmentManager, std::size_t NodesPerBlock = 64>
using node_allocator =
    typename detail::pool_family<detail::node_kind, SegmentManager, NodesPerBlock>::template allocator<T>;
/// Boost.Interprocess's equal themselves alone. Here two are equal if they serve the same heap.
template <class T, class SegmentManager, std::size_t NodesPerBlock = 64>
using private_node_allocator =
    typename detail::pool_family<detail::private_node_kind, SegmentManager, NodesPerBlock>::template allocator<T>;
template <class T, class SegmentManager, std::size_t NodesPerBlock = 64>
using cached_node_allocator =
    typename detail::pool_family<detail::cached_node_kind, SegmentManager, NodesPerBlock>::template allocator<T>;
template <class T, class SegmentManager, std::size_t NodesPerBlock = 64, std::size_t MaxFreeBlocks = 2,
          unsigned char OverheadPercent = 5>
using adaptive_pool =
    typename detail::pool_family<detail::adaptive_kind, SegmentManager, NodesPerBlock>::template allocator<T>;
template <class T, class SegmentManager, std::size_t NodesPerBlock = 64, std::size_t MaxFreeBlocks = 2,
          unsigned char OverheadPercent = 5>
using private_adaptive_pool =
    typename detail::pool_family<detail::private_adaptive_kind, SegmentManager, NodesPerBlock>::template allocator<T>;
template <class T, class SegmentManager, std::size_t NodesPerBlock = 64, std::size_t MaxFreeBlocks = 2,
          unsigned char OverheadPercent = 5>
using cached_adaptive_pool =
    typename detail::pool_family<detail::cached_adaptive_kind, SegmentManager, NodesPerBlock>::template allocator<T>;

}  // namespace holdfast::compat::interprocess

// As <holdfast/detail/refused.hpp> does for holdfast::allocator.
template <class Char, class Traits, class SegmentManager>
class std::basic_string<Char, Traits, holdfast::compat::interprocess::allocator<Char, SegmentManager>>
    : holdfast::detail::refuse_std_string<SegmentManager> {};
template <class SegmentManager>
class std::vector<bool, holdfast::compat::interprocess::allocator<bool, SegmentManager>>
    : holdfast::detail::refuse_bit_vector<SegmentManager> {};
