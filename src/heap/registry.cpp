#include "heap/registry.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/fork_mutex.hpp"
#include "heap/heap.hpp"

namespace holdfast::heap {

namespace {

constinit base::fork_mutex registry_mutex{base::fork_rank::open_heaps};

struct named_heap {
    std::uint64_t name = 0;
    const engine* opened = nullptr;
};

struct registry {
    std::unordered_map<std::uint64_t, engine*> open;
    std::unordered_multimap<std::uint64_t, const engine*> readers;
    std::vector<named_heap> named;  ///< all of them; writers first
};

registry& the_registry() HF_REQUIRES(registry_mutex);

/// A bit for each open heap: most words are told from keys without a lock.
constinit std::atomic<std::uint64_t> keys_filter{0};

std::uint64_t filter_bit(std::uint64_t key) noexcept {
    return std::uint64_t{1} << (key * 0x9e37'79b9'7f4a'7c15U >> 58U);
}

std::uint64_t name_of(const engine& heap) noexcept {
    std::uint64_t name = 0;
    std::memcpy(&name, heap.files().superblock().uuid, sizeof name);
    return name;
}

mapped_heap place_of(const named_heap& heap) noexcept {
    const segment::heap_files& files = heap.opened->files();
    return {heap.name, reinterpret_cast<std::uintptr_t>(files.view().base()), base::to_bytes(files.frontier())};
}

/// Under the registry's lock.
void publish_change(const registry& all) noexcept {
    std::uint64_t filter = 0;
    for (const auto& one : all.open) {
        filter |= filter_bit(one.first);
    }
    for (const auto& one : all.readers) {
        filter |= filter_bit(one.first);
    }
    keys_filter.store(filter, std::memory_order_relaxed);
    detail::generation.fetch_add(1, std::memory_order_release);
}

/// Never destroyed: threads may free memory while the process exits. Made under the lock, or a child of fork could find
/// it half made.
registry& the_registry() {
    static registry* const instance = new registry;  // lint-allow(hand-memory): never destroyed
    return *instance;
}

/// Of the first heap for which `wanted` is true.
template <class Wanted>
mapped_heap find_place(Wanted wanted) noexcept {
    const base::scoped_lock guard(registry_mutex);
    const std::vector<named_heap>& named = the_registry().named;
    for (const named_heap& one : named) {
        const mapped_heap place = place_of(one);
        if (wanted(place)) {
            // A reader beside the writer is not remembered: its name leads to the writer.
            if (std::ranges::find(named, one.name, &named_heap::name)->opened == one.opened) {
                detail::mapped_last = {detail::generation.load(std::memory_order_relaxed), place};
            }
            return place;
        }
    }
    return {};
}

void abandon_in_child() noexcept {
    const base::scoped_lock guard(registry_mutex);
    for (const auto& [key, opened] : the_registry().open) {
        opened->forks().abandon_in_child();
    }
}

/// Behind the handlers of fork_mutex, and before those of an allocator with a gate.
constexpr int before_others = 102;
[[gnu::constructor(before_others)]] void register_handler() noexcept {
    ::pthread_atfork(nullptr, nullptr, abandon_in_child);
}

base::result<void> add_engine(registry& all, engine& opened) HF_REQUIRES(registry_mutex) {
    all.named.reserve(all.named.size() + 1);
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
    all.named.insert(all.named.begin(), {name_of(opened), &opened});
    publish_change(all);
    return {};
}

base::result<void> add_reader(registry& all, engine& opened) HF_REQUIRES(registry_mutex) {
    try {
        all.named.reserve(all.named.size() + 1);
        all.readers.emplace(opened.key(), &opened);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        what.path = opened.files().paths().directory();
        return what;
    }
    all.named.push_back({name_of(opened), &opened});
    publish_change(all);
    return {};
}

void remove_engine(registry& all, const engine& closed) noexcept HF_REQUIRES(registry_mutex) {
    std::erase_if(all.named, [&](const named_heap& one) { return one.opened == &closed; });
    const auto found = all.open.find(closed.key());
    if (found != all.open.end() && found->second == &closed) {
        all.open.erase(found);
        publish_change(all);
    }
    const auto readers = all.readers.equal_range(closed.key());
    const auto reader =
        std::find_if(readers.first, readers.second, [&](const auto& one) { return one.second == &closed; });
    if (reader != readers.second) {
        all.readers.erase(reader);
        publish_change(all);
    }
}

}  // namespace

base::result<void> register_engine(engine& opened) {
    const base::scoped_lock guard(registry_mutex);
    return add_engine(the_registry(), opened);
}

base::result<void> register_reader(engine& opened) {
    const base::scoped_lock guard(registry_mutex);
    return add_reader(the_registry(), opened);
}

void unregister_engine(const engine& closed) noexcept {
    const base::scoped_lock guard(registry_mutex);
    remove_engine(the_registry(), closed);
}

base::result<void> make_engine_of_reader(engine& opened) {
    const base::scoped_lock guard(registry_mutex);
    remove_engine(the_registry(), opened);
    return add_engine(the_registry(), opened);
}

base::result<void> make_reader_of_engine(engine& opened) {
    const base::scoped_lock guard(registry_mutex);
    remove_engine(the_registry(), opened);
    return add_reader(the_registry(), opened);
}

bool names_another_heap(std::uint64_t own, std::span<const std::byte> words) noexcept {
    const std::uint64_t filter = keys_filter.load(std::memory_order_relaxed);
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= words.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, words.data() + at, sizeof word);
        if (word == own || (filter & filter_bit(word)) == 0) {
            continue;
        }
        const base::scoped_lock guard(registry_mutex);
        const registry& all = the_registry();
        if (all.open.contains(word) || all.readers.contains(word)) {
            return true;
        }
    }
    return false;
}

namespace detail {

constinit thread_local last_mapped mapped_last{};

mapped_heap find_mapped_slow(std::uint64_t name) noexcept {
    return find_place([name](const mapped_heap& place) { return place.name == name; });
}

mapped_heap find_mapped_at_slow(std::uintptr_t address) noexcept {
    return find_place([address](const mapped_heap& place) { return place.contains(address); });
}

engine* find_engine_slow(std::uint64_t key) noexcept {
    const base::scoped_lock guard(registry_mutex);
    registry& all = the_registry();
    const auto found = all.open.find(key);
    if (found == all.open.end()) {
        return nullptr;
    }
    looked_up = {key, generation.load(std::memory_order_relaxed), found->second, all.readers.contains(key)};
    return found->second;
}

bool is_in_reader(std::uint64_t key, const void* address) noexcept {
    const base::scoped_lock guard(registry_mutex);
    registry& all = the_registry();
    const auto [first, last] = all.readers.equal_range(key);
    return std::any_of(first, last, [address](const auto& one) {
        const segment::heap_files& files = one.second->files();
        return files.view().offset(address).value < base::to_bytes(files.frontier());
    });
}

}  // namespace detail

}  // namespace holdfast::heap
