#include "simulator/transact/container_explorer.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "heap/registry.hpp"
#include "segment/commit/recovery.hpp"

namespace holdfast::simulator {

namespace {

/// Of this thread: the allocation that fails; 0: none does.
thread_local std::uint64_t failing_allocation = 0;
thread_local std::uint64_t allocations = 0;

void count_allocation() {
    if (++allocations == failing_allocation) {
        throw bad_alloc("the test's", errc::out_of_memory);
    }
}

struct given_up : std::exception {};

}  // namespace

}  // namespace holdfast::simulator

// Each allocation of a container comes by these; the linker leads it here first (--wrap).
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
void* __real__ZN8holdfast6detail8allocateEmmm(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment);
void* __wrap__ZN8holdfast6detail8allocateEmmm(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment);
void* __wrap__ZN8holdfast6detail8allocateEmmm(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) {
    holdfast::simulator::count_allocation();
    return __real__ZN8holdfast6detail8allocateEmmm(heap_key, bytes, alignment);
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}

namespace holdfast::simulator {

using segment::must;

container_explorer::container_explorer(std::uint64_t seed, std::uint64_t atom_size, const choice_limits& cuts)
    : storage_((std::filesystem::create_directory(scratch_.path("live")), scratch_.path("live")), atom_size),
      atom_size_(atom_size),
      cuts_(cuts),
      random_(seed) {
    options_.files.segment_size = segment::minimum_segment_size;
    options_.files.mapping.reservation = base::gibibyte / 4;
    // Half of them as a heap that is used for long: its pages stay in memory behind small commits.
    options_.files.mapping.watch =
        seed % 2 == 0 ? segment::store_watch::everywhere : segment::store_watch::where_it_pays;
    options_.decay_ns = seed % 3 == 0 ? 0 : heap::default_decay_ns;
    options_.storage = &storage_;
    open(true);
    container_world(*heap_).create();
    heap_->commit();
    versions_.push_back(live());
    storage_.set_observer([this] { cut(); });
}

container_explorer::~container_explorer() {
    storage_.set_observer({});
    if (heap_ != nullptr) {
        heap_->close(false);
    }
}

std::unique_ptr<manager> container_explorer::manage(heap::engine* opened) const {
    auto core = std::make_unique<detail::manager_core>(std::unique_ptr<heap::engine>(opened), true, false);
    return std::make_unique<manager>(detail::manager_access::make(detail::core_owner(core.release())));
}

void container_explorer::open(bool creates) {
    const std::string path = scratch_.path("live/heap");
    heap_ = manage(must(creates ? heap::engine::create(path, options_)
                                : heap::engine::open(path, persist::access_mode::read_write, options_))
                       .release());
}

void container_explorer::run(unsigned transactions) {
    try {
        for (unsigned i = 0; i < transactions && wrong_.empty(); ++i) {
            run_one();
        }
        if (wrong_.empty()) {
            reopen();
        }
    } catch (const std::exception& thrown) {
        note(fmt::format("{}, at {}", thrown.what(), storage_.position()));
    }
    counts_.images = images_.size();
}

void container_explorer::run_one() {
    const container_program program = random_program(random_);
    abort_everywhere(program);
    container_model expected = versions_.back().content;
    carry_out(program, expected);
    const auto whole = [&] {
        run_body(program);
        add(live());
        if (!(versions_.back().content == expected)) {
            note("a transaction leaves something else");
        }
    };
    switch (random_() % 8) {
        case 0:
            store(program);
            add(live());
            heap_->commit();
            break;
        case 2: {  // what is stored behind the capture is not in it
            store(program);
            add(live());
            const ticket taken = heap_->commit_later();
            store(random_program(random_));
            heap_->sync(taken);
            returned();
            add(live());
            heap_->commit();
            break;
        }
        case 1: {
            const ticket durable = heap_->transact_later(whole);
            if (random_() % 2 == 0) {
                expect_live("after transact_later()");
                return;  // the next one makes it durable
            }
            heap_->sync(durable);
            break;
        }
        default: heap_->transact(whole); break;
    }
    returned();
    ++counts_.transactions;
    expect_live("after a transaction");
    if (random_() % 12 == 0) {
        reopen();
    }
}

/// Outside of a transaction.
void container_explorer::store(const container_program& program) const {
    for (const container_step& step : program.steps) {
        container_world(*heap_).carry_out(step);
    }
}

void container_explorer::run_body(const container_program& program) const {
    const container_world world(*heap_);
    const auto run = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i) {
            world.carry_out(program.steps[i]);
        }
    };
    const auto [begin, end] = program.part;
    run(0, begin);
    if (begin != end) {
        try {
            heap_->transact([&] {
                run(begin, end);
                if (program.drops_part) {
                    throw given_up();
                }
            });
        } catch (const given_up&) {  // as planned
        }
    }
    run(end, program.steps.size());
}

void container_explorer::abort_everywhere(const container_program& program) {
    constexpr std::uint64_t most = 24;
    allocations = 0;
    abort(program, 0);
    const std::uint64_t all = allocations;
    for (std::uint64_t i = 0; i < std::min(all, most) && wrong_.empty(); ++i) {
        abort(program, all <= most ? i + 1 : 1 + i * (all - 1) / (most - 1));
    }
}

/// At that allocation; 0: at the end.
void container_explorer::abort(const container_program& program, std::uint64_t allocation) {
    allocations = 0;
    failing_allocation = allocation;
    try {
        heap_->transact([&] {
            run_body(program);
            failing_allocation = 0;
            throw given_up();  // one that only makes room may fail and nobody is told
        });
    } catch (const given_up&) {  // as planned
    } catch (const bad_alloc&) {
        if (failing_allocation == 0) {
            throw;
        }
    }
    failing_allocation = 0;
    ++counts_.aborts;
    cut();
    expect_live("after an abort");
}

void container_explorer::reopen() {
    const bool loses = versions_.size() == 1 && random_() % 2 == 0;
    if (loses) {
        heap_->close(false);
    } else {
        heap_->close();
        returned();
    }
    heap_.reset();
    open(false);
    expect_live("after an opening");
}

container_explorer::version container_explorer::live() const {
    const heap_statistics numbers = heap_->statistics();
    return {container_world(*heap_).content(), numbers.allocated_blocks, numbers.allocated_bytes};
}

void container_explorer::expect_live(const char* when) {
    if (!(live() == versions_.back())) {
        note(fmt::format("in the process that goes on, {}: {} blocks, expected {}", when, live().blocks,
                         versions_.back().blocks));
    }
    if (const std::vector<std::string> problems = heap_->check(false); !problems.empty()) {
        note(fmt::format("in the process that goes on, {}: {}", when, problems.front()));
    }
}

/// From now on a crash may leave it.
void container_explorer::add(version next) {
    if (!(next == versions_.back())) {
        versions_.push_back(std::move(next));
    }
}

void container_explorer::returned() {
    while (versions_.size() > 1) {
        versions_.pop_front();
        ++first_;
    }
    cut();
}

void container_explorer::cut() {
    if (!wrong_.empty()) {
        return;
    }
    storage_.for_each_crash_image(cuts_, ++moments_, [&](const storage_image& left) {
        visit(left);
        return wrong_.empty();
    });
}

void container_explorer::visit(const storage_image& left) {
    const std::uint64_t content = left.hash();
    if (!seen_.insert(mix(mix(content, first_), versions_.size()))) {
        return;
    }
    images_.insert(content);
    recovered found = recover(left);
    std::string wrong = std::move(found.wrong);
    if (wrong.empty()) {
        if (const auto known = known_.find(found.contents); known == known_.end()) {
            std::uint64_t number = 0;
            wrong = look(left, number);
            known_[found.contents] = number;
        } else if (known->second < first_ || known->second >= first_ + versions_.size()) {
            wrong = fmt::format("version {}", known->second);
        }
    }
    if (!wrong.empty()) {
        note(fmt::format("{}\n  versions allowed: {} to {}\n  cut at {}", wrong, first_, first_ + versions_.size() - 1,
                         storage_.position()));
    }
}

container_explorer::recovered container_explorer::recover(const storage_image& left) const {
    simulated_storage machine(left, atom_size_);
    machine.run_in_peace();
    const auto done =
        segment::recover(machine, segment::heap_paths(scratch_.path("live/heap")), persist::access_mode::read_write);
    return done ? recovered{machine.current().hash(), {}} : recovered{0, done.error().message()};
}

std::string container_explorer::look(const storage_image& left, std::uint64_t& number) {
    ++counts_.opened;
    const std::string target = scratch_.path("look");  // behind "live": a transaction within that of the other
    std::filesystem::create_directory(target);
    must(storage_.materialise(left, target));
    heap::engine* const here = heap_ == nullptr ? nullptr : &detail::manager_access::core(*heap_).engine();
    if (here != nullptr) {
        heap::unregister_engine(*here);  // a process cannot have two heaps with one key
    }
    const std::uint64_t fails = std::exchange(failing_allocation, 0);
    const std::uint64_t counted = allocations;
    std::string wrong;
    try {
        wrong = judge(target + "/heap", number);
    } catch (const std::exception& thrown) {
        wrong = thrown.what();
    }
    failing_allocation = fails;
    allocations = counted;
    if (here != nullptr) {
        must(heap::register_engine(*here));
    }
    std::filesystem::remove_all(target);
    return wrong;
}

std::string container_explorer::judge(const std::string& path, std::uint64_t& number) {
    heap::engine_options options = options_;
    options.storage = &persist::posix_storage();
    const auto heap = manage(must(heap::engine::open(path, persist::access_mode::read_write, options)).release());
    const heap_statistics numbers = heap->statistics();
    const version found{container_world(*heap).content(), numbers.allocated_blocks, numbers.allocated_bytes};
    const std::vector<std::string> problems = heap->check(true);
    if (!problems.empty()) {
        return problems.front();
    }
    for (std::size_t i = 0; i < versions_.size(); ++i) {
        if (versions_[i] == found) {
            number = first_ + i;
            return counts_.opened % 4 == 0 ? go_on(*heap) : std::string{};
        }
    }
    const bool is_content =
        std::ranges::any_of(versions_, [&](const version& one) { return one.content == found.content; });
    return is_content ? fmt::format("{} blocks of {} bytes, expected {} of {}", found.blocks, found.bytes,
                                    versions_.back().blocks, versions_.back().bytes)
                      : "what no transaction has left";
}

std::string container_explorer::go_on(manager& heap) const {
    std::mt19937_64 random(counts_.opened);
    container_model expected = container_world(heap).content();
    container_program program = random_program(random);
    program.part = {};
    heap.transact([&] {
        for (const container_step& step : program.steps) {
            container_world(heap).carry_out(step);
        }
    });
    carry_out(program, expected);
    const bool is_equal = container_world(heap).content() == expected;
    const std::vector<std::string> problems = heap.check(true);
    heap.close();
    return !is_equal          ? "another transaction leaves something else"
           : problems.empty() ? std::string{}
                              : "afterwards: " + problems.front();
}

void container_explorer::note(const std::string& wrong) {
    if (wrong_.empty()) {
        wrong_ = wrong;
    }
}

}  // namespace holdfast::simulator
