#include "heap/chosen_operations.hpp"

#include <span>
#include <utility>

#include "heap/collect/collect_operations.hpp"
#include "heap/heap_operations.hpp"
#include "heap/operations/hardened_operations.hpp"
#include "heap/ordered/ordered_destinations.hpp"
#include "lane/replay.hpp"

namespace holdfast::heap {

namespace {

class refusing_operations final : public block_operations {
public:
    void* allocate(std::uint64_t /*bytes*/, std::uint64_t /*alignment*/, std::uint32_t /*type*/) noexcept override {
        refuse();
        return nullptr;
    }
    bool deallocate(void* /*block*/) noexcept override {
        refuse();
        return false;
    }
    bool deallocate_exactly(void* block) noexcept override { return deallocate(block); }
    void flush(const void* /*begin*/, std::uint64_t /*bytes*/) noexcept override {}
    void drain() noexcept override {}
    void keep(const slab::held_block& /*held*/) noexcept override {}
    void write_back() noexcept override {}

private:
    static void refuse() noexcept {
        base::failure what;
        what.code = base::failure_code::wrong_process;
        slab::block_allocator::leave(std::move(what));
    }
};

}  // namespace

chosen_operations::chosen_operations(heap_operations& heap) noexcept : heap_(heap), direct_(heap.blocks()) {}

void chosen_operations::use(block_operations& chosen) noexcept {
    operations_ = &chosen;
    is_direct_ = &chosen == &direct_;
}

void chosen_operations::own(std::unique_ptr<block_operations> chosen) noexcept {
    use(*chosen);
    owned_ = std::move(chosen);
}

base::result<void> chosen_operations::start_atomic(std::uint64_t lane_slots) {
    const segment::superblock_on_media& superblock = heap_.files().superblock();
    // It fixes where each lane lies.
    const std::uint64_t slots = superblock.lane_slots != 0 ? superblock.lane_slots : lane_slots;
    if (heap_.files().lanes().lanes() == nullptr) {
        HF_TRY(heap_.files().lanes().open(segment::shape_of_lanes(slots)));
    }
    lane::lane_options lanes;
    lanes.heap_key = superblock.heap_key;
    lanes.slots = slots;
    lanes.order = lane::order_in(heap_.files().domain());
    lanes.checkpoint_time = superblock.checkpoint_clock;
    if (heap_.files().has_pending_lanes()) {  // after a crash, and replayed; in a clean heap no lane counts
        const std::span<const std::byte> file(heap_.files().lanes().lanes(), heap_.files().lanes().lanes_size());
        const auto order = static_cast<lane::record_order>(superblock.record_order);
        HF_TRY_ASSIGN(const auto last, lane::read_checkpoint(file, superblock.heap_key));
        lanes.checkpoint_time = last.time;
        HF_TRY_ASSIGN(lanes.lane_count, lane::read_lane_count(file, file.size(), slots, order, superblock.heap_key));
    }
    if (lanes.order == lane::record_order::logged) {
        HF_TRY_ASSIGN(lanes.log_chain, log::random_number());
    }
    lanes.incarnation = superblock.incarnation + 1;
    lanes.files = heap_.files().lanes().files();
    lanes.machine_nodes = heap_.files().location().topology().nodes();
    heap_.objects().persist_with([this](const void* begin, std::uint64_t bytes) { heap_.persist(begin, bytes); });
    // Seals the space for records; from the next step on, recovery looks there (LANE-26).
    auto made = make_atomic_operations(heap_.files().domain(), heap_.files().session().memory(), heap_.files().view(),
                                       heap_.files().lanes(), heap_.blocks(), lanes, heap_.files().space().zeros());
    if (!made) {
        base::failure what = std::move(made).error();
        what.path = what.path.empty() ? heap_.files().lanes().path() : what.path;
        return what;
    }
    if (heap_.files().session().memory().has_failed()) {  // LANE-26: the head may not be on media
        return heap_.files().session().memory().failure();
    }
    of_atomic_ = std::move(made).value();
    atomic_ = of_atomic_.get();
    use(atomic_->on_blocks());
    durability_ = durability_kind::atomic;
    if (lane::is_by_clock(lanes.order)) {
        written_back_check_.of = atomic_;
        heap_.extents().space().set_written_back_check(written_back_check_);
    }
    return heap_.files().session().begin_incarnation(static_cast<std::uint32_t>(slots),
                                                     static_cast<std::uint32_t>(lanes.order));
}

base::result<void> chosen_operations::start_collect() {
    if (heap_.files().domain() != persist::domain_kind::page_cache) {
        own(make_collect_operations(heap_.files().domain(), heap_.files().view(), heap_.extents(), heap_.blocks()));
    }
    heap_.objects().persist_with([this](const void* begin, std::uint64_t bytes) { heap_.persist(begin, bytes); });
    durability_ = durability_kind::collect;
    heap_.blocks().slabs().set_traced(true);
    return heap_.files().session().begin_tracing();
}

void chosen_operations::harden() {
    heap_.blocks().harden();
    if (durability_ != durability_kind::atomic) {  // which checks its frees exactly already
        auto inner = owned_ != nullptr ? std::move(owned_) : std::make_unique<direct_operations>(heap_.blocks());
        own(make_hardened_operations(std::move(inner)));
    }
}

base::result<void> chosen_operations::start_guards() {
    // In durability `atomic` a checkpoint flushes lines of destinations, maybe in guard ranges by now. A flush needs
    // the right to load.
    const bool flushed_late =
        durability_ == durability_kind::atomic && heap_.files().domain() != persist::domain_kind::page_cache;
    using rights = segment::page_access::rights;
    return heap_.blocks().slabs().source().start_guards(heap_.files().mapping(),
                                                        flushed_late ? rights::read : rights::none);
}

void chosen_operations::start_destinations() {
    if (atomic_ != nullptr) {
        destinations_ = atomic_;
        return;
    }
    ordered_ = make_ordered_destinations(heap_);
    destinations_ = ordered_.get();
}

void chosen_operations::stop() noexcept {
    heap_.objects().persist_with({});
    use(direct_);
    if (atomic_ != nullptr) {
        written_back_check_.of = nullptr;
        destinations_ = nullptr;
        atomic_ = nullptr;
    } else {
        heap_.blocks().slabs().set_traced(false);
    }
    owned_.reset();
    of_atomic_.reset();
    durability_ = durability_kind::commit;
}

void chosen_operations::abandon() noexcept {
    if (durability_ == durability_kind::atomic) {
        atomic_->abandon();
    } else if (durability_ == durability_kind::collect) {
        ordered_->abandon();
        static refusing_operations refusing;
        use(refusing);
        heap_.blocks().abandon();
    }
}

void chosen_operations::continue_directly() {
    slab::continue_in_child(heap_.blocks());
    heap_.blocks().forget_log();
    heap_.objects().persist_with({});
    use(direct_);
    owned_.reset();
    of_atomic_.reset();
    durability_ = durability_kind::commit;
    if (heap_.blocks().is_hardened()) {
        harden();
    }
}

}  // namespace holdfast::heap
