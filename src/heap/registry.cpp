#include "heap/registry.hpp"

#include <mutex>
#include <unordered_map>

#include "heap/heap.hpp"

namespace holdfast::heap {

namespace {

struct registry {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, engine*> open;
};

/// Never destroyed: threads may free memory while the process exits.
registry& the_registry() {
    static registry* const instance = new registry;  // lint-allow(hand-memory): never destroyed
    return *instance;
}

}  // namespace

base::result<void> register_engine(engine& opened) {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    const auto [place, added] = all.open.emplace(opened.key(), &opened);
    if (!added) {
        return base::failure{
            base::failure_code::locked,
            opened.files().paths().directory(),
            "heap key",
            "open for writing in this process as " + place->second->files().paths().directory(),
            "no other copy of the heap",
            "allocators inside the heap name it by this key: open one of the two read-only, or in another process",
            0};
    }
    detail::generation.fetch_add(1, std::memory_order_release);
    return {};
}

void unregister_engine(const engine& closed) noexcept {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    const auto found = all.open.find(closed.key());
    if (found != all.open.end() && found->second == &closed) {
        all.open.erase(found);
        detail::generation.fetch_add(1, std::memory_order_release);
    }
}

namespace detail {

engine* find_engine_slowly(std::uint64_t key) noexcept {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    const auto found = all.open.find(key);
    if (found == all.open.end()) {
        return nullptr;
    }
    looked_up = {key, generation.load(std::memory_order_relaxed), found->second};
    return found->second;
}

}  // namespace detail

}  // namespace holdfast::heap
