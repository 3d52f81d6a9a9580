#include "heap/registry.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "heap/heap.hpp"

namespace holdfast::heap {

namespace {

struct registry {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, engine*> open;
    std::unordered_multimap<std::uint64_t, const engine*> readers;
};

registry& the_registry();

/// A bit for each open heap: most words are told from keys without a lock.
constinit std::atomic<std::uint64_t> keys_filter{0};

std::uint64_t filter_bit(std::uint64_t key) noexcept {
    return std::uint64_t{1} << (key * 0x9e37'79b9'7f4a'7c15U >> 58U);
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

void abandon_in_child() noexcept {
    registry& all = the_registry();
    new (&all.mutex) std::mutex;  // a thread that the child lacks may hold it
    for (const auto& [key, opened] : all.open) {
        opened->forks().abandon_in_child();
    }
}

/// Never destroyed: threads may free memory while the process exits.
registry& the_registry() {
    static registry* const instance = [] {
        ::pthread_atfork(nullptr, nullptr, abandon_in_child);
        return new registry;  // lint-allow(hand-memory): never destroyed
    }();
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
    publish_change(all);
    return {};
}

base::result<void> register_reader(engine& opened) {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    try {
        all.readers.emplace(opened.key(), &opened);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        what.path = opened.files().paths().directory();
        return what;
    }
    publish_change(all);
    return {};
}

void unregister_engine(const engine& closed) noexcept {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
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

bool names_another_heap(std::uint64_t own, std::span<const std::byte> words) noexcept {
    const std::uint64_t filter = keys_filter.load(std::memory_order_relaxed);
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= words.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, words.data() + at, sizeof word);
        if (word == own || (filter & filter_bit(word)) == 0) {
            continue;
        }
        registry& all = the_registry();
        const std::lock_guard guard(all.mutex);
        if (all.open.contains(word) || all.readers.contains(word)) {
            return true;
        }
    }
    return false;
}

namespace detail {

engine* find_engine_slow(std::uint64_t key) noexcept {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    const auto found = all.open.find(key);
    if (found == all.open.end()) {
        return nullptr;
    }
    looked_up = {key, generation.load(std::memory_order_relaxed), found->second, all.readers.contains(key)};
    return found->second;
}

bool is_in_reader(std::uint64_t key, const void* address) noexcept {
    registry& all = the_registry();
    const std::lock_guard guard(all.mutex);
    const auto [first, last] = all.readers.equal_range(key);
    return std::any_of(first, last, [address](const auto& one) {
        const segment::heap_files& files = one.second->files();
        return files.view().offset(address).value < base::to_bytes(files.frontier());
    });
}

}  // namespace detail

}  // namespace holdfast::heap
