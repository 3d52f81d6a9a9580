#include "simulator/transact/heap_store_explorer.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "heap/registry.hpp"
#include "store/environment_place.hpp"
#include "store/lmdb_api.hpp"

namespace holdfast::simulator {

namespace {

/// Of this thread: where the files of stores lie that it opens; null: on the kernel's file systems.
thread_local persist::storage* storage_of_stores = nullptr;

/// Of a store; each half of its log is 64 KiB then.
constexpr std::size_t limit_of_store = std::size_t{4} << 20U;
constexpr std::size_t longer_than_log = 70'000;

struct given_up : std::exception {};

}  // namespace

}  // namespace holdfast::simulator

// A store in a heap is opened by these; the linker leads there first (--wrap).
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
int __real_mdb_env_create(MDB_env** env);
int __wrap_mdb_env_create(MDB_env** env);
int __real_hf_lmdb_open_in_heap(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode,
                                const hf_lmdb_heap* heap);
int __wrap_hf_lmdb_open_in_heap(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode,
                                const hf_lmdb_heap* heap);
int __wrap_mdb_env_create(MDB_env** env) {
    if (holdfast::simulator::storage_of_stores == nullptr) {
        return __real_mdb_env_create(env);
    }
    *env = holdfast::store_engine::of(
        &holdfast::store_engine::create_environment(*holdfast::simulator::storage_of_stores));
    return 0;
}
/// The path leads to a descriptor; the simulator knows names.
int __wrap_hf_lmdb_open_in_heap(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode,
                                const hf_lmdb_heap* heap) {
    std::array<char, 4096> name{};
    const ssize_t length = ::readlink(path, name.data(), name.size() - 1);
    return __real_hf_lmdb_open_in_heap(env, length > 0 ? name.data() : path, flags, mode, heap);
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}

namespace holdfast::simulator {

using segment::must;

/// A heap that is open, with a map, and its stores.
class heap_store_explorer::world {
public:
    using number_map = map<int, std::uint64_t>;

    world(std::unique_ptr<heap::engine> opened, persist::storage* storage) {
        storage_of_stores = storage;
        auto core = std::make_unique<detail::manager_core>(std::move(opened), true, false);
        heap_ = std::make_unique<manager>(detail::manager_access::make(detail::core_owner(core.release())));
        numbers_ = heap_->find_or_construct<number_map>("numbers")();
        store_options limited;
        limited.limit = limit_of_store;
        first_.emplace(*heap_, "first", limited);
        second_.emplace(*heap_, "second", limited);
        storage_of_stores = nullptr;
    }

    [[nodiscard]] manager& heap() const noexcept { return *heap_; }
    [[nodiscard]] heap::engine& engine() const { return detail::manager_access::core(*heap_).engine(); }
    [[nodiscard]] number_map& map_of_numbers() const noexcept { return *numbers_; }
    [[nodiscard]] heap_store& first() noexcept { return *first_; }
    [[nodiscard]] heap_store& second() noexcept { return *second_; }
    [[nodiscard]] version content() const {
        version found;
        found.of_heap.insert(numbers_->begin(), numbers_->end());
        const auto read = [](const store& of, std::map<std::string, std::string>& into) {
            static_cast<void>(of.check());
            const store_view view = of.read();
            for (const auto& [key, value] : view.all()) {
                into.emplace(key, value);
            }
        };
        read(*first_, found.first);
        read(*second_, found.second);
        return found;
    }
    void close(bool commits) {
        first_.reset();
        second_.reset();
        heap_->close(commits);
    }

private:
    std::unique_ptr<manager> heap_;
    number_map* numbers_ = nullptr;
    std::optional<heap_store> first_;
    std::optional<heap_store> second_;
};

heap_store_explorer::heap_store_explorer(std::uint64_t seed, std::uint64_t atom_size, const choice_limits& cuts,
                                         std::uint64_t every)
    : storage_((std::filesystem::create_directory(scratch_.path("live")), scratch_.path("live")), atom_size),
      cuts_(cuts),
      every_(every),
      random_(seed) {
    options_.files.segment_size = segment::minimum_segment_size;
    options_.files.mapping.reservation = base::gibibyte / 4;
    options_.storage = &faulty_;
    storage_.record_mappings();
    open(true);
    world_->heap().commit();
    versions_.push_back(world_->content());
    storage_.set_observer([this] {
        if (storage_.operations() % every_ == 0) {
            cut();
        }
    });
}

heap_store_explorer::~heap_store_explorer() {
    storage_.set_observer({});
    storage_.let_syncs_work();
    faulty_.plan({});
    try {
        if (world_ != nullptr) {
            world_->close(false);
        }
    } catch (const error&) {  // one that takes no more has nothing to write
        return;
    }
}

void heap_store_explorer::open(bool creates) {
    const std::string path = scratch_.path("live/heap");
    world_ =
        std::make_unique<world>(must(creates ? heap::engine::create(path, options_)
                                             : heap::engine::open(path, persist::access_mode::read_write, options_)),
                                &faulty_);
}

void heap_store_explorer::run(unsigned steps) {
    try {
        for (unsigned i = 0; i < steps && wrong_.empty() && !has_failed_; ++i) {
            step();
        }
        if (wrong_.empty() && !has_failed_) {
            reopen();
        }
    } catch (const std::exception& thrown) {
        note(fmt::format("{}, at {}", thrown.what(), storage_.position()));
    }
    counts_.images = images_.size();
}

void heap_store_explorer::step() {
    switch (below(10)) {
        case 0: take_back(); break;
        case 1: alone(); break;
        case 2:
            world_->heap().commit();
            returned();
            break;
        case 3: transact_later(); break;
        default: transact(); break;
    }
    if (has_failed_) {
        return;
    }
    expect_live("after a step");
    if (below(12) == 0) {
        reopen();
    }
}

/// Some numbers in the map, and some entries in one store or both; now and then so large that a store's commit is a
/// checkpoint.
void heap_store_explorer::change(transaction& in, version& next) {
    for (std::uint64_t left = below(4); left > 0; --left) {
        const int key = static_cast<int>(below(40));
        if (below(3) == 0) {
            world_->map_of_numbers().erase(key);
            next.of_heap.erase(key);
        } else {
            const std::uint64_t number = random_();
            world_->map_of_numbers().insert_or_assign(key, number);
            next.of_heap[key] = number;
        }
    }
    const auto put = [&](heap_store& to, std::map<std::string, std::string>& model) {
        for (std::uint64_t left = 1 + below(3); left > 0; --left) {
            const std::string key = "key" + std::to_string(below(12));
            if (below(4) == 0) {
                to.write(in).erase(key);
                model.erase(key);
            } else {
                std::string value = fmt::format("{:016x}", random_());
                value.resize(below(6) == 0 ? longer_than_log : 16 + below(400), '.');
                to.write(in).put(key, value);
                model[key] = value;
            }
        }
    };
    const std::uint64_t which = below(8);
    if (which != 0) {
        put(world_->first(), next.first);
    }
    if (which < 4) {
        put(world_->second(), next.second);
    }
}

/// A transaction within one: kept, or dropped alone.
void heap_store_explorer::part(transaction& in, version& next) {
    if (below(3) != 0) {
        return;
    }
    const bool drops = below(2) == 0;
    version changed = next;
    try {
        world_->heap().transact([&](transaction& within) {
            change(within, changed);
            if (drops) {
                throw given_up();
            }
        });
        next = std::move(changed);
    } catch (const given_up&) {  // as planned
    }
    change(in, next);
}

void heap_store_explorer::transact_later() {
    const ticket later = world_->heap().transact_later([&](transaction& tx) { whole(tx); });
    if (below(2) == 0) {
        return;  // the next one makes it durable
    }
    world_->heap().sync(later);
    returned();
}

void heap_store_explorer::whole(transaction& tx) {
    version next = versions_.back();
    change(tx, next);
    part(tx, next);
    versions_.push_back(std::move(next));
}

void heap_store_explorer::let_a_call_fail() {
    if (below(3) == 0) {
        storage_.fail_sync(below(3));
    } else {
        faulty_.plan({1 + below(24), below(3) == 0 ? EIO : ENOSPC,
                      below(2) == 0 ? fault_plan::repeat::once : fault_plan::repeat::from_then_on});
    }
}

bool heap_store_explorer::takes_more() {
    try {
        static_cast<void>(world_->first().write());
        static_cast<void>(world_->second().write());
        return !world_->engine().files().commits().is_poisoned();
    } catch (const store_error&) {
        return false;
    }
}

void heap_store_explorer::transact() {
    const std::size_t before = versions_.size();
    const bool may_fail = below(4) == 0;
    if (may_fail) {
        let_a_call_fail();
    }
    std::string problem;
    try {
        world_->heap().transact([&](transaction& tx) { whole(tx); });
    } catch (const error& what) {
        problem = what.what();
        has_failed_ = what.reason() == errc::poisoned;
    } catch (const store_error& what) {
        problem = what.what();
    } catch (const std::bad_alloc& what) {
        problem = what.what();
    }
    storage_.let_syncs_work();
    faulty_.plan({});
    if (problem.empty()) {
        ++counts_.durable;
        returned();
        has_failed_ = may_fail && !takes_more();  // behind it
        return;
    }
    if (!may_fail) {
        note("refused: " + problem);
    }
    has_failed_ = has_failed_ || !takes_more();
    ++(has_failed_ ? counts_.poisoned : counts_.refused);
    if (!has_failed_) {
        versions_.resize(before);
        expect_live(problem.c_str());
    }
    storage_.look_at_mappings();
    cut();
}

void heap_store_explorer::take_back() {
    ++counts_.aborts;
    version next = versions_.back();
    const std::uint64_t how = below(3);
    try {
        world_->heap().transact([&](transaction& tx) {
            change(tx, next);
            part(tx, next);
            if (how == 0) {
                tx.abort();
                return;
            }
            if (how == 1) {
                tx.commit();
            }
            throw given_up();
        });
    } catch (const given_up&) {  // as planned
    }
    cut();
}

/// Of a store by itself: durable with the next commit of the heap.
void heap_store_explorer::alone() {
    version next = versions_.back();
    const std::string key = "key" + std::to_string(below(12));
    next.first[key] = std::string(below(4) == 0 ? longer_than_log : 50, static_cast<char>('a' + below(26)));
    store_transaction in = world_->first().write();
    in.put(key, next.first[key]);
    in.commit();
    versions_.push_back(std::move(next));
    cut();
}

void heap_store_explorer::reopen() {
    const bool loses = versions_.size() == 1 && below(2) == 0;
    world_->close(!loses);
    world_.reset();
    if (!loses) {
        returned();
    }
    open(false);
    expect_live("after an opening");
}

void heap_store_explorer::expect_live(const char* when) {
    if (!(world_->content() == versions_.back())) {
        note(fmt::format("in the process that goes on, {}: another content", when));
    }
    if (const std::vector<std::string> problems = world_->heap().check(false); !problems.empty()) {
        note(fmt::format("in the process that goes on, {}: {}", when, problems.front()));
    }
}

void heap_store_explorer::returned() {
    while (versions_.size() > 1) {
        versions_.pop_front();
        ++first_;
    }
    storage_.look_at_mappings();
    cut();
}

void heap_store_explorer::cut() {
    if (!wrong_.empty()) {
        return;
    }
    storage_.for_each_crash_image(cuts_, ++moments_, [&](const storage_image& left) {
        visit(left);
        return wrong_.empty();
    });
}

void heap_store_explorer::visit(const storage_image& left) {
    const std::uint64_t content = left.hash();
    if (!seen_.insert(mix(mix(content, first_), versions_.size()))) {
        return;
    }
    images_.insert(content);
    if (const std::string wrong = look(left); !wrong.empty()) {
        note(fmt::format("{}\n  versions allowed: {} to {}\n  cut at {}", wrong, first_, first_ + versions_.size() - 1,
                         storage_.position()));
    }
}

std::string heap_store_explorer::look(const storage_image& left) {
    const std::string target = scratch_.path("look");  // behind "live": a transaction within that of the other
    std::filesystem::create_directory(target);
    must(storage_.materialise(left, target));
    heap::engine* const here = world_ == nullptr ? nullptr : &world_->engine();
    if (here != nullptr) {
        heap::unregister_engine(*here);  // a process cannot have two heaps with one key
    }
    persist::storage* const stores = std::exchange(storage_of_stores, nullptr);
    std::string wrong;
    try {
        wrong = judge(target + "/heap");
    } catch (const std::exception& thrown) {
        wrong = thrown.what();
    }
    storage_of_stores = stores;
    if (here != nullptr) {
        must(heap::register_engine(*here));
    }
    std::filesystem::remove_all(target);
    return wrong;
}

std::string heap_store_explorer::judge(const std::string& path) {
    heap::engine_options options = options_;
    options.storage = &persist::posix_storage();
    const auto open = [&] {
        return world(must(heap::engine::open(path, persist::access_mode::read_write, options)), nullptr);
    };
    world found = open();
    version content = found.content();
    const auto known = std::ranges::find(versions_, content);
    if (known == versions_.end()) {
        return "what no transaction has left in all";
    }
    counts_.older += std::next(known) != versions_.end() ? 1U : 0U;
    if (const std::vector<std::string> problems = found.heap().check(true); !problems.empty()) {
        return problems.front();
    }
    if (images_.size() % 4 == 0) {
        found.heap().transact([&](transaction& tx) {
            found.map_of_numbers().insert_or_assign(100, 1);
            found.first().write(tx).put("key3", "goes on");
            found.second().write(tx).put("key", std::string(images_.size() % 8 == 0 ? longer_than_log : 60, 'o'));
        });
        content = found.content();
        found.close(false);
        found = open();
        if (!(found.content() == content)) {
            return "another transaction left something else";
        }
    }
    found.close(true);
    return {};
}

void heap_store_explorer::note(const std::string& wrong) {
    if (wrong_.empty()) {
        wrong_ = wrong;
    }
}

}  // namespace holdfast::simulator
