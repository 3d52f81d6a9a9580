// Scratch heaps, and heaps that a child of fork continues as a copy: for a drop-in malloc.
#include "heap/heap.hpp"

namespace holdfast::heap {

using base::failure;
using base::failure_code;

namespace {

/// A child of fork that does not have its parent's heap: every call fails.
class refusing_operations final : public collect_operations {
public:
    void* allocate(std::uint64_t /*bytes*/, std::uint64_t /*alignment*/, std::uint32_t /*type*/) noexcept override {
        refuse();
        return nullptr;
    }
    bool deallocate(void* /*block*/) noexcept override {
        refuse();
        return false;
    }
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

base::result<std::unique_ptr<engine>> engine::create_scratch(const engine_options& options) {
    HF_TRY_ASSIGN(auto files, segment::heap_files::create_scratch(*options.storage, options.files));
    std::unique_ptr<engine> made(new engine(std::move(files)));
    HF_TRY(made->files_->grow(base::pages_for(std::max(options.initial_bytes, segment::region_size))));
    HF_TRY(made->blocks_.format());
    HF_TRY(made->keep_extents({}));
    made->start_decay(options.decay_ns);
    if (options.hardened) {
        made->harden();
        HF_TRY(made->start_guards());
    }
    made->find_plain_path();
    return made;
}

base::result<void> engine::refuse_scratch() const {
    if (!files_->location().is_scratch()) {
        return {};
    }
    return failure{
        failure_code::unsupported, files_->paths().directory(), "heap", "one without files", "one with files", {}, 0};
}

base::result<void> engine::prepare_fork() { return files_->show_to_child(true); }

void engine::resume_after_fork() noexcept {
    try {
        // After a failure children of other forks inherit pages that they do not use: harmless.
        static_cast<void>(files_->show_to_child(false).ok());
    } catch (const std::bad_alloc&) {
        return;  // out of memory while the failure was built
    }
}

base::result<void> engine::continue_in_child() {
    segment::free_runs used;
    std::vector<base::granule> slabs;
    if (files_->shared()) {
        extents_.for_each([&](const extent::extent& found) {
            // Guard ranges have no content and cannot be read.
            const bool is_guard = found.kind == segment::extent_kind::reserved &&
                                  blocks_.slabs().source().guards().contains(base::granule_of(found.start));
            if (found.kind != segment::extent_kind::free && !is_guard) {
                used.emplace_back(found.start, found.length);
            }
            if (found.kind == segment::extent_kind::slab) {
                slabs.push_back(base::granule_of(found.start));
            }
        });
    }
    const bool mapped_anew = files_->shared();
    HF_TRY(files_->continue_in_child(used, slabs));
    if (mapped_anew) {
        blocks_.slabs().source().renew_guards({}, files_->frontier());
    }
    blocks_.forget_log();
    objects_.persist_with({});
    header_operations_.reset();
    headers_ = nullptr;
    collects_ = false;
    if (blocks_.is_hardened()) {
        harden();
    }
    return {};
}

void engine::abandon_in_child() noexcept {
    if (keeps_children_) {
        return;
    }
    if (atomic_ != nullptr) {
        atomic_->abandon();
    } else if (collects_) {
        ordered_->abandon();
        static refusing_operations refusing;
        headers_ = &refusing;
        plain_ = &slab::plain_blocks::of_no_heap();
        blocks_.abandon();
    }
}

}  // namespace holdfast::heap
