// The open heap behind a managed_mapped_file, and the registry of those that this process has open. Not for users.
//
// Boost.Interprocess keeps its segment manager inside the segment. A heap has nothing of a running process: the
// registry leads from an allocator's key, or an address in a heap, to the segment manager.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast::compat::interprocess {

class segment_manager;

namespace detail {

/// The size is not stored: it follows from the heap's limit, which has room for that many bytes and their metadata.
inline constexpr std::uint64_t size_unit = 4096;
inline constexpr std::uint64_t room_for_metadata = std::uint64_t{4} << 20U;
/// No heap is so large.
inline constexpr std::uint64_t too_large = std::uint64_t{1} << 60U;
constexpr std::uint64_t align_size(std::uint64_t size) noexcept {
    return (std::min(size, too_large) + size_unit - 1) / size_unit * size_unit;
}
constexpr std::uint64_t limit_of_size(std::uint64_t size) noexcept {
    const std::uint64_t wanted = std::min(size, too_large);
    return align_size(wanted + wanted / 8 + room_for_metadata);
}
constexpr std::uint64_t size_of_limit(std::uint64_t limit) noexcept {
    return limit <= room_for_metadata ? 0 : (limit - room_for_metadata) / 9 * 8 / size_unit * size_unit;
}
/// The least limit by which a heap that ends at `user_bytes` can have another `extra` bytes in blocks, each up to a
/// fifth larger than asked for, without the space that is free: a heap grows by 2 MiB.
constexpr std::uint64_t limit_behind(std::uint64_t user_bytes, std::uint64_t extra) noexcept {
    constexpr std::uint64_t growth = std::uint64_t{2} << 20U;
    constexpr std::uint64_t slabs = std::uint64_t{256} << 10U;
    const std::uint64_t wanted = std::min(user_bytes + extra + extra / 4 + slabs, too_large);
    return (wanted + growth - 1) / growth * growth;
}
static_assert(size_of_limit(limit_of_size(65536)) == 65536 && size_of_limit(limit_of_size(4096)) == 4096);
static_assert(size_of_limit(limit_of_size(4096 * 12345)) == 4096 * 12345);
static_assert(limit_of_size(~std::uint64_t{0}) == too_large);

struct open_segment {
    open_segment(holdfast::manager opened, bool discards_changes)
        : heap(std::move(opened)), discards(discards_changes), limit(heap.statistics().maximum_size) {}

    /// Bytes: of its creation or grow(); without a limit, what the files hold.
    std::size_t size() const { return limit == 0 ? heap.get_size() : static_cast<std::size_t>(size_of_limit(limit)); }
    /// A name as const char*, until the segment is closed.
    const char* keep(const std::string& name) {
        const std::lock_guard guard(mutex);
        return names.insert(name).first->c_str();
    }

    holdfast::manager heap;
    bool discards;        ///< open_copy_on_write: nothing is committed
    std::uint64_t limit;  ///< of the heap; constant while it is open
    segment_manager* handle = nullptr;
    std::mutex mutex;
    std::set<std::string> names;
};

class segment_registry {
public:
    /// A child of fork finds the registry whole, whatever other threads were doing. It makes the mutex anew, because
    /// the C library takes an unlock by a thread of another number than the writer's for one by a reader.
    segment_registry() {
        ::pthread_atfork([] { only().mutex_.lock(); }, [] { only().mutex_.unlock(); },
                         [] { std::construct_at(&only().mutex_); });
    }
    segment_registry(const segment_registry&) = delete;
    segment_registry& operator=(const segment_registry&) = delete;
    ~segment_registry() = delete;
    static segment_registry& only() {
        // Never destroyed: destructors of static objects may still use segments.
        static auto* const registry = new segment_registry;  // lint-allow(hand-memory): never destroyed
        return *registry;
    }

    void add(open_segment& segment) {
        const std::lock_guard guard(mutex_);
        segments_.push_back(&segment);
    }
    void remove(const open_segment& segment) {
        const std::lock_guard guard(mutex_);
        std::erase(segments_, &segment);
    }
    open_segment* at(const void* address) const {
        const std::shared_lock guard(mutex_);
        const auto found = std::find_if(segments_.begin(), segments_.end(),
                                        [&](const auto* one) { return one->heap.belongs_to_segment(address); });
        return found == segments_.end() ? nullptr : *found;
    }
    /// Of copies of a heap, which share the key: the one that `asker` lies in.
    open_segment* with_key(std::uint64_t key, const void* asker) const {
        const std::shared_lock guard(mutex_);
        open_segment* found = nullptr;
        for (open_segment* const one : segments_) {
            if (one->heap.get_segment_manager()->key() == key &&
                (found == nullptr || one->heap.belongs_to_segment(asker))) {
                found = one;
            }
        }
        return found;
    }

private:
    mutable std::shared_mutex mutex_;
    std::vector<open_segment*> segments_;
};

inline segment_registry& open_segments() { return segment_registry::only(); }

}  // namespace detail
}  // namespace holdfast::compat::interprocess
