// Guard ranges of a hardened heap (decision 18): a granule behind a slab where a store is a SIGSEGV. On media it is a
// reserved extent, free at the next open. Their number in all heaps is limited, because each costs two mappings.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "segment/format/space.hpp"

namespace holdfast::slab {

/// Thread-safe after start(), except for set_limit() and renew().
class guard_ranges {
public:
    guard_ranges() = default;
    guard_ranges(const guard_ranges&) = delete;
    guard_ranges& operator=(const guard_ranges&) = delete;
    ~guard_ranges();

    /// `left`: the remaining access. `granules`: of the reservation. `access` must outlive this object. Fails with
    /// out_of_memory.
    [[nodiscard]] base::result<void> start(segment::page_access& access, segment::page_access::rights left,
                                           std::uint64_t granules);
    /// For tests.
    void set_limit(std::uint64_t limit) noexcept { limit_.store(limit, std::memory_order_relaxed); }

    [[nodiscard]] bool active() const noexcept { return access_ != nullptr; }
    [[nodiscard]] bool has_room() const noexcept {
        return active() && in_process.load(std::memory_order_relaxed) < limit_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool contains(base::granule range) const noexcept;

    /// The caller's extent is reserved; false: it stays as it is. Without further mappings, the present number becomes
    /// the limit.
    [[nodiscard]] bool add(base::granule range) noexcept;
    /// True: the caller's reserved extent again, readable and writable.
    [[nodiscard]] bool remove(base::granule range) noexcept;
    [[nodiscard]] std::optional<base::granule> remove_any() noexcept;
    /// Pages [from, end) were mapped anew: takes their guard ranges' rights again. Where that fails, `lost` gets the
    /// range, which is no guard range any more.
    void renew(base::pages from, base::pages end, base::function_ref<void(base::granule)> lost) noexcept;
    /// In order of address. One that comes or goes meanwhile may be missed.
    void for_each(base::function_ref<void(base::granule)> each) const;

private:
    static constexpr std::uint64_t bits = 64;
    static std::atomic<std::uint64_t> in_process;

    [[nodiscard]] std::atomic_ref<std::uint64_t> word_of(base::granule range) const noexcept {
        return std::atomic_ref<std::uint64_t>(words_[range.value / bits]);
    }
    [[nodiscard]] static std::uint64_t bit_of(base::granule range) noexcept {
        return std::uint64_t{1} << (range.value % bits);
    }
    [[nodiscard]] base::result<void> protect(base::granule range) const;
    void insert(base::granule range) noexcept;
    [[nodiscard]] bool erase(base::granule range) noexcept;

    segment::page_access* access_ = nullptr;
    segment::page_access::rights left_ = segment::page_access::rights::none;
    std::uint64_t granules_ = 0;
    std::atomic<std::uint64_t> limit_{0};
    std::atomic<std::uint64_t> count_{0};
    std::atomic<std::uint64_t> end_{0};  ///< granules; all guard ranges so far were below it
    base::sparse_table<std::uint64_t> words_;
};

}  // namespace holdfast::slab
