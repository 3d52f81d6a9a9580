#include "simulator/collect/collect_explorer.hpp"

#include <random>
#include <utility>

#include <fmt/format.h>

namespace holdfast::simulator {

collect_report& collect_report::operator+=(const collect_report& other) {
    programs += other.programs;
    cuts += other.cuts;
    images += other.images;
    recovery_images += other.recovery_images;
    used += other.used;
    violations.insert(violations.end(), other.violations.begin(), other.violations.end());
    return *this;
}

collect_explorer::collect_explorer(const atomic_setting& setting, const collect_effort& effort)
    : setting_(setting), effort_(effort), memory_(collect_layout()), space_(memory_, setting) {
    for (auto& one : trials_) {
        one = std::make_unique<trial>(setting);
    }
    const collect_session first(space_, file_, true);
    if (!first.fault().empty()) {
        fail(first.fault());
    }
    memory_.mark();
    memory_.set_crash_kind(setting.crash);
    for (auto& one : trials_) {
        one->memory.set_crash_kind(setting.crash);
    }
    formatted_ = space_.facts();
}

void collect_explorer::fail(const std::string& wrong) {
    report_.violations.push_back(fmt::format("{}\n  in: {}\n  cut at: {}", wrong, name_, path_));
}

void collect_explorer::open_session() {
    session_ = std::make_unique<collect_session>(space_, file_);
    if (!session_->fault().empty()) {
        fail(session_->fault());
    }
    runner_ = std::make_unique<collect_runner>(space_, *session_, model_);
}

void collect_explorer::run(const std::string& name, std::span<const collect_step> steps, std::size_t cut_from) {
    name_ = name;
    path_ = "opening";
    seen_ = {};
    memory_.rewind();
    memory_.take_changes([this](std::uint32_t word, std::uint64_t value) {
        for (auto& one : trials_) {
            one->memory.rebase(word, value);
        }
    });
    space_.facts() = formatted_;
    model_ = {};
    const auto cut_here = [this](persist::site where) {
        if (cutting_) {
            cut(where);
        }
    };
    memory_.set_on_cut(cut_here);
    if (setting_.crash == crash_kind::process_crash) {  // nothing is undecided: each step is a moment of its own
        memory_.set_on_step(cut_here);
    }
    cutting_ = cut_from == 0;
    open_session();
    ++report_.programs;
    for (std::size_t i = 0; i < steps.size() && !failed(); ++i) {
        cutting_ = i >= cut_from;
        path_ = to_string(steps[i]);
        const bool dies = steps[i].verb == collect_verb::die && i + 1 < steps.size();
        if (dies) {
            ++i;
            path_ += ", " + to_string(steps[i]);
        }
        take_step(steps[i], dies ? static_cast<unsigned>(steps[i - 1].bytes) : ~0U);
    }
    if (!memory_.fault().empty()) {
        fail(memory_.fault());
    }
    cutting_ = false;
    if (std::string wrong = session_->check(); !wrong.empty() && !failed()) {
        fail("the heap that was used: " + wrong);
    }
    memory_.set_on_cut({});
    memory_.set_on_step({});
    runner_.reset();
    session_.reset();
}

void collect_explorer::take_step(const collect_step& step, unsigned death) {
    if (step.verb == collect_verb::reopen) {
        session_->close();
        runner_.reset();
        session_.reset();
        open_session();
        return;
    }
    static_cast<void>(runner_->run(step, death));
    if (runner_->ended()) {
        survive_death();
    } else if (model_.next) {
        fail("a step of the program failed: " + slab::block_allocator::last_failure().message());
    }
}

/// The process is gone. Its stores are visible, and not all durable. Another process opens the heap.
void collect_explorer::survive_death() {
    runner_.reset();
    session_.reset();
    path_ += ", and another process";
    session_ = std::make_unique<collect_session>(space_, file_);
    if (!session_->fault().empty()) {
        fail(session_->fault());
        return;
    }
    collect_world found;
    if (std::string wrong = judge(*session_, space_, model_, false, found); !wrong.empty()) {
        fail(wrong);
    }
    model_ = {found, std::nullopt};
    runner_ = std::make_unique<collect_runner>(space_, *session_, model_);
    memory_.cut("recovered from a death");
}

void collect_explorer::run_random(std::uint64_t seed, std::size_t steps) {
    std::mt19937_64 random(seed);
    std::vector<collect_step> program;
    for (std::size_t i = 0; i < steps; ++i) {
        program.push_back(collect_alphabet()[random() % collect_alphabet().size()]);
    }
    run(fmt::format("random program {}", seed), program);
}

void collect_explorer::cut(persist::site where) {
    if (failed()) {
        return;
    }
    ++report_.cuts;
    memory_.take_changes([this](std::uint32_t word, std::uint64_t value) {
        for (auto& one : trials_) {
            one->memory.rebase(word, value);
        }
    });
    const std::string path = path_;
    path_ += fmt::format(", {}", where);
    const std::uint64_t states = mix(model_.hash(), space_.facts().hash());
    for_each_choice(memory_.choices(), effort_.cuts, mix(report_.cuts, states), [&](std::span<const outcome> chosen) {
        const std::uint64_t hash = mix(memory_.build(chosen, scratch_), states);
        if (seen_.insert(hash)) {
            ++report_.images;
            visit(0, scratch_, hash, model_, space_.facts());
        }
        return !failed();
    });
    path_ = path;
}

void collect_explorer::visit(unsigned depth, const memory_image& image, std::uint64_t hash, const collect_model& model,
                             const heap_facts& facts) {
    trial& on = *trials_.at(depth);
    on.memory.install(image);
    on.space.facts() = facts;
    const bool deeper = depth + 1 < recovery_depth && mix(hash) % effort_.recovery_cut_of == 0;
    if (deeper) {
        const auto cut_here = [&](persist::site where) { cut_recovery(depth, model, where); };
        on.memory.set_on_cut(cut_here);
        if (setting_.crash == crash_kind::process_crash) {
            on.memory.set_on_step(cut_here);
        }
    }
    auto session = std::make_unique<collect_session>(on.space, on.file);
    on.memory.set_on_cut({});
    on.memory.set_on_step({});
    std::string wrong = session->fault();
    collect_world found;
    wrong = wrong.empty() ? judge(*session, on.space, model, facts.clean, found) : wrong;
    if (wrong.empty() && deeper) {
        // What recovery showed must survive the next crash.
        cut_recovery(depth, {found, std::nullopt}, "after recovery");
    }
    if (wrong.empty() && mix(hash, 1) % effort_.used_of == 0) {
        ++report_.used;
        wrong = go_on(on, std::move(session), std::move(found));
    }
    session.reset();
    wrong = wrong.empty() ? on.memory.fault() : wrong;
    if (!wrong.empty() && !failed()) {
        std::string words;
        for (const word_value& one : image) {
            words += fmt::format(" {:#x}={:#x}", one.word * 8, one.value);
        }
        fail(wrong + "\n  image:" + words);
    }
    on.memory.rewind();
}

void collect_explorer::cut_recovery(unsigned depth, const collect_model& model, persist::site where) {
    if (failed()) {
        return;
    }
    trial& on = *trials_.at(depth);
    const tracked_memory& cut_off = on.memory;
    const memory_image base = cut_off.deviations();
    const heap_facts facts = on.space.facts();
    const std::string path = path_;
    path_ += fmt::format(", recovery {}", where);
    memory_image image;
    const std::uint64_t states = mix(mix(model.hash(), facts.hash()), depth + 1);
    on.memory.notice();
    for_each_choice(cut_off.choices(), effort_.recovery_cuts, states, [&](std::span<const outcome> chosen) {
        const std::uint64_t hash = mix(cut_off.build(chosen, image), states);
        if (seen_.insert(hash)) {
            ++report_.images;
            ++report_.recovery_images;
            image.insert(image.begin(), base.begin(), base.end());
            visit(depth + 1, image, hash, model, facts);
        }
        return !failed();
    });
    path_ = path;
}

/// `found`: the world that the heap shows. After a close lost blocks are allocated, too.
std::string collect_explorer::judge(collect_session& session, collect_space& space, const collect_model& model,
                                    bool was_clean, collect_world& found) {
    if (std::string wrong = session.check(); !wrong.empty()) {
        return wrong;
    }
    std::string wrong;
    for (const collect_world* const world : {&model.now, model.next ? &*model.next : nullptr}) {
        if (world != nullptr) {
            found = *world;
            if (!was_clean) {
                found.lost.clear();
            }
            const std::string difference = found.difference(session, space);
            if (difference.empty()) {
                return {};
            }
            wrong += (wrong.empty() ? "" : "; or ") + difference;
        }
    }
    return wrong;
}

/// The recovered heap is used, closed, and opened unchanged.
std::string collect_explorer::go_on(trial& on, std::unique_ptr<collect_session> session, collect_world found) {
    collect_model model{std::move(found), std::nullopt};
    {
        collect_runner runner(on.space, *session, model);
        for (unsigned list = 0; list < model.now.lists.size(); ++list) {
            static_cast<void>(runner.run({collect_verb::push, list, list % 2 == 0 ? large_block : pages_block}));
            static_cast<void>(runner.run({collect_verb::push, list, 64}));
            static_cast<void>(runner.run({collect_verb::pop, list, 0}));
        }
        static_cast<void>(runner.run({collect_verb::lose, 0, 64}));
    }
    session->close();
    session.reset();
    on.memory.settle_all();
    collect_session again(on.space, on.file);
    collect_world same;
    return again.fault().empty() ? judge(again, on.space, model, true, same) : again.fault();
}

}  // namespace holdfast::simulator
