#include "kill/destination_oracle.hpp"

#include <ostream>
#include <unordered_map>

#include "base/process_test_support.hpp"

namespace holdfast::test::destinations {

namespace {

/// What a destination points to: an offset, 0 for null. Offsets outside of the heap do not matter: no model has them.
std::uint64_t target_at(const manager& heap, std::uint64_t word) {
    const auto* const base = static_cast<const std::byte*>(heap.get_address());
    if (is_object(word)) {
        const void* const object = heap.find<object_content>(object_name(word)).first;
        return object == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(object) - base);
    }
    const auto& destination = *reinterpret_cast<const ptr<void>*>(base + word);
    return destination == nullptr ? 0
                                  : static_cast<std::uint64_t>(static_cast<const std::byte*>(destination.get()) - base);
}

std::string describe(const destination& each) {
    return "destination " + std::to_string(each.at) + " (block at " + std::to_string(each.target.at) + ", " +
           std::to_string(each.target.size) + " bytes, " + std::to_string(each.target.valid) + " known" +
           (each.target.node ? ", node" : "") + ")";
}

}  // namespace

void oracle_tally::print(std::ostream& out, const std::string& title) const {
    out << title << ": " << cycles << " cycles on " << heaps << " heaps, " << calls
        << " calls returned; in flight: " << in_flight_before << " without effect, " << in_flight_after << " with, "
        << in_flight_between << " between their steps\n  killed in open or recovery: " << in_open
        << ", in close: " << in_close << ", closed before: " << closed << "\n  " << examined << " times compared, "
        << blocks << " blocks; recoveries: " << pending << " records pending, " << replayed << " words rewritten, "
        << rolled_back << " records cut off; blocks that nothing leads to: " << unreached << "\n";
}

oracle::oracle(std::string directory, std::uint64_t seed, durability tested)
    : directory_(std::move(directory)), source_(seed), tested_(tested) {}

open_options oracle::options(durability kind) {
    open_options wanted;
    wanted.durability = kind;
    wanted.accept_process_crash_only = true;
    wanted.domain = below(2) == 0 ? open_options::domain_choice::emulated : open_options::domain_choice::page_cache;
    wanted.segment_size = std::uint64_t{2} << (20U + below(5));
    wanted.reservation = std::uint64_t{1} << 32U;
    const std::uint64_t decay = below(4);
    wanted.decay = std::chrono::milliseconds(decay == 0 ? -1 : decay == 1 ? 10'000 : 0);
    return wanted;
}

std::string oracle::next_heap() {
    if (!heap_.empty()) {
        if (std::string wrong = empty_heap(); !wrong.empty()) {
            return wrong;
        }
        manager::remove(heap_);
    }
    heap_ = directory_ + "/heap" + std::to_string(tally_.heaps++);
    open_options created = options(below(2) == 0 ? tested_ : durability::commit);
    created.node_directories.resize(below(3) == 0 ? 2 + below(2) : 0);  // in the heap's own directory
    manager(create_only, heap_, created).close();
    sets_.clear();
    for (std::size_t i = 0; i < set_count; ++i) {
        sets_.emplace_back(i);
    }
    resolved_ = true;
    return {};
}

std::string oracle::run_and_kill() {
    worker_plan plan;
    plan.heap = heap_;
    plan.seed = source_();
    const std::uint64_t manner = below(100);
    plan.open_and_close = manner < 8;
    plan.calls = manner >= 8 && manner < 20 ? 1 + below(300) : 0;
    plan.options = options(plan.open_and_close && below(2) == 0 ? durability::commit : tested_);
    region_->reset();
    base::child_process worker([&] { return run_worker(plan, sets_, *region_); });
    const auto reaches = [&](phase wanted) { return worker.runs_until([&] { return region_->now.load() >= wanted; }); };
    constexpr std::uint64_t millisecond = 1'000'000;
    // At any moment of the worker's beginning, of its end, or (mostly) between them.
    bool hangs = false;
    if (manner < 30) {
        static_cast<void>(worker.ends_within(below(below(2) == 0 ? 2 * millisecond : 8 * millisecond)));
    } else {
        hangs = !reaches(phase::running);
        static_cast<void>(worker.ends_within(below(manner < 96 ? 4 * millisecond : 60 * millisecond)));
    }
    if (plan.calls != 0 && below(2) == 0) {
        hangs = hangs || !reaches(phase::closing);
        static_cast<void>(worker.ends_within(below(millisecond)));
    }
    const base::process_end end = worker.kill();
    if (hangs) {
        return "the worker hangs";
    }
    const phase last = region_->now.load();
    tally_.in_open += last == phase::starting ? 1 : 0;
    tally_.in_close += last == phase::closing ? 1 : 0;
    tally_.closed += last == phase::closed ? 1 : 0;
    if (end.exit_status() > 0) {
        return "the worker failed: " + std::string(&region_->problem[0]);
    }
    return {};
}

/// All calls that returned.
void oracle::follow_reports() {
    for (std::size_t i = 0; i < set_count; ++i) {
        const set_log& log = region_->logs[i];
        const std::uint64_t done = log.done.load();
        for (std::uint64_t number = 0; number < done; ++number) {
            sets_.at(i).begin(log.records[number]);
            sets_.at(i).apply(log.records[number]);
        }
        tally_.calls += done;
    }
    resolved_ = false;
}

std::string oracle::cycle() {
    ++tally_.cycles;
    std::string wrong = run_and_kill();
    if (wrong.empty()) {
        follow_reports();
        wrong = examine_all();
    }
    return wrong;
}

std::string oracle::examine_all() {
    try {
        const std::uint64_t dice = below(10);
        std::string wrong;
        if (below(8) == 0) {
            wrong = examine_copy();
        }
        if (wrong.empty() && dice < 5) {
            wrong = examine_read_only();
        }
        // Else the next worker recovers, and may be killed in that.
        if (wrong.empty() && dice >= 3) {
            wrong = examine_writable();
        }
        return wrong;
    } catch (const std::exception& thrown) {
        return std::string("the observer met: ") + thrown.what();
    }
}

std::string oracle::examine_read_only() {
    const manager heap(open_read_only, heap_);
    return examine(heap);
}

std::string oracle::examine_copy() {
    const std::string path = heap_ + ".copy";
    if (below(2) == 0) {
        manager::copy(heap_, path);
    } else {
        manager(open_read_only, heap_).snapshot(path);
    }
    std::string wrong;
    // The third time it was closed cleanly.
    for (const auto kind : {durability::commit, tested_, durability::commit}) {
        if (wrong.empty()) {
            const manager heap(open_only, path, options(kind));
            wrong = examine(heap);
        }
    }
    if (wrong.empty()) {
        manager::remove(path);
    }
    return wrong;
}

std::string oracle::examine_writable() {
    const bool as_tested = below(3) != 0;
    manager heap(open_only, heap_, options(as_tested ? tested_ : durability::commit));
    std::string wrong = examine(heap);
    const recovery_report recovery = heap.last_recovery();
    tally_.pending += recovery.pending;
    tally_.replayed += recovery.replayed;
    tally_.rolled_back += recovery.rolled_back;
    if (!wrong.empty()) {
        return wrong;
    }
    if (below(4) == 0) {
        // The heap works in this process as well, in either durability.
        const std::vector<holdings> before = sets_;
        region_->reset();
        shared_sets world{sets_, {}};
        actor here(heap, world, *region_, source_(), as_tested);
        for (std::uint64_t i = below(200); i > 0; --i) {
            here.step();
        }
        here.cancel_all();
        wrong = compare(heap);
        const bool keep = as_tested || below(2) == 0;
        heap.close(keep);
        if (!keep) {
            sets_ = before;
        }
        return wrong;
    }
    heap.close();
    return wrong;
}

std::string oracle::empty_heap() {
    try {
        manager heap(open_only, heap_, options(tested_));
        if (std::string wrong = examine(heap); !wrong.empty()) {
            return wrong;
        }
        auto* const base = static_cast<std::byte*>(heap.get_address());
        const auto word = [base](std::uint64_t at) -> ptr<void>& { return *reinterpret_cast<ptr<void>*>(base + at); };
        for (holdings& set : sets_) {
            if (set.unfinished.from != 0 || set.unfinished.to != 0) {
                word(set.unfinished.to) = nullptr;
            }
            call_record freed;
            freed.what = call::free;
            freed.count = 1;
            // A node's own blocks go first.
            while (const destination* const each = set.find_free_to_go()) {
                const bool there = is_object(each->at) ? heap.destroy<object_content>(object_name(each->at))
                                                       : heap.free_from(word(each->at));
                if (!there) {
                    return "nothing is to be freed at " + describe(*each);
                }
                freed.words[0] = each->at;
                set.apply(freed);
            }
        }
        if (tested_ == durability::collect) {
            heap.collect();
        }
        if (!heap.all_memory_deallocated()) {
            return "blocks are left in a heap that was emptied";
        }
        heap.close();
        return {};
    } catch (const std::exception& thrown) {
        return std::string("the observer met: ") + thrown.what();
    }
}

std::string oracle::examine(const manager& heap) {
    if (!resolved_) {
        for (std::size_t i = 0; i < set_count; ++i) {
            const set_log& log = region_->logs[i];
            const std::uint64_t done = log.done.load();
            if (log.begun.load() > done) {
                resolve(heap, sets_.at(i), log.records[done]);
            }
        }
        resolved_ = true;
    }
    return compare(heap);
}

void oracle::resolve(const manager& heap, holdings& set, const call_record& cut_off) {
    set.begin(cut_off);
    if (cut_off.what == call::write) {
        return;
    }
    if (cut_off.what == call::move) {
        const std::uint64_t moved = set.target_of(cut_off.words[0]).at;
        const bool there = target_at(heap, cut_off.words[1]) == moved;
        const bool gone = target_at(heap, cut_off.words[0]) == 0;
        if (gone) {
            set.apply(cut_off);
        } else if (there) {
            set.unfinished = {cut_off.words[0], cut_off.words[1]};
        }
        ++(gone ? tally_.in_flight_after : there ? tally_.in_flight_between : tally_.in_flight_before);
        return;
    }
    call_record found = cut_off;
    std::uint32_t changed = 0;
    for (std::size_t i = 0; i < cut_off.count; ++i) {
        const std::uint64_t target = target_at(heap, cut_off.words.at(i));
        if (target == set.target_of(cut_off.words.at(i)).at) {
            continue;
        }
        // The block that publish() was given is known; what an allocation chose is not.
        if (cut_off.targets.at(i) == 0) {
            found.targets.at(i) = target;
        }
        set.apply(found, i);
        ++changed;
    }
    ++(changed == 0               ? tally_.in_flight_before
       : changed == cut_off.count ? tally_.in_flight_after
                                  : tally_.in_flight_between);
}

std::string oracle::compare(const manager& heap) {
    ++tally_.examined;
    if (const std::vector<std::string> problems = heap.check(false); !problems.empty()) {
        return problems.front() + " (" + std::to_string(problems.size()) + " problems)";
    }
    std::unordered_map<std::uint64_t, block_info> allocated;
    const auto* const base = static_cast<const std::byte*>(heap.get_address());
    heap.for_each_block([&](const block_info& each) {
        allocated.emplace(static_cast<std::uint64_t>(static_cast<const std::byte*>(each.address) - base), each);
    });
    tally_.blocks += allocated.size();
    if (heap.statistics().allocated_blocks != allocated.size()) {
        return "the statistics count other blocks than for_each_block";
    }
    for (const holdings& set : sets_) {
        for (const destination& each : set.all()) {
            std::uint64_t expected = each.target.at;
            if (each.at == set.unfinished.to && set.unfinished.from != set.unfinished.to) {
                expected = target_at(heap, set.unfinished.from);
            }
            if (target_at(heap, each.at) != expected) {
                return describe(each) + " points to " + std::to_string(target_at(heap, each.at));
            }
            if (each.target.at == 0) {
                continue;
            }
            const auto found = allocated.find(each.target.at);
            if (found == allocated.end()) {
                return describe(each) + " points to a block that is free, or another's";
            }
            if (found->second.size < each.target.size) {
                return describe(each) + " has " + std::to_string(found->second.size) + " bytes";
            }
            if (found->second.type != each.target.type) {
                return describe(each) + " has the type " + std::to_string(found->second.type) + " and not " +
                       std::to_string(each.target.type);
            }
            if (!has_content(base + each.target.at, each.target)) {
                return describe(each) + " has other content";
            }
            allocated.erase(found);
        }
    }
    tally_.unreached += allocated.size();
    if (!allocated.empty() && tested_ != durability::collect) {
        return "a leak: " + std::to_string(allocated.size()) + " blocks, one at " +
               std::to_string(allocated.begin()->first) + " of " + std::to_string(allocated.begin()->second.size) +
               " bytes";
    }
    return {};
}

}  // namespace holdfast::test::destinations
