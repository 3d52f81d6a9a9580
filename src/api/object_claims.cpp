#include "api/object_claims.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <new>

#include "base/fork_mutex.hpp"
#include "base/process_identity.hpp"

namespace holdfast::detail {

namespace {

constinit base::fork_mutex claims_mutex{base::fork_rank::object_claims};

/// By address. A claim of a closed heap does not count: another heap may lie there by now.
using object_claims = std::map<const void*, heap_watch>;

/// 0: there are none, and who asks needs no lock.
constinit std::atomic<std::size_t> claims_in_all{0};

/// Never destroyed: destructors of static objects may still close indexes. Made without memory of the heap, because who
/// asks for a claim cannot fail.
object_claims& all_claims() HF_REQUIRES(claims_mutex) {
    alignas(object_claims) static std::array<std::byte, sizeof(object_claims)> place;
    static object_claims* const claims = new (place.data()) object_claims;  // lint-allow(hand-memory): see above
    return *claims;
}

}  // namespace

bool claim_object(const void* address, const heap_watch& heap) {
    const base::scoped_lock lock(claims_mutex);
    const auto [claim, is_new] = all_claims().try_emplace(address, heap);
    if (!is_new && claim->second.goes_on()) {
        return false;
    }
    claim->second = heap;
    claims_in_all.store(all_claims().size(), std::memory_order_release);
    return true;
}

void release_object(const void* address, const heap_watch& heap) noexcept {
    const base::scoped_lock lock(claims_mutex);
    const auto claim = all_claims().find(address);
    if (claim != all_claims().end() && claim->second == heap) {
        all_claims().erase(claim);
        claims_in_all.store(all_claims().size(), std::memory_order_release);
    }
}

bool is_claimed_object(const void* address) noexcept {
    const base::scoped_lock lock(claims_mutex);
    const auto claim = all_claims().find(address);
    return claim != all_claims().end() && claim->second.goes_on();
}

bool has_claimed_objects(const heap_watch& heap) noexcept {
    if (claims_in_all.load(std::memory_order_acquire) == 0) {
        return false;
    }
    const base::scoped_lock lock(claims_mutex);
    return std::ranges::any_of(all_claims(), [&heap](const auto& claim) { return claim.second == heap; });
}

std::uint64_t process_identity() noexcept { return base::process_identity(); }

}  // namespace holdfast::detail
