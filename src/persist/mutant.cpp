#include "persist/mutant.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <set>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/fork_mutex.hpp"

namespace holdfast::persist {

std::string_view to_string(site_kind kind) noexcept {
    switch (kind) {
        case site_kind::write: return "write";
        case site_kind::sync: return "sync";
        case site_kind::size: return "size";
        case site_kind::name: return "name";
        case site_kind::sync_directory: return "sync_directory";
        case site_kind::flush: return "flush";
        case site_kind::fence: return "fence";
        case site_kind::code: return "code";
    }
    return "unknown";
}

#if HOLDFAST_MUTANTS

namespace {

std::string from_environment(const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return value == nullptr ? std::string() : value;
}

struct registry {
    registry() = default;
    registry(const registry&) = delete;
    registry& operator=(const registry&) = delete;
    ~registry() {
        if (const std::string file = from_environment("HOLDFAST_SEEN_SITES"); !file.empty()) {
            std::ofstream out(file, std::ios::app);
            for (const seen_site& one : seen) {
                out << to_string(one.kind) << ' ' << one.name << '\n';
            }
        }
    }

    base::fork_mutex mutex{base::fork_rank::sites};
    std::set<seen_site> seen;
    std::string selected = from_environment("HOLDFAST_MUTANT");
    // They save most of millions of calls the lock.
    std::atomic<bool> any_selected{!selected.empty()};
    std::atomic<unsigned> generation{1};
};

registry& sites() {
    // Never destroyed: destructors of static objects may still close heaps.
    static auto* const instance = new registry;  // lint-allow(hand-memory): never destroyed
    return *instance;
}

thread_local step_function this_thread_step = nullptr;
thread_local media_function this_thread_media = nullptr;

/// Addresses of recorded names, each at one place. Few: a library that is loaded late has little thread-local memory.
/// Trivially destructible: other objects of a thread pass sites when they are destroyed.
struct noted_sites {
    unsigned generation = 0;
    std::array<const void*, 64> addresses{};

    [[nodiscard]] bool note(const void* address) noexcept {
        const auto number = reinterpret_cast<std::uintptr_t>(address);
        const void*& place = addresses[(number ^ number >> 8U) % addresses.size()];
        return std::exchange(place, address) == address;
    }
};
static_assert(std::is_trivially_destructible_v<noted_sites>);

}  // namespace

bool mutant_active(site where, site_kind kind) {
    if (kind == site_kind::code && this_thread_step != nullptr) {
        this_thread_step(where);
    }
    thread_local noted_sites noted;
    auto& all = sites();
    if (const unsigned now = all.generation.load(std::memory_order_acquire); noted.generation != now) {
        noted = {now, {}};
    }
    if (!noted.note(where)) {
        try {
            const base::scoped_lock lock(all.mutex);
            all.seen.insert({where, kind});
        } catch (const std::bad_alloc&) {  // callers throw nothing
        }
    }
    if (!all.any_selected.load(std::memory_order_acquire)) {
        return false;
    }
    const base::scoped_lock lock(all.mutex);
    return all.selected == where;
}

void set_step_function(step_function call) noexcept { this_thread_step = call; }

void set_media_function(media_function call) noexcept { this_thread_media = call; }
void tell_media(media_step step, const void* begin, std::size_t bytes) noexcept {
    if (this_thread_media != nullptr) {
        this_thread_media(step, begin, bytes);
    }
}

std::vector<seen_site> seen_sites() {
    auto& all = sites();
    const base::scoped_lock lock(all.mutex);
    return {all.seen.begin(), all.seen.end()};
}

void forget_sites() {
    auto& all = sites();
    const base::scoped_lock lock(all.mutex);
    all.seen.clear();
    all.generation.fetch_add(1, std::memory_order_acq_rel);
}

mutant_selection::mutant_selection(const std::string& name) {
    auto& all = sites();
    const base::scoped_lock lock(all.mutex);
    HF_ASSERT(!all.any_selected.load(std::memory_order_relaxed));
    all.selected = name;
    all.any_selected.store(true, std::memory_order_release);
}

mutant_selection::~mutant_selection() {
    auto& all = sites();
    const base::scoped_lock lock(all.mutex);
    all.selected.clear();
    all.any_selected.store(false, std::memory_order_release);
}

#endif

}  // namespace holdfast::persist
