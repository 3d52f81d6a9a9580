#include "simulator/atomic/atomic_heap.hpp"

#include <cstring>
#include <new>

#include <fmt/format.h>

namespace holdfast::simulator {

namespace {

std::uint64_t log_at(const atomic_setting& setting) {
    return heap_lanes_at + lane::lanes_file_size(setting.lanes, setting.slots);
}

}  // namespace

tracked_memory::layout layout_for(const atomic_setting& setting) {
    const std::uint64_t log_bytes = log::files_in_memory::bytes_for(heap_log_files, log::least_file_size);
    return {{heap_user_bytes, heap_shape.metadata_size(), log_at(setting) + log_bytes - heap_lanes_at},
            heap_metadata_at + heap_shape.page_entries_at(),
            heap_shape.pages() * segment::page_entry_size};
}

atomic_space::atomic_space(tracked_memory& memory, const atomic_setting& setting)
    : memory_(memory),
      setting_(setting),
      view_(memory.address(), memory.address() + heap_metadata_at, heap_shape, heap_user_bytes),
      log_files_(memory, log_at(setting)),
      entries_(view_) {
    facts_.frontier_pages = heap_first_pages;
}

base::result<base::pages> atomic_space::grow(base::pages wanted) {
    const std::uint64_t room = heap_shape.pages() - facts_.frontier_pages;
    if (wanted.value > room) {
        base::failure what;
        what.code = base::failure_code::no_space;
        return what;
    }
    memory_.fill(facts_.frontier_pages * base::page_size, room * base::page_size);
    facts_.frontier_pages += memory_.dead() ? 0 : room;
    return base::pages{room};
}

base::result<void> atomic_space::give_back(base::pages start, base::pages length) {
    memory_.punch(base::to_bytes(start), base::to_bytes(length));
    return {};
}

base::result<void> atomic_space::take_back(base::pages start, base::pages length) {
    memory_.fill(base::to_bytes(start), base::to_bytes(length));
    return {};
}

/// The superblock changes in one moment: before it nothing has happened, after it the pages beyond hold anything.
base::result<void> atomic_space::shrink(base::pages to) {
    memory_.cut("space.shrink");
    if (!memory_.dead()) {
        const std::uint64_t cut_off = facts_.frontier_pages - to.value;
        facts_.frontier_pages = to.value;
        memory_.scribble(base::to_bytes(to), cut_off * base::page_size);
    }
    memory_.cut("space.shrunk");
    return {};
}

base::result<void> atomic_space::grow_lanes(std::uint64_t bytes) {
    if (bytes > lane::lanes_file_size(setting_.lanes, setting_.slots)) {
        base::failure what;
        what.code = base::failure_code::no_space;
        return what;
    }
    if (bytes > facts_.lanes_size) {
        facts_.lanes_size = bytes;
        memory_.cut("the lanes have grown");
    }
    return {};
}

/// A word that is written again as it was does not change: what was durable stays.
void tracked_files::put(std::uint64_t at, std::span<const std::byte> data, persist::site where) {
    tracked_domain domain(memory_);
    for (std::size_t i = 0; i < data.size(); i += sizeof(std::uint64_t)) {
        std::uint64_t value = 0;
        std::memcpy(&value, data.data() + i, sizeof value);
        auto& word = *reinterpret_cast<std::uint64_t*>(begin_ + at + i);
        if (word != value) {
            domain.store(word, value, where);
        }
    }
}

void tracked_files::make_durable(std::uint64_t at, std::uint64_t bytes, persist::site where) {
    tracked_domain(memory_).sync(begin_ + at, bytes, where);
}

/// A program that runs on without effect does not find what it has made.
std::uint64_t tracked_files::in_place_of_missing() const { return memory_.dead() ? 0 : heap_log_files; }

lane::replay_source atomic_space::replay_source() const noexcept {
    lane::replay_source source;
    source.space = view_;
    source.lanes = {lanes(), facts_.lanes_size};
    source.slots = setting_.slots;
    source.order = setting_.order;
    source.heap_key = heap_key;
    source.incarnation = facts_.incarnation;
    source.frontier = facts_.frontier_pages * base::page_size;
    return source;
}

base::result<lane::replay_plan> atomic_space::plan(lane::replay_source& source, lane::log_access access) {
    source = replay_source();
    if (source.order == lane::record_order::logged) {
        HF_TRY_ASSIGN(const auto last, lane::read_checkpoint(source.lanes, heap_key));
        HF_TRY_ASSIGN(log_, lane::read_log({log(), heap_key, source.incarnation}, last, access));
        source.log = log_;
    }
    return lane::make_replay(source);
}

std::string atomic_space::recover() {
    if (facts_.clean) {
        return {};
    }
    try {
        lane::replay_source source;
        const auto found = plan(source, lane::log_access::recover);
        if (!found) {
            return "replay: " + found.error().message();
        }
        tracked_domain domain{memory_};
        lane::apply(*found, source, domain);
        if (auto rebuilt = entries_.rebuild(frontier()); !rebuilt) {
            return "rebuild: " + rebuilt.error().message();
        }
        memory_.cut("recovered");
    } catch (const std::bad_alloc&) {
        return "recovery ran out of memory";
    }
    return {};
}

std::string atomic_space::recover_again(bool hints) {
    if (facts_.clean) {
        return {};
    }
    lane::replay_source source;
    const auto found = plan(source, lane::log_access::look);
    if (!found) {
        return "second replay: " + found.error().message();
    }
    if (setting_.order == lane::record_order::in_flight && found->report.replayed != 0) {
        // Calls in flight still count: a page entry may go from "free" to zero and back.
        const auto hash = [this] {
            return memory_.hash_of(tracked_memory::part::metadata) ^ memory_.hash_of(tracked_memory::part::user);
        };
        const std::uint64_t before = hash();
        if (std::string wrong = recover(); !wrong.empty()) {
            return wrong;
        }
        memory_.notice();
        return before == hash() ? std::string{} : "a second recovery changes the heap";
    }
    if (found->report.replayed != 0) {
        return fmt::format("second replay would write {} words", found->report.replayed);
    }
    if (lane::is_by_clock(setting_.order) && found->report.pending != 0) {
        return fmt::format("second replay finds {} records pending", found->report.pending);
    }
    if (!hints) {
        return {};
    }
    if (auto rebuilt = entries_.rebuild(frontier()); !rebuilt) {
        return "second rebuild: " + rebuilt.error().message();
    }
    return memory_.notice() == 0 ? std::string{} : "a second rebuild changes page entries";
}

std::string atomic_space::miss_a_lost_lane() const {
    lane::replay_source source = replay_source();
    if (facts_.clean || source.lanes.size() < lane::lanes_at || setting_.order == lane::record_order::logged) {
        return {};
    }
    const std::uint64_t used =
        lane::is_by_clock(setting_.order) ? setting_.slots : std::min(setting_.slots, lane::in_flight_slots);
    const std::uint64_t size = lane::lane_size(setting_.slots);
    for (std::uint64_t index = (source.lanes.size() - lane::lanes_at) / size; index-- > 0;) {
        const auto* const records = reinterpret_cast<const lane::record_on_media*>(
            source.lanes.data() + lane::lanes_at + index * size + lane::lane_header_size);
        const std::uint64_t seed = lane::seed_of(heap_key, facts_.incarnation, index);
        for (std::uint64_t slot = 0; slot < used; ++slot) {
            if (lane::is_whole(records[slot], seed, slot, used)) {
                source.lanes = source.lanes.first(lane::lanes_file_size(index, setting_.slots));
                return lane::make_replay(source)
                           ? fmt::format("LANE-25: lane {} holds a record, and its loss would go unnoticed", index)
                           : std::string{};
            }
        }
    }
    return {};
}

atomic_session::atomic_session(atomic_space& space, bool format)
    : machine_(space.setting().nodes, 2),
      extents_(space.view(), space),
      blocks_(space.view(), extents_, nullptr, machine_) {
    extents_.set_nodes(space.setting().nodes);
    if (space.setting().nodes > 1) {
        persist::made_up_topology::move_this_thread_to(space.setting().nodes - 1);
    }
    if (auto opened = format ? blocks_.format() : blocks_.open(space.frontier()); !opened) {
        fault_ = "open: " + opened.error().message();
        return;
    }
    if (format) {
        return;
    }
    lane::lane_options options;
    options.heap_key = heap_key;
    options.slots = space.setting().slots;
    options.order = space.setting().order;
    options.log_records = space.setting().log_records;
    options.clock = lane::record_clock::source::memory;
    options.lanes_for_ahead = space.setting().lanes_for_ahead;
    options.checkpoint_time = space.facts().checkpoint_clock;
    if (!space.facts().clean) {
        const std::span<const std::byte> file{space.lanes(), space.lanes_size()};
        auto last = lane::read_checkpoint(file, heap_key);
        auto count = lane::read_lane_count(file, file.size(), options.slots, options.order, heap_key);
        if (!last || !count) {
            fault_ = "head of the lanes: " + (last ? count.error() : last.error()).message();
            return;
        }
        options.checkpoint_time = last->time;
        options.lane_count = *count;
    }
    options.incarnation = space.facts().incarnation + 1;
    options.log_chain = options.incarnation;
    operations_ = std::make_unique<operations>(tracked_domain{space.memory()}, space.view(), space, blocks_, options);
    if (auto opened = operations_->open(); !opened) {
        fault_ = "lanes: " + opened.error().message();
        return;
    }
    settle_.of = operations_.get();
    if (space.setting().gives_back) {
        const std::uint64_t decay = space.setting().fades ? 0 : extent::decay_curve::never;
        extents_.space().set_decay(decay, []() noexcept { return std::uint64_t{0}; });
        if (lane::is_by_clock(options.order)) {
            extents_.space().set_settling(settle_);
        }
    }
    // As heap_files::begin_incarnation().
    ++space.facts().incarnation;
    space.facts().clean = false;
    space.memory().cut("an incarnation has begun");
}

atomic_session::~atomic_session() {
    // As a crash: nothing is given back or written.
    settle_.of = nullptr;
    blocks_.close();
    operations_.reset();
}

}  // namespace holdfast::simulator
