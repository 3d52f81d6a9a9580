// What a managed_mapped_file and its segment_manager share: memory, handles, sizes.
//
// Thread-safe, except zero_free_memory(). Exceptions: interprocess_exception and bad_alloc. Durability: a crash leaves
// the segment as the last flush() or destructor of the managed_mapped_file left it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include <boost/container/detail/multiallocation_chain.hpp>
#include <boost/interprocess/containers/allocation_type.hpp>
#include <holdfast/compat/interprocess/errors.hpp>
#include <holdfast/compat/interprocess/open_segment.hpp>

namespace holdfast::compat::interprocess {

using boost::interprocess::allocate_new;
using boost::interprocess::allocation_type;
using boost::interprocess::expand_bwd;
using boost::interprocess::expand_fwd;
using boost::interprocess::nothrow_allocation;
using boost::interprocess::shrink_in_place;

namespace detail {

/// Throws bad_alloc where it is too large.
inline std::size_t product(std::size_t count, std::size_t element) {
    if (element != 0 && count > std::numeric_limits<std::size_t>::max() / element) {
        throw bad_alloc();
    }
    return count * element;
}

/// Stores zeros between the blocks of the slabs. Blocks and slabs come in order of address.
inline void zero_gaps(const holdfast::manager& heap, const std::vector<extent_info>& slabs) {
    auto* const base = static_cast<std::byte*>(heap.get_address());
    auto slab = slabs.begin();
    std::uint64_t done = slab == slabs.end() ? 0 : slab->offset;
    const auto zero_up_to = [&](std::uint64_t offset) {
        while (slab != slabs.end() && done < offset) {
            const std::uint64_t end = slab->offset + slab->bytes;
            const std::uint64_t stop = offset < end ? offset : end;
            std::memset(base + done, 0, stop - done);
            done = stop;
            if (done == end) {
                ++slab;
                done = slab == slabs.end() ? end : slab->offset;
            }
        }
    };
    heap.for_each_block([&](const block_info& block) {
        const std::uint64_t offset = heap.get_handle_from_address(block.address);
        zero_up_to(offset);
        if (slab != slabs.end() && offset >= slab->offset) {
            done = offset + block.size;
            if (done >= slab->offset + slab->bytes) {
                ++slab;
                done = slab == slabs.end() ? done : slab->offset;
            }
        }
    });
    zero_up_to(~std::uint64_t{0});
}

class segment_blocks {
public:
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using void_pointer = ptr<void>;
    using handle_t = std::ptrdiff_t;
    using multiallocation_chain = boost::container::dtl::basic_multiallocation_chain<void_pointer>;

    void* get_address() const noexcept { return heap().get_address(); }
    /// Bytes: as created, rounded up to 4 KiB, or as grown. Allocations fail with bad_alloc when about so many are
    /// allocated, without metadata.
    size_type get_size() const {
        return translated([&] { return segment_->size(); });
    }
    size_type get_free_memory() const {
        return translated([&] {
            const size_type size = segment_->size();
            const size_type used = heap().get_size() - heap().get_free_memory();
            return used < size ? size - used : 0;
        });
    }
    bool belongs_to_segment(const void* address) const noexcept { return heap().belongs_to_segment(address); }
    /// Bytes from get_address(), the same after every open.
    handle_t get_handle_from_address(const void* address) const {
        return translated([&] { return static_cast<handle_t>(heap().get_handle_from_address(address)); });
    }
    void* get_address_from_handle(handle_t handle) const {
        return translated([&] { return heap().get_address_from_handle(static_cast<std::uint64_t>(handle)); });
    }

    /// Aligned to 16 bytes (to 8 where `bytes` is below 16). Throws bad_alloc; with std::nothrow: null.
    void* allocate(size_type bytes) const {
        return translated([&] { return heap().allocate(bytes == 0 ? 1 : bytes); });
    }
    void* allocate(size_type bytes, const std::nothrow_t& nothrow) const noexcept {
        return heap().allocate(bytes == 0 ? 1 : bytes, nothrow);
    }
    /// `alignment`: a power of two up to 2 MiB.
    void* allocate_aligned(size_type bytes, size_type alignment) const {
        return translated([&] { return heap().allocate_aligned(bytes == 0 ? 1 : bytes, alignment); });
    }
    void* allocate_aligned(size_type bytes, size_type alignment, const std::nothrow_t&) const {
        try {
            return allocate_aligned(bytes, alignment);
        } catch (const interprocess_exception&) {
            return nullptr;
        }
    }
    /// Null is ignored. Throws interprocess_exception, and changes nothing, where the address is no allocated block.
    void deallocate(void* address) const {
        translated([&] { heap().deallocate(address); });
    }
    /// Usable bytes, at least those asked for.
    size_type size(const void* address) const {
        return translated([&] { return heap().usable_size(address); });
    }

    /// Appends `count` blocks of `bytes` bytes to the chain; or none, and throws bad_alloc.
    void allocate_many(size_type bytes, size_type count, multiallocation_chain& chain) const {
        append_blocks(chain, count, [bytes](size_type) { return bytes; });
    }
    void allocate_many(const size_type* lengths, size_type count, size_type element,
                       multiallocation_chain& chain) const {
        append_blocks(chain, count, [lengths, element](size_type i) { return product(lengths[i], element); });
    }
    void allocate_many(const std::nothrow_t&, size_type bytes, size_type count, multiallocation_chain& chain) const {
        append_blocks_or_none(chain, count, [bytes](size_type) { return bytes; });
    }
    void allocate_many(const std::nothrow_t&, const size_type* lengths, size_type count, size_type element,
                       multiallocation_chain& chain) const {
        append_blocks_or_none(chain, count, [lengths, element](size_type i) { return product(lengths[i], element); });
    }
    void deallocate_many(multiallocation_chain& chain) const {
        while (!chain.empty()) {
            deallocate(chain.pop_front().get());
        }
    }

    /// A block has room up to its size class, so telling how much expands it in place, never backwards. `received`:
    /// elements, preferred before the call, had after it.
    template <class T>
    T* allocation_command(allocation_type command, size_type least, size_type& received, T*& reuse) const {
        if (reuse != nullptr && (command & (expand_fwd | shrink_in_place)) != 0) {
            const size_type room = size(reuse) / sizeof(T);
            const bool shrinks = (command & shrink_in_place) != 0;
            if (shrinks || room >= least) {
                received = room;
                return reuse;
            }
        }
        void* fresh = nullptr;
        if ((command & allocate_new) != 0) {
            fresh = allocate_elements<T>(received);
            if (fresh == nullptr) {
                fresh = allocate_elements<T>(least);
            }
        }
        if (fresh == nullptr) {
            if ((command & nothrow_allocation) == 0) {
                throw bad_alloc();
            }
            return nullptr;
        }
        reuse = nullptr;
        received = size(fresh) / sizeof(T);
        return static_cast<T*>(fresh);
    }

    /// Also gives whole free pages back to the file system. No other thread uses the segment meanwhile.
    void zero_free_memory() const {
        translated([&] {
            std::vector<extent_info> slabs;
            heap().for_each_extent([&](const extent_info& extent) {
                if (extent.kind == extent_kind::slab && extent.block_size != 0) {
                    slabs.push_back(extent);
                }
            });
            zero_gaps(heap(), slabs);
            if (!segment_->discards) {
                heap().shrink();
            }
        });
    }
    bool all_memory_deallocated() const {
        return translated([&] { return heap().all_memory_deallocated(); });
    }
    /// Of the heap's tables, not the user's data.
    bool check_sanity() const {
        return translated([&] { return heap().check_sanity(); });
    }

protected:
    segment_blocks() noexcept = default;
    explicit segment_blocks(open_segment& segment) noexcept : segment_(&segment) {}

    holdfast::manager& heap() const noexcept { return segment_->heap; }

    open_segment* segment_ = nullptr;

private:
    template <class T>
    void* allocate_elements(size_type count) const {
        constexpr size_type alignment = alignof(T) < 8 ? 8 : alignof(T);
        return count > std::numeric_limits<size_type>::max() / sizeof(T)
                   ? nullptr
                   : allocate_aligned(count * sizeof(T), alignment, std::nothrow);
    }
    template <class BytesOf>
    void append_blocks(multiallocation_chain& chain, size_type count, BytesOf&& bytes_of) const {
        multiallocation_chain fresh;
        try {
            for (size_type i = 0; i < count; ++i) {
                fresh.push_back(void_pointer(allocate(bytes_of(i))));
            }
        } catch (...) {
            deallocate_many(fresh);
            throw;
        }
        chain.splice_after(chain.last(), fresh);
    }
    template <class BytesOf>
    void append_blocks_or_none(multiallocation_chain& chain, size_type count, BytesOf&& bytes_of) const {
        try {
            append_blocks(chain, count, bytes_of);
        } catch (const bad_alloc&) {
            return;
        }
    }
};

}  // namespace detail
}  // namespace holdfast::compat::interprocess
