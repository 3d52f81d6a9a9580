#include "store/environment_place.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/fork_mutex.hpp"
#include "store/transaction.hpp"

namespace holdfast::store_engine {
namespace {

// The lists are never destroyed: static objects may close stores. They are made under their locks, or a child of fork
// could find one half made.

constinit base::fork_mutex places_mutex{base::fork_rank::environments};
constinit base::fork_mutex addresses_mutex{base::fork_rank::addresses_of_values};

class environment_places {
public:
    static environment_places& all() HF_REQUIRES(places_mutex) {
        static auto* const one = std::make_unique<environment_places>().release();
        return *one;
    }
    environment_place& take() HF_REQUIRES(places_mutex) {
        if (unused_.empty()) {
            unused_.reserve(places_.size() + 1);  // give() needs no memory
            places_.push_back(std::make_unique<environment_place>());
            return *places_.back();
        }
        environment_place& taken = *unused_.back();
        unused_.pop_back();
        return taken;
    }
    void give(environment_place& place) noexcept HF_REQUIRES(places_mutex) { unused_.push_back(&place); }

private:
    std::vector<std::unique_ptr<environment_place>> places_;
    std::vector<environment_place*> unused_;
};

/// Addresses at which values of closed environments lay. Some programs read values late, as iterators of the Python
/// package lmdb do. They find zeros there; liblmdb would show them memory that was freed.
class addresses_of_values {
public:
    static constexpr std::size_t most = 16;

    static addresses_of_values& all() HF_REQUIRES(addresses_mutex) {
        static auto* const one = std::make_unique<addresses_of_values>().release();
        return *one;
    }
    void keep(const std::byte* start, std::size_t size) noexcept HF_REQUIRES(addresses_mutex) {
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        void* const wanted = const_cast<std::byte*>(start);
        void* const at = ::mmap(wanted, size, PROT_READ, flags, -1, 0);
        if (at == MAP_FAILED) {
            return;  // another thread has mapped something there
        }
        kept_[next_++ % kept_.size()] = mapping(static_cast<std::byte*>(at), size);
    }
    /// A limit of addresses counts these, too.
    void unreserve_if_limited() noexcept HF_REQUIRES(addresses_mutex) {
        struct rlimit limit {};
        if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
            for (mapping& one : kept_) {
                const mapping gone = std::move(one);
            }
        }
    }

private:
    std::array<mapping, most> kept_;
    std::size_t next_ = 0;
};

}  // namespace

environment& create_environment(persist::storage& storage) {
    {
        const base::scoped_lock lock(addresses_mutex);
        addresses_of_values::all().unreserve_if_limited();
    }
    environment_place& place = []() -> environment_place& {
        const base::scoped_lock lock(places_mutex);
        return environment_places::all().take();
    }();
    environment& made = place.held.emplace(storage);
    made.set_place(place);
    return made;
}

void close_environment(environment& env) noexcept {
    if (env.store().pages().shared().is_of_parent()) {
        leave_to_parent(env);
        env.place()->closes.fetch_add(1);
        return;
    }
    if (transaction* const writer = env.writer(); writer != nullptr) {
        if (env.writes_in_this_thread()) {
            writer->lose_environment();
        } else if (env.leave_to_writer()) {
            return;
        }
    }
    environment_place& place = *env.place();
    struct address_range {
        const std::byte* start;
        std::size_t size;
    };
    std::array<address_range, addresses_of_values::most> ranges{};
    std::size_t count = 0;
    env.store().pages().file().for_each_address_range([&](const std::byte* start, std::size_t size) {
        if (size != 0 && count < ranges.size()) {
            ranges.at(count++) = {start, size};
        }
    });
    place.closes.fetch_add(1);
    place.held.reset();
    {
        const base::scoped_lock lock(addresses_mutex);
        for (const address_range& one : std::span(ranges).first(count)) {
            addresses_of_values::all().keep(one.start, one.size);
        }
    }
    const base::scoped_lock lock(places_mutex);
    environment_places::all().give(place);
}

}  // namespace holdfast::store_engine
