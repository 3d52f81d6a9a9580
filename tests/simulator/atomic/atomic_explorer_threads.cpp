// The part of atomic_explorer for two threads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulator/atomic/atomic_explorer.hpp"

namespace holdfast::simulator {

void atomic_explorer::perform(unsigned thread, const std::vector<step>& part) {
    if (thread == 0) {
        const slab::thread_cache* const cache = session_->blocks().this_cache();
        lane_of_first_ = cache == nullptr ? nullptr : cache->own_lane;
    }
    for (const step& one : part) {
        if (one.what == verb::await) {
            while (progress_.at(1 - thread) < one.to && !(scheduler_->has_dead() && thread == 1)) {
                scheduler_->wait_for_other();
            }
        } else {
            static_cast<void>(runner_->run(one, thread));
        }
        ++progress_.at(thread);
    }
}

void atomic_explorer::prepare_scheduler() {
    if (scheduler_ == nullptr) {
        scheduler_ = std::make_unique<atomic_scheduler>();
        scheduler_->set_on_turn([this](unsigned thread) { memory_.set_thread(thread); });
    }
}

/// The first thread died in a call. Its lane is released and goes to the next thread; or the power goes.
void atomic_explorer::outlive(const concurrent_program& program, bool crash) {
    const auto run = [this](const std::vector<step>& steps) {
        for (const step& one : steps) {
            path_ = "after the death, " + to_string(one);
            static_cast<void>(runner_->run(one, 1));
        }
    };
    const auto kill = [this] {
        memory_.set_dead(true);
        scheduler_->kill();
        memory_.set_dead(false);
    };
    // Places that the dead thread used now belong to others.
    const std::vector<step> others{{verb::allocate, 0}, {verb::free, 0}, {verb::publish, 2}, {verb::allocate, 0}};
    model_.died(0);
    if (crash) {
        std::vector<outcome> all = memory_.choices().outcomes;
        for (outcome& one : all) {
            --one;
        }
        static_cast<void>(memory_.build(all, crash_image_));
        crash_model_ = model_;
        kill();
        survive_crash();
        run(others);
        return;
    }
    path_ = "while the lane of the dead is given back";
    auto& lanes = session_->heap().lane_set();
    lanes.release(*lane_of_first_);
    memory_.cut("released");
    // Bitmaps follow the block states at a checkpoint; after it they show what became of the call.
    session_->heap().checkpoint();
    model_ = model_.decided_by(memory_, space_.facts().frontier_pages);
    run(others);
    session_->blocks().this_cache()->own_lane = lanes.acquire();
    run(program.parts[1]);
    session_->heap().checkpoint();
    memory_.cut("end");
    kill();
}

std::size_t atomic_explorer::run_together(const concurrent_program& program, const schedule& order, bool crash_after) {
    prepare_scheduler();
    begin(fmt::format("{}: {} || {}, thread {} begins, switches after {} steps, death at {}", program.name,
                      to_string(program.parts[0]), to_string(program.parts[1]), order.first,
                      fmt::join(order.switches, " and "), order.death),
          keep_seen_);
    runner_->start(program.stamp);
    for (const step& one : program.setup) {
        static_cast<void>(runner_->run(one, 0));
    }
    progress_ = {};
    const auto attach = [&](unsigned thread) {
        static_cast<void>(session_->blocks().this_cache());
        if (program.warm) {
            static_cast<void>(runner_->run({verb::keep}, thread));
            static_cast<void>(runner_->run({verb::discard}, thread));
        }
    };
    scheduler_->perform({[&] { attach(0); }, [&] { attach(1); }},
                        {.first = 0, .switches = {}, .death = 0, .ordinary_locks = true});
    if (program.settled) {
        session_->heap().checkpoint();
        memory_.settle_all();
    }
    cutting_ = true;
    path_ = "both threads";
    const std::size_t switched =
        scheduler_->perform({[&] { perform(0, program.parts[0]); }, [&] { perform(1, program.parts[1]); }}, order);
    memory_.set_thread(0);
    died_ = scheduler_->has_dead();
    if (died_) {
        outlive(program, crash_after);
    }
    end();
    return switched;
}

bool atomic_explorer::run_with_death(const concurrent_program& program, unsigned death, bool crash_after) {
    run_together(program, {.first = 0, .switches = {}, .death = death}, crash_after);
    return died_;
}

void atomic_explorer::run_in_turns(const std::vector<step>& setup, const std::array<std::vector<step>, 2>& parts,
                                   const std::vector<step>& last) {
    prepare_scheduler();
    begin("one thread after the other");
    runner_->start(0);
    const auto run = [this](const std::vector<step>& steps, unsigned thread) {
        for (std::size_t i = 0; i < steps.size(); ++i) {
            cutting_ = thread == model_threads - 1 && i + 2 >= steps.size();
            static_cast<void>(runner_->run(steps[i], thread));
        }
    };
    run(setup, 0);
    memory_.settle_all();
    scheduler_->perform({[&] { run(parts[0], 0); }, [&] { run(parts[1], 1); }},
                        {.first = 0, .switches = {}, .death = 0, .ordinary_locks = true});
    memory_.set_thread(0);
    path_ = "the third thread";
    run(last, model_threads - 1);
    end();
}

void atomic_explorer::run_all_orders(const concurrent_program& program, unsigned preemptions, unsigned share,
                                     unsigned shares) {
    seen_ = {};
    keep_seen_ = true;
    for (unsigned first = 0; first < atomic_scheduler::threads; ++first) {
        if (share == 0) {
            run_together(program, {first, {}, 0});
        }
        for (unsigned i = 1 + share; preemptions >= 1 && !failed(); i += shares) {
            if (run_together(program, {first, {i}, 0}) < 1) {
                break;
            }
            for (unsigned j = 1; preemptions >= 2 && !failed(); ++j) {
                if (run_together(program, {first, {i, j}, 0}) < 2) {
                    break;
                }
            }
        }
    }
    keep_seen_ = false;
}

}  // namespace holdfast::simulator
