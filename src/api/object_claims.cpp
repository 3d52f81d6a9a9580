#include <map>
#include <mutex>

#include <holdfast/detail/heap_watch.hpp>

namespace holdfast::detail {

namespace {

/// By address. A claim of a closed heap does not count: another heap may lie there by now.
class object_claims {
public:
    [[nodiscard]] bool add(const void* address, const heap_watch& heap) {
        const std::lock_guard lock(mutex_);
        const auto [claim, is_new] = all_.try_emplace(address, heap);
        if (!is_new && claim->second.goes_on()) {
            return false;
        }
        claim->second = heap;
        return true;
    }
    void remove(const void* address, const heap_watch& heap) noexcept {
        const std::lock_guard lock(mutex_);
        const auto claim = all_.find(address);
        if (claim != all_.end() && claim->second == heap) {
            all_.erase(claim);
        }
    }
    [[nodiscard]] bool has(const void* address) noexcept {
        const std::lock_guard lock(mutex_);
        const auto claim = all_.find(address);
        return claim != all_.end() && claim->second.goes_on();
    }

private:
    std::mutex mutex_;
    std::map<const void*, heap_watch> all_;
};

object_claims& all_claims() {
    // Never destroyed: destructors of static objects may still close indexes.
    static object_claims* const claims = new object_claims;  // lint-allow(hand-memory): never destroyed
    return *claims;
}

}  // namespace

bool claim_object(const void* address, const heap_watch& heap) { return all_claims().add(address, heap); }
void release_object(const void* address, const heap_watch& heap) noexcept { all_claims().remove(address, heap); }
bool is_claimed_object(const void* address) noexcept { return all_claims().has(address); }

}  // namespace holdfast::detail
