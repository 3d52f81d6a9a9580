#include "simulator/atomic/atomic_explorer.hpp"

#include <random>
#include <utility>

#include <fmt/format.h>

namespace holdfast::simulator {

namespace {

constexpr std::size_t violations_wanted = 3;

}  // namespace

atomic_report& atomic_report::operator+=(const atomic_report& other) {
    programs += other.programs;
    cuts += other.cuts;
    images += other.images;
    duplicates += other.duplicates;
    recovery_images += other.recovery_images;
    used += other.used;
    violations.insert(violations.end(), other.violations.begin(), other.violations.end());
    return *this;
}

atomic_explorer::atomic_explorer(const atomic_setting& setting, const atomic_effort& effort)
    : setting_(setting), effort_(effort), memory_(layout_for(setting)), space_(memory_, setting) {
    for (auto& one : trials_) {
        one = std::make_unique<trial>(setting);
    }
    atomic_session first(space_, true);
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

void atomic_explorer::fail(const std::string& wrong) {
    if (report_.violations.size() < violations_wanted) {
        report_.violations.push_back(fmt::format("{}\n  in: {}\n  cut at: {}", wrong, name_, path_));
    }
}

void atomic_explorer::begin(const std::string& name, bool keep_seen, bool cut_opening) {
    name_ = name;
    path_.clear();
    cutting_ = false;
    if (!keep_seen) {
        seen_ = {};
    }
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
    memory_.set_on_step([this, cut_here](persist::site where) {
        if (scheduler_ != nullptr) {
            scheduler_->step(where);
        }
        if (setting_.crash == crash_kind::process_crash && !memory_.dead()) {
            cut_here(where);
        }
    });
    cutting_ = cut_opening;
    open_session();
    cutting_ = false;
    ++report_.programs;
}

void atomic_explorer::open_session() {
    session_ = std::make_unique<atomic_session>(space_);
    if (!session_->fault().empty()) {
        fail(session_->fault());
    }
    // No cuts here: a cache gets its lane under a lock that heaps of images need, too.
    const bool cutting = std::exchange(cutting_, false);
    static_cast<void>(session_->blocks().this_cache());
    cutting_ = cutting;
    runner_ = std::make_unique<program_runner>(space_, *session_, model_);
}

void atomic_explorer::run_openings_and_new_lanes() {
    begin("openings and new lanes", false, true);
    runner_->start(0);
    const auto use = [this](const std::vector<step>& steps) {
        for (const step& one : steps) {
            path_ = to_string(one);
            static_cast<void>(runner_->run(one, 0));
        }
    };
    use({{verb::allocate, 1}, {verb::allocate, 0}, {verb::publish, 3}});
    for (const bool closed : {true, false}) {
        // As a clean close, or as a crash that loses nothing.
        session_->heap().checkpoint();
        const std::uint64_t checkpoint_clock = session_->heap().lanes().checkpoint_time();
        runner_.reset();
        session_.reset();
        memory_.settle_all();
        cutting_ = true;
        path_ = closed ? "opening" : "opening after a crash";
        if (closed) {
            space_.facts().clean = true;
            space_.facts().checkpoint_clock = checkpoint_clock;
        } else if (std::string wrong = space_.recover(); !wrong.empty()) {
            fail(wrong);
        }
        open_session();
        if (failed()) {
            break;
        }
        runner_->start_again();
        slab::thread_cache& cache = *session_->blocks().this_cache();
        auto& lanes = session_->heap().lane_set();
        for (;;) {
            path_ = "a new lane";
            lane::lane* const made = lanes.acquire();
            if (made == nullptr || made->index >= setting_.lanes) {
                break;
            }
            // The next owner of the lane may be another cache.
            lanes.release(*made);
            cache.own_lane = lanes.acquire();
            use({{verb::free, 0}, {verb::allocate, 0}, {verb::free, 3}, {verb::publish, 3}});
        }
        cutting_ = false;
    }
    end();
}

void atomic_explorer::end() {
    if (!memory_.fault().empty()) {
        fail(memory_.fault());
    }
    cutting_ = false;
    memory_.set_on_cut({});
    memory_.set_on_step({});
    runner_.reset();
    session_.reset();
}

bool atomic_explorer::run(const atomic_program& program) {
    begin(to_string(program.setup) + " | " + to_string(program.steps));
    runner_->start(program.stamp);
    bool sensible = true;
    for (const step& one : program.setup) {
        sensible = sensible && runner_->run(one, 0);
    }
    if (program.settled) {
        memory_.settle_all();
    }
    for (std::size_t i = 0; sensible && i < program.steps.size(); ++i) {
        cutting_ = i >= program.cut_from;
        path_ = to_string(program.steps[i]);
        sensible = runner_->run(program.steps[i], 0);
    }
    end();
    return sensible;
}

/// Ends what was running; recovers its heap and opens it again.
void atomic_explorer::survive_crash() {
    memory_.set_dead(false);
    runner_.reset();
    session_.reset();
    memory_.crash(crash_image_);
    model_ = std::move(crash_model_);
    path_ = "recovery for good";
    if (std::string wrong = space_.recover(); !wrong.empty()) {
        fail(wrong);
    }
    memory_.notice();
    model_ = model_.decided_by(memory_, space_.facts().frontier_pages);
    open_session();
    runner_->start_again();
}

void atomic_explorer::run_random(std::uint64_t seed, const std::vector<step>& alphabet, std::size_t steps) {
    std::mt19937_64 random(seed);
    begin(fmt::format("random program {}", seed));
    runner_->start(static_cast<std::uint16_t>(random() % 4 == 0 ? random() : 0));
    memory_.settle_all();
    cutting_ = true;
    for (std::size_t done = 0; done < steps && !failed(); ++done) {
        const step& one = alphabet[random() % alphabet.size()];
        path_ = to_string(one);
        crash_at_ = random() % 16 == 0 ? 1 + random() % 4 : 0;
        name_ += "; " + path_;
        static_cast<void>(runner_->run(one, 0));
        crash_at_ = 0;
        if (memory_.dead()) {
            name_ += " CRASH";
            survive_crash();
        }
    }
    end();
}

void atomic_explorer::cut(persist::site where) {
    if (failed()) {
        return;
    }
    ++report_.cuts;
    if (!memory_.fault().empty()) {
        fail(memory_.fault());
    }
    if (scheduler_ != nullptr) {
        scheduler_->pause(true);
    }
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
        if (!seen_.insert(hash)) {
            ++report_.duplicates;
            return true;
        }
        ++report_.images;
        visit(0, scratch_, hash, model_);
        return !failed();
    });
    if (setting_.crash == crash_kind::power_loss && mix(states, report_.cuts) % effort_.killed_of == 0 && !failed()) {
        kill();
    }
    path_ = path;
    if (scheduler_ != nullptr) {
        scheduler_->pause(false);
    }
    if (crash_at_ != 0 && --crash_at_ == 0) {
        std::vector<outcome> chosen = memory_.choices().outcomes;
        for (outcome& one : chosen) {
            one = static_cast<outcome>(mix(states, ++crash_choices_) % one);
        }
        static_cast<void>(memory_.build(chosen, crash_image_));
        crash_model_ = model_;
        memory_.set_dead(true);
    }
}

/// The process is killed. Recovery sees all that was stored, also what is not durable; then the power goes.
void atomic_explorer::kill() {
    trial& on = *trials_.front();
    on.memory.take_over(memory_);
    on.space.facts() = space_.facts();
    path_ += ", killed";
    on.memory.set_on_cut([&](persist::site where) { cut_recovery(0, model_, where); });
    std::string wrong = on.space.recover();
    on.memory.set_on_cut({});
    bool use = false;
    if (wrong.empty()) {
        on.memory.notice();
        wrong = judge(on, model_, use);
    }
    if (wrong.empty()) {
        cut_recovery(0, model_.decided_by_visible(on.memory, on.space.facts().frontier_pages), "after recovery");
    } else {
        fail(wrong);
    }
    on.memory.rewind();
}

void atomic_explorer::visit(unsigned depth, const memory_image& image, std::uint64_t hash, const heap_model& model) {
    trial& on = *trials_.at(depth);
    on.memory.install(image);
    on.space.facts() = space_.facts();
    const bool deeper = depth + 1 < recovery_depth && mix(hash) % effort_.recovery_cut_of == 0;
    if (deeper) {
        const auto cut_here = [&](persist::site where) { cut_recovery(depth, model, where); };
        on.memory.set_on_cut(cut_here);
        if (setting_.crash == crash_kind::process_crash) {
            on.memory.set_on_step(cut_here);
        }
    }
    std::string wrong = on.space.miss_a_lost_lane();
    if (wrong.empty()) {
        wrong = on.space.recover();
    }
    on.memory.set_on_cut({});
    on.memory.set_on_step({});
    bool use = false;
    if (wrong.empty()) {
        on.memory.notice();
        wrong = judge(on, model, use);
    }
    if (wrong.empty() && deeper) {
        // What recovery showed must survive the next crash.
        const heap_model shown = model.decided_by(on.memory, on.space.facts().frontier_pages);
        cut_recovery(depth, shown, "after recovery");
    }
    if (wrong.empty() && use) {
        ++report_.used;
        wrong = use_and_empty(on);
        wrong = wrong.empty() ? on.memory.fault() : wrong;
    }
    if (!wrong.empty()) {
        std::string words;
        for (const word_value& one : image) {
            words += fmt::format(" {:#x}={:#x}", one.word * 8, one.value);
        }
        fail(wrong + "\n  image:" + words);
    }
    on.memory.rewind();
}

void atomic_explorer::cut_recovery(unsigned depth, const heap_model& model, persist::site where) {
    const tracked_memory& cut_off = trials_.at(depth)->memory;
    const memory_image base = cut_off.deviations();
    const std::string path = path_;
    path_ += fmt::format(", recovery {}", where);
    memory_image image;
    const std::uint64_t states = mix(model.hash(), depth + 1);
    for_each_choice(cut_off.choices(), effort_.recovery_cuts, states, [&](std::span<const outcome> chosen) {
        const std::uint64_t hash = mix(cut_off.build(chosen, image), states);
        if (!seen_.insert(hash)) {
            ++report_.duplicates;
            return true;
        }
        ++report_.images;
        ++report_.recovery_images;
        image.insert(image.begin(), base.begin(), base.end());
        visit(depth + 1, image, hash, model);
        return !failed();
    });
    path_ = path;
}

/// `use`: set if the heap should also be used, when all other judgements are done.
std::string atomic_explorer::judge(trial& on, const heap_model& model, bool& use) {
    std::string wrong = model.fault_in(on.memory, on.space.facts().frontier_pages);
    if (wrong.empty()) {
        wrong = on.space.recover_again(false);
    }
    const std::uint64_t metadata =
        mix(on.memory.hash_of(tracked_memory::part::metadata), on.space.facts().frontier_pages);
    if (wrong.empty() && looked_at_.insert(metadata)) {
        wrong = look_closely(on);
        use = mix(metadata) % effort_.used_of == 0;
    }
    return wrong;
}

/// What depends on the metadata alone; done once for each metadata.
std::string atomic_explorer::look_closely(trial& on) {
    if (std::string wrong = on.space.recover_again(true); !wrong.empty()) {
        return wrong;
    }
    extent::extent_allocator extents(on.space.view(), on.space);
    slab::block_allocator blocks(on.space.view(), extents);
    if (auto opened = blocks.open(on.space.frontier()); !opened) {
        return "open: " + opened.error().message();
    }
    std::vector<std::string> problems;
    blocks.inspect().check(problems);
    if (!problems.empty()) {
        return "check: " + problems.front();
    }
    std::vector<block_extent> found;
    blocks.inspect().for_each_block([&found](base::heap_offset offset, std::uint64_t bytes, std::uint32_t type) {
        found.push_back({offset.value, bytes, type});
    });
    return found == blocks_in(on.memory, on.space.facts().frontier_pages)
               ? std::string{}
               : "the allocator sees other blocks than the oracle";
}

/// In the recovered heap all blocks can be freed, all space can be allocated, and all can be freed again.
std::string atomic_explorer::use_and_empty(trial& on) {
    atomic_session session(on.space);
    if (!session.fault().empty()) {
        return session.fault();
    }
    std::vector<void*> all;
    session.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t, std::uint32_t) {
        all.push_back(on.space.view().address(offset));
    });
    const auto free_all = [&] {
        for (void* const block : all) {
            if (!session.heap().on_blocks().deallocate(block)) {
                return false;
            }
        }
        all.clear();
        return true;
    };
    if (!free_all()) {
        return "a block cannot be freed after recovery: " + slab::block_allocator::last_failure().message();
    }
    std::uint64_t bytes = 0;
    for (const std::uint64_t size : {std::uint64_t{5 * base::page_size}, std::uint64_t{2048}}) {
        for (void* block = session.heap().allocate({size, 16, false}); block != nullptr;
             block = session.heap().allocate({size, 16, false})) {
            all.push_back(block);
            bytes += size;
        }
    }
    constexpr std::uint64_t most = heap_user_bytes - base::granule_size;
    if (bytes < most * 3 / 4) {
        return fmt::format("only {} of {} bytes can be allocated after recovery", bytes, most);
    }
    if (!free_all() || !session.blocks().inspect().all_free()) {
        return "not everything can be freed after recovery";
    }
    session.heap().checkpoint();  // as engine::check(): brings the bitmaps up to date
    std::vector<std::string> problems;
    session.blocks().inspect().check(problems);
    return problems.empty() ? std::string{} : "check after use: " + problems.front();
}

}  // namespace holdfast::simulator
