#include "heap/heap_operations.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "heap/collect/collect_operations.hpp"
#include "heap/ordered/hardened_operations.hpp"
#include "heap/ordered/ordered_destinations.hpp"
#include "lane/replay.hpp"
#include "segment/files/private_zeros.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;

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
        failure what;
        what.code = failure_code::wrong_process;
        slab::block_allocator::leave(std::move(what));
    }
};

}  // namespace

heap_operations::heap_operations(std::unique_ptr<segment::heap_files> files)
    : heap_parts(std::move(files)), direct_(blocks()) {}

base::result<void> heap_operations::deallocate(void* address) {
    base::result<void> freed;
    if (!try_deallocate(address)) {
        freed = last_failure();
    }
    if (!freed && freed.error().path.empty()) {
        freed.error().path = files().paths().directory();
    }
    return freed;
}

bool heap_operations::free_filtered(void* address) noexcept {
    // The filter sees sound frees alone.
    try {
        slab::held_block found;
        if (!blocks().find_allocated(address, found)) {
            return false;
        }
        if (keep_back_(address)) {
            return true;
        }
    } catch (...) {  // what it did with the block is unknown, so the block stays allocated
        failure what;
        what.code = failure_code::invalid_argument;
        slab::block_allocator::leave(std::move(what));
        return false;
    }
    return free_at_once(address);
}

void heap_operations::use(block_operations& chosen) noexcept {
    operations_ = &chosen;
    is_direct_ = &chosen == &direct_;
}

void heap_operations::own(std::unique_ptr<block_operations> chosen) noexcept {
    use(*chosen);
    owned_ = std::move(chosen);
}

base::result<void> heap_operations::start_atomic(std::uint64_t lane_slots) {
    const segment::superblock_on_media& superblock = files().superblock();
    // It fixes where each lane lies.
    const std::uint64_t slots = superblock.lane_slots != 0 ? superblock.lane_slots : lane_slots;
    if (files().lanes().lanes() == nullptr) {
        HF_TRY(open_lanes(slots));
    }
    lane::lane_options lanes;
    lanes.heap_key = superblock.heap_key;
    lanes.slots = slots;
    lanes.order = lane::order_in(files().domain());
    lanes.checkpoint_time = superblock.checkpoint_clock;
    if (files().has_pending_lanes()) {  // after a crash, and replayed; in a clean heap no lane counts
        const std::span<const std::byte> file(files().lanes().lanes(), files().lanes().lanes_size());
        const auto order = static_cast<lane::record_order>(superblock.record_order);
        HF_TRY_ASSIGN(const auto last, lane::read_checkpoint(file, superblock.heap_key));
        lanes.checkpoint_time = last.time;
        HF_TRY_ASSIGN(lanes.lane_count, lane::read_lane_count(file, file.size(), slots, order, superblock.heap_key));
    }
    if (lanes.order == lane::record_order::logged) {
        HF_TRY_ASSIGN(lanes.log_chain, log::random_number());
    }
    lanes.incarnation = superblock.incarnation + 1;
    lanes.files = files().lanes().files();
    lanes.machine_nodes = files().location().topology().nodes();
    objects().persist_with([this](const void* begin, std::uint64_t bytes) { persist(begin, bytes); });
    // Seals the space for records; from the next step on, recovery looks there (LANE-26).
    auto made = make_atomic_operations(files().domain(), files().session().memory(), files().view(), files().lanes(),
                                       blocks(), lanes, files().space().zeros());
    if (!made) {
        failure what = std::move(made).error();
        what.path = what.path.empty() ? files().lanes().path() : what.path;
        return what;
    }
    if (files().session().memory().has_failed()) {  // LANE-26: the head may not be on media
        return files().session().memory().failure();
    }
    atomic_ = made->get();
    own(std::move(made).value());
    durability_ = durability_kind::atomic;
    if (lane::is_by_clock(lanes.order)) {
        settle_.of = atomic_;
        extents().space().set_settling(settle_);
    }
    return files().session().begin_incarnation(static_cast<std::uint32_t>(slots),
                                               static_cast<std::uint32_t>(lanes.order));
}

base::result<void> heap_operations::start_collect() {
    if (files().domain() != persist::domain_kind::page_cache) {
        own(make_collect_operations(files().domain(), files().view(), extents(), blocks()));
    }
    objects().persist_with([this](const void* begin, std::uint64_t bytes) { persist(begin, bytes); });
    durability_ = durability_kind::collect;
    blocks().slabs().set_traced(true);
    return files().session().begin_tracing();
}

void heap_operations::harden() {
    blocks().harden();
    if (durability_ != durability_kind::atomic) {  // which checks its frees exactly already
        auto inner = owned_ != nullptr ? std::move(owned_) : std::make_unique<direct_operations>(blocks());
        own(make_hardened_operations(std::move(inner)));
    }
}

base::result<void> heap_operations::start_guards() {
    // In durability `atomic` a checkpoint flushes lines of destinations, maybe in guard ranges by now. A flush needs
    // the right to load.
    const bool flushed_late =
        durability_ == durability_kind::atomic && files().domain() != persist::domain_kind::page_cache;
    using rights = segment::page_access::rights;
    return blocks().slabs().source().start_guards(files().mapping(), flushed_late ? rights::read : rights::none);
}

void heap_operations::start_destinations() {
    if (atomic_ != nullptr) {
        destinations_ = atomic_;
        return;
    }
    ordered_ = make_ordered_destinations(*this);
    destinations_ = ordered_.get();
}

void heap_operations::find_fast_path() noexcept {
    const bool refused = read_only() || durability_ == durability_kind::atomic || keep_back_ || blocks().is_hardened();
    fast_path_ = refused ? &slab::fast_path::of_no_heap() : &blocks().fast_path();
}

void heap_operations::stop() noexcept {
    objects().persist_with({});
    use(direct_);
    if (atomic_ != nullptr) {
        settle_.of = nullptr;
        destinations_ = nullptr;
        atomic_ = nullptr;
    } else {
        blocks().slabs().set_traced(false);
    }
    owned_.reset();
    durability_ = durability_kind::commit;
}

void heap_operations::abandon() noexcept {
    if (durability_ == durability_kind::atomic) {
        atomic_->abandon();
    } else if (durability_ == durability_kind::collect) {
        ordered_->abandon();
        static refusing_operations refusing;
        use(refusing);
        fast_path_ = &slab::fast_path::of_no_heap();
        blocks().abandon();
    }
}

void heap_operations::continue_directly() {
    slab::continue_in_child(blocks());
    blocks().forget_log();
    objects().persist_with({});
    use(direct_);
    owned_.reset();
    durability_ = durability_kind::commit;
    if (blocks().is_hardened()) {
        harden();
    }
}

/// In durability `commit`, memory that no file backs yet (MAP-2) takes none to be zero. Where changes() is null, it may
/// get a file meanwhile.
void zero(heap_operations& of, void* block, std::uint64_t bytes, zeros kind) noexcept {
    auto* const begin = static_cast<std::byte*>(block);
    if (of.files().shared()) {
        of.files().space().zeros().for_each_other(begin, bytes, [&](std::byte* at, std::uint64_t size) {
            std::memset(at, 0, size);
            if (kind == zeros::durable) {
                of.flush(at, size);
            }
        });
        if (kind == zeros::durable) {
            of.drain();
        }
        return;
    }
    std::uint64_t in_files = bytes;
    if (of.changes() != nullptr) {
        const std::uint64_t committed = base::to_bytes(of.files().mapping().committed());
        in_files = std::min(bytes, committed - std::min(committed, of.files().view().offset(block).value));
    }
    std::memset(begin, 0, in_files);
    segment::zero_private_memory(begin + in_files, bytes - in_files);
}

}  // namespace holdfast::heap
