#include "simulator/collect/collect_heap.hpp"

#include <cstring>

#include "base/assert.hpp"
#include "heap/trace/trace.hpp"
#include "persist/mutant.hpp"

namespace holdfast::simulator {

using persist::site_kind;

tracked_memory::layout collect_layout() {
    return {{heap_user_bytes, heap_shape.metadata_size(), heap_objects_bytes},
            heap_metadata_at,
            heap_shape.metadata_size()};
}

object_file::object_file() {
    segment::creation_options options;
    options.segment_size = segment::minimum_segment_size;
    options.mapping.reservation = segment::minimum_segment_size;
    auto made = segment::heap_files::create_scratch(persist::posix_storage(), options);
    HF_ASSERT(made.ok());
    files_ = std::move(made).value();
    const bool grown = files_->grow(base::page_of({heap_user_bytes})).ok() && files_->grow_objects(1).ok();
    HF_ASSERT(grown && files_->objects_size() >= heap_objects_bytes);
}

void object_file::load(tracked_memory& memory) {
    std::memcpy(files_->objects(), memory.address() + heap_objects_at, heap_objects_bytes);
}

void object_file::store_to(tracked_memory& memory) {
    tracked_domain domain(memory);
    for (std::uint64_t at = 0; at < heap_objects_bytes; at += sizeof(std::uint64_t)) {
        std::byte* const from = files_->objects() + at;
        std::byte* const to = memory.address() + heap_objects_at + at;
        if (std::memcmp(from, to, sizeof(std::uint64_t)) != 0) {
            domain.copy(to, from, sizeof(std::uint64_t), "program.objects.store");
        }
    }
}

const void* object_file::tracked(tracked_memory& memory, const void* begin) const noexcept {
    const auto at = static_cast<std::uint64_t>(static_cast<const std::byte*>(begin) - files_->objects());
    HF_ASSERT(at < heap_objects_bytes);
    return memory.address() + heap_objects_at + at;
}

void* collect_memory::allocate(const heap::block_request& wanted) const noexcept {
    void* const block = of_.allocate(wanted.bytes, wanted.alignment, wanted.type);
    if (block != nullptr && listener_) {
        listener_(space_.view().offset(block).value);
    }
    return block;
}

collect_session::collect_session(collect_space& space, object_file& file, bool format)
    : space_(space),
      file_(file),
      domain_(space.memory()),
      extents_(space.view(), space),
      blocks_(space.view(), extents_),
      objects_(file.files()) {
    file_.load(space_.memory());
    if (auto opened = format ? blocks_.format() : open(); !opened) {
        fault_ = "open: " + opened.error().message();
    }
}

/// As engine::open().
base::result<void> collect_session::open() {
    const bool crashed = !space_.facts().clean;
    if (crashed) {
        HF_TRY(trace());
    }
    HF_TRY(blocks_.open(space_.frontier(), crashed));
    if (crashed) {
        HF_TRY(repair_objects(true));
    }
    operations_ = std::make_unique<operations>(domain_, space_.view(), extents_, blocks_);
    destinations_ = std::make_unique<heap::ordered_destinations<collect_memory>>(
        collect_memory(space_, blocks_, *operations_, listener_));
    objects_.persist_with([this](const void* begin, std::uint64_t bytes) { persist_objects(begin, bytes, false); });
    space_.memory().cut("a recovered heap");
    space_.facts().clean = false;  // as heap_files::begin_tracing()
    space_.memory().cut("tracing has begun");
    extents_.write_opened();
    if (space_.setting().gives_back) {
        extents_.space().set_decay(0, []() noexcept { return std::uint64_t{0}; });
    }
    return blocks_.keep_extents();
}

/// As engine::trace_after_crash().
base::result<void> collect_session::trace() {
    tracked_memory& memory = space_.memory();
    memory.cut("before recovery");
    if (!persist::mutant_active("collect.recovery.sync", site_kind::code)) {
        memory.settle_all();  // as heap_files::sync_shared()
    }
    HF_TRY(repair_objects(false));
    HF_TRY_ASSIGN(const std::vector<std::uint64_t> roots, heap::object_roots(objects_));
    heap::trace_options options;
    options.threads = 1;
    const auto flush = [this](const void* begin, std::uint64_t bytes) {
        domain_.flush(begin, bytes, "trace.flush");
        domain_.fence("trace.fence");
    };
    HF_TRY(heap::recover_by_tracing(space_.view(), extents_, space_.frontier(), roots, {}, options,
                                    heap::trace_flush(flush)));
    memory.cut("traced");
    return {};
}

base::result<void> collect_session::repair_objects(bool blocks_are_known) {
    objects_.persist_with([this](const void* begin, std::uint64_t bytes) { persist_objects(begin, bytes, true); });
    return objects_.repair([&](std::uint64_t offset) { return blocks_are_known ? bytes_at(offset) : 1; });
}

std::uint64_t collect_session::bytes_at(std::uint64_t offset) const {
    if (offset >= base::to_bytes(space_.frontier())) {
        return 0;
    }
    const auto size = blocks_.inspect().usable_size(space_.view().address({offset}));
    return size ? size.value() : 0;
}

void collect_session::persist_objects(const void* begin, std::uint64_t bytes, bool recovery) {
    file_.store_to(space_.memory());
    const void* const there = file_.tracked(space_.memory(), begin);
    if (recovery) {
        domain_.flush(there, bytes, "repair.flush");
        domain_.fence("repair.fence");
    } else {
        operations_->flush(there, bytes);
        operations_->drain();
    }
}

bool collect_session::shrink() {
    blocks_.small().release_unused();
    blocks_.flush_extents();
    return extents_.space().shrink({}, [] { return true; }).ok();
}

void collect_session::close() {
    blocks_.flush_extents();
    operations_->write_back();
    space_.memory().cut("to be closed");
    space_.facts().clean = true;  // as heap_files::close_shared(), but without its sync
    space_.memory().cut("closed");
}

std::string collect_session::check() {
    std::vector<std::string> problems;
    blocks_.inspect().check(problems, destinations_->reserved());
    objects_.check(problems, [this](std::uint64_t offset) { return bytes_at(offset); });
    return problems.empty() ? std::string{} : "check: " + problems.front();
}

collect_session::~collect_session() {
    // As a crash: nothing is given back or written.
    blocks_.close();
    operations_.reset();
}

}  // namespace holdfast::simulator
