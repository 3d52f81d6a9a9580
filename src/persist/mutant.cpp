#include "persist/mutant.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <unordered_set>

#include "base/assert.hpp"

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

    std::mutex mutex;
    std::set<seen_site> seen;
    std::string selected = from_environment("HOLDFAST_MUTANT");
    // These two save the lock in most calls, of which the tests make many millions.
    std::atomic<bool> any_selected{!selected.empty()};
    std::atomic<unsigned> generation{1};
};

registry& sites() {
    static registry instance;
    return instance;
}

thread_local step_function this_thread_step = nullptr;

/// Whether this thread's noted_sites are gone: other destructors of a thread that ends may come to sites after it.
thread_local bool noted_are_gone = false;

/// The site names that this thread has recorded already, by address.
struct noted_sites {
    noted_sites() = default;
    noted_sites(const noted_sites&) = delete;
    noted_sites& operator=(const noted_sites&) = delete;
    ~noted_sites() { noted_are_gone = true; }

    unsigned generation = 0;
    std::unordered_set<const void*> addresses;
};

/// Whether this thread comes to the site for the first time since the sites were forgotten.
bool is_new_here(site where, unsigned generation) {
    if (noted_are_gone) {
        return true;
    }
    thread_local noted_sites noted;
    if (noted.generation != generation) {
        noted.addresses.clear();
        noted.generation = generation;
    }
    return noted.addresses.insert(where).second;
}

}  // namespace

bool mutant_active(site where, site_kind kind) {
    if (kind == site_kind::code && this_thread_step != nullptr) {
        this_thread_step(where);
    }
    auto& all = sites();
    if (is_new_here(where, all.generation.load(std::memory_order_acquire))) {
        const std::lock_guard lock{all.mutex};
        all.seen.insert({where, kind});
    }
    if (!all.any_selected.load(std::memory_order_acquire)) {
        return false;
    }
    const std::lock_guard lock{all.mutex};
    return all.selected == where;
}

void set_step_function(step_function call) noexcept { this_thread_step = call; }

std::vector<seen_site> seen_sites() {
    auto& all = sites();
    const std::lock_guard lock{all.mutex};
    return {all.seen.begin(), all.seen.end()};
}

void forget_sites() {
    auto& all = sites();
    const std::lock_guard lock{all.mutex};
    all.seen.clear();
    all.generation.fetch_add(1, std::memory_order_acq_rel);
}

mutant_selection::mutant_selection(const std::string& name) {
    auto& all = sites();
    const std::lock_guard lock{all.mutex};
    HF_ASSERT(!all.any_selected.load(std::memory_order_relaxed));
    all.selected = name;
    all.any_selected.store(true, std::memory_order_release);
}

mutant_selection::~mutant_selection() {
    auto& all = sites();
    const std::lock_guard lock{all.mutex};
    all.selected.clear();
    all.any_selected.store(false, std::memory_order_release);
}

#endif

}  // namespace holdfast::persist
