#include "heap/heap.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "heap/ordered_destinations.hpp"
#include "heap/registry.hpp"
#include "segment/copy.hpp"
#include "segment/node_directories.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

base::result<void> check_durability(durability_kind asked, const std::string& path) {
    if (asked >= durability_kind::commit && asked <= durability_kind::atomic) {
        return {};
    }
    return failure{failure_code::invalid_argument,
                   path,
                   "durability",
                   fmt::format("{}", static_cast<unsigned>(asked)),
                   "commit, collect or atomic",
                   {},
                   0};
}

/// Whether stores go to the files at once. In durability `commit` pages are private.
bool is_shared(access_mode mode, durability_kind durability) {
    return mode == access_mode::read_write && durability != durability_kind::commit;
}

}  // namespace

engine::engine(std::unique_ptr<segment::heap_files> files)
    : files_(std::move(files)),
      extents_(files_->view(), files_->space()),
      blocks_(files_->view(), extents_, &files_->bitmaps(), files_->location().topology()),
      objects_(*files_) {
    extents_.set_nodes(files_->location().nodes_of_threads());
    if (separates_cache_lines()) {
        blocks_.separate_cache_lines();
    }
}

engine::~engine() { unregister_engine(*this); }

base::result<std::unique_ptr<engine>> engine::create(const std::string& path, const engine_options& options) {
    HF_TRY(check_durability(options.durability, path));
    HF_TRY_ASSIGN(auto files, segment::heap_files::create(*options.storage, path, options.files));
    std::unique_ptr<engine> made(new engine(std::move(files)));
    if (auto formatted = made->format(options.initial_bytes); !formatted) {
        failure what = std::move(formatted).error();
        if (what.path.empty()) {
            what.path = path;
        }
        return what;
    }
    if (options.durability != durability_kind::commit) {
        // The heap is complete and is now opened as any other. It stays locked, so that no other process opens it and
        // loses it if this open fails.
        HF_TRY(made->close(false));
        const auto hold = made->files_->hold();
        made.reset();
        auto opened = open(path, access_mode::read_write, options, hold);
        if (!opened) {
            static_cast<void>(segment::remove_heap(*options.storage, path, hold).ok());
        }
        return opened;
    }
    const auto start = [&]() -> base::result<void> {
        HF_TRY(made->keep_extents(path));
        made->start_decay(options.initial_bytes != 0 ? extent::decay_curve::never : options.decay_ns);
        if (options.hardened) {
            made->harden();
            HF_TRY(made->start_guards());
        }
        made->start_destinations();
        made->find_plain_path();
        return register_engine(*made);
    };
    if (auto started = start(); !started) {
        const auto hold = made->files_->hold();
        made.reset();
        static_cast<void>(segment::remove_heap(*options.storage, path, hold).ok());
        return std::move(started).error();
    }
    return made;
}

base::result<void> engine::format(std::uint64_t initial_bytes) {
    HF_TRY(files_->grow(base::pages_for(std::max(initial_bytes, segment::region_size))));
    HF_TRY(blocks_.format());
    HF_TRY(files_->commit(free_space()));
    return {};
}

base::result<std::unique_ptr<engine>> engine::open(const std::string& path, access_mode mode,
                                                   const engine_options& options,
                                                   const std::shared_ptr<segment::heap_hold>& hold) {
    HF_TRY(check_durability(options.durability, path));
    segment::mapping_options mapping = options.files.mapping;
    mapping.shared = is_shared(mode, options.durability);
    mapping.domain = options.domain;
    HF_TRY_ASSIGN(auto files, segment::heap_files::open(*options.storage, path, mode, mapping, hold));
    if (mode == access_mode::read_write) {
        // Recovery works on the files themselves, in the durability that crashed.
        const auto crashed_in = files->has_pending_lanes()     ? durability_kind::atomic
                                : files->has_pending_tracing() ? durability_kind::collect
                                                               : options.durability;
        if (crashed_in != options.durability) {
            const auto same = files->hold();
            files.reset();
            return open_recovered(path, options, crashed_in, same);
        }
    }
    HF_TRY(check_promise(*files, options));
    std::unique_ptr<engine> opened(new engine(std::move(files)));
    if (opened->files_->has_pending_lanes()) {
        HF_TRY(opened->replay_lanes());
    } else if (opened->files_->has_pending_tracing()) {
        HF_TRY(opened->trace_after_crash(options));
    }
    HF_TRY(opened->rebuild(path));
    if (opened->files_->has_pending_lanes() || opened->files_->has_pending_tracing()) {
        HF_TRY(opened->repair_objects(true));
    }
    HF_TRY(opened->reserve_copied());
    if (mapping.shared) {
        HF_TRY(options.durability == durability_kind::atomic ? opened->start_atomic(options) : opened->start_collect());
    }
    opened->extents_.write_opened();  // only after the superblock says that a crash needs recovery
    if (mode == access_mode::read_write && !mapping.shared) {
        segment::free_runs free;
        free.reserve(opened->extents_.count(segment::extent_kind::free));
        opened->extents_.space().for_each_backed([&](const extent::extent& run) { free.emplace_back(run.start, run.length); });
        opened->files_->commits().note_free(free);
    }
    if (mode == access_mode::read_write) {
        // Space promised at creation stays reserved while the creator has the heap open.
        HF_TRY(opened->keep_extents(path));
        opened->start_decay(options.initial_bytes != 0 ? extent::decay_curve::never : options.decay_ns);
        if (options.hardened) {
            opened->harden();
            HF_TRY(opened->start_guards());
        }
        HF_TRY(opened->pin_objects());
        opened->start_destinations();
        opened->find_plain_path();
        HF_TRY(register_engine(*opened));
    } else {
        HF_TRY(register_reader(*opened));
    }
    return opened;
}

base::result<std::unique_ptr<engine>> engine::open_or_create(const std::string& path, const engine_options& opened_with,
                                                             const engine_options& created_with) {
    constexpr int attempts = 16;
    for (int attempt = 1;; ++attempt) {
        auto opened = open(path, access_mode::read_write, opened_with);
        const failure_code why = opened ? failure_code::none : opened.error().code;
        if (why != failure_code::not_found && why != failure_code::not_a_heap && why != failure_code::missing) {
            return opened;
        }
        // create() tells an empty directory from one that holds an interrupted creation.
        auto created = create(path, created_with);
        if (created || created.error().code != failure_code::already_exists) {
            return created;
        }
        // Another process created a heap meanwhile, or other files are there: then open()'s failure says more.
        if (attempt == attempts) {
            return opened;
        }
    }
}

/// Recovers the heap in the durability that crashed and closes it first.
base::result<std::unique_ptr<engine>> engine::open_recovered(const std::string& path, const engine_options& options,
                                                             durability_kind crashed_in,
                                                             const std::shared_ptr<segment::heap_hold>& hold) {
    engine_options recovery = options;
    recovery.durability = crashed_in;
    recovery.accept_process_crash_only = true;
    HF_TRY_ASSIGN(auto recovered, open(path, access_mode::read_write, recovery, hold));
    const lane::replay_report replayed = recovered->replayed_;
    std::optional<trace_report> traced = std::move(recovered->traced_);
    HF_TRY(recovered->close(true));
    recovered.reset();
    HF_TRY_ASSIGN(auto again, open(path, access_mode::read_write, options, hold));
    again->replayed_ = replayed;
    again->traced_ = std::move(traced);
    return again;
}

/// Whether the media keep the promise, or the caller accepted that they do not.
base::result<void> engine::check_promise(const segment::heap_files& files, const engine_options& options) {
    if (!files.shared() || files.domain() != persist::domain_kind::page_cache || options.accept_process_crash_only) {
        return {};
    }
    return failure{failure_code::promise_unavailable,
                   files.paths().directory(),
                   "durability",
                   fmt::format("{}, where the persistence domain is page-cache: what was stored survives a crash of "
                               "the process, and not a power loss",
                               options.durability == durability_kind::atomic ? "atomic" : "collect"),
                   "the domain dax or eadr, or durability commit",
                   "accept crashes of the process alone (accept_process_crash_only), put the heap on a file system "
                   "that is mounted with dax, or use durability commit",
                   0};
}

void engine::start_destinations() {
    if (atomic_ != nullptr) {
        destinations_ = atomic_.get();
        return;
    }
    ordered_ = make_ordered_destinations(*this);
    destinations_ = ordered_.get();
}

/// No free takes an object's block from here on. If the directory cannot be read, nothing is pinned, and every request
/// for an object fails.
base::result<void> engine::pin_objects() {
    try {
        std::vector<std::uint64_t> offsets;
        static_cast<void>(objects_.for_each_offset([&](std::uint64_t offset) { offsets.push_back(offset); }).ok());
        std::ranges::sort(offsets);  // ascending: the set tries its end first
        for (const std::uint64_t offset : offsets) {
            blocks_.pin(files_->view().address({offset}), slab::pinned_blocks::make_place());
        }
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        what.path = files_->paths().directory();
        return what;
    }
    return {};
}

base::result<void> engine::keep_extents(const std::string& path) {
    auto kept = blocks_.keep_extents();
    if (!kept && kept.error().path.empty()) {
        kept.error().path = path;
    }
    return kept;
}

const failure& engine::last_failure() noexcept { return slab::block_allocator::last_failure(); }

base::result<void> engine::check_process() const { return files_->location().check_process(); }

segment::free_runs engine::free_space() const {
    segment::free_runs free;
    extents_.for_each_free([&free](const extent::extent& run) { free.emplace_back(run.start, run.length); });
    return free;
}

base::result<segment::commit_statistics> engine::commit() {
    HF_TRY(check_process());
    HF_TRY(refuse_scratch());
    if (files_->shared()) {
        const auto start = std::chrono::steady_clock::now();
        if (atomic_ != nullptr) {
            atomic_->checkpoint();
        }
        write_back();
        HF_TRY(files_->session().sync());
        segment::commit_statistics statistics;
        statistics.total_ns = statistics.sync_ns = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
        return statistics;
    }
    return commit_pages(false, kept_at_the_end(files_->frontier()));
}

base::result<void> engine::close(bool commit_changes) {
    HF_TRY(check_process());
    if (read_only() || files_->location().is_scratch()) {
        return {};
    }
    blocks_.slabs().source().free_guards();
    if (destinations_ != nullptr) {  // null while create() formats the heap
        destinations_->cancel_all();
    }
    if (atomic_ != nullptr) {
        return close_atomic();
    }
    if (collects_) {
        return close_collect();
    }
    if (!commit_changes) {
        return files_->commits().close_unchanged();
    }
    blocks_.slabs().write_bitmaps();
    blocks_.flush_extents();
    const segment::free_runs free = free_space();
    HF_TRY_ASSIGN(const bool unchanged, files_->unchanged(free));
    if (!unchanged) {
        HF_TRY(commit_pages(false, kept_at_the_end(files_->frontier())));
    }
    return files_->close_cleanly();
}

base::result<void> engine::snapshot(const std::string& destination) {
    segment::recovered_state state;
    if (!read_only()) {
        HF_TRY(commit());
    }
    HF_TRY_ASSIGN(state, segment::recover(files_->storage(), files_->paths(), access_mode::read_only));
    if (atomic_ != nullptr) {
        state.superblock.flags &= ~segment::flag_lanes;  // commit() brought all records into the files
        state.superblock.checkpoint_clock = atomic_->lanes().checkpoint_time();
    }
    if (collects_) {
        state.superblock.flags &= ~segment::flag_tracing;  // commit() wrote the bitmaps
    }
    // A store through a shared mapping to a block shared with a copy takes space; on a full disk it ends in SIGBUS.
    return segment::copy_heap({files_->storage(), files_->paths(), state}, persist::posix_storage(), destination, {},
                              files_->shared() ? persist::shared_blocks::none : persist::shared_blocks::allowed);
}

base::result<void> engine::deallocate(void* address) {
    base::result<void> freed;
    if (!try_deallocate(address)) {
        freed = last_failure();
    }
    if (!freed && freed.error().path.empty()) {
        freed.error().path = files_->paths().directory();
    }
    return freed;
}

base::result<std::uint64_t> engine::usable_size(const void* address) { return blocks_.inspect().usable_size(address); }

base::result<std::uint32_t> engine::type_of(const void* address) { return blocks_.inspect().type_of(address); }

bool engine::all_free() { return blocks_.inspect().all_free(); }

base::result<engine_statistics> engine::statistics() {
    engine_statistics numbers;
    HF_TRY(files_->bitmaps().admit_all());
    blocks_.flush_extents();
    HF_TRY_ASSIGN(numbers.files, files_->statistics());
    numbers.reservation = files_->view().reservation();
    numbers.user_bytes = base::to_bytes(files_->frontier());
    blocks_.inspect().for_each_block(
        [&numbers](base::heap_offset /*offset*/, std::uint64_t size, std::uint32_t /*type*/) {
            ++numbers.allocated_blocks;
            numbers.allocated_bytes += size;
        });
    numbers.largest_free_block = base::to_bytes(extents_.largest_free());
    numbers.slabs = extents_.count(segment::extent_kind::slab);
    numbers.extents = extents_.count(segment::extent_kind::used);
    numbers.guard_ranges = blocks_.slabs().source().guards().count();
    return numbers;
}

base::result<void> engine::for_each_extent(base::function_ref<void(const extent_state&)> each) {
    HF_TRY(files_->bitmaps().admit_all());
    blocks_.flush_extents();
    segment::backing_cursor backing(files_->storage(), files_->paths(), files_->view().shape());
    base::result<void> outcome;
    extents_.for_each([&](const extent::extent& found) {
        if (!outcome) {
            return;
        }
        auto backed = backing.count(base::offset_of(found.start), base::offset_of(found.start + found.length));
        if (!backed) {
            outcome = std::move(backed).error();
            return;
        }
        extent_state state{found, {}, *backed};
        if (found.kind == segment::extent_kind::slab) {
            state.slab = blocks_.inspect().occupancy(base::granule_of(found.start));
        }
        each(state);
    });
    return outcome;
}

std::vector<std::string> engine::check(bool pages) {
    std::vector<std::string> problems;
    if (atomic_ != nullptr) {
        atomic_->checkpoint();  // the bitmaps follow at a checkpoint
    }
    if (auto admitted = files_->bitmaps().admit_all(); !admitted) {
        problems.push_back("SEG-3: " + admitted.error().message());
        return problems;  // bitmaps that could not be read cannot be checked
    }
    blocks_.inspect().check(problems,
                            destinations_ != nullptr ? destinations_->reserved() : std::vector<std::uint64_t>{});
    objects_.check(problems, [this](std::uint64_t offset) -> std::uint64_t {
        if (offset >= base::to_bytes(files_->frontier())) {
            return 0;
        }
        const auto size = blocks_.inspect().usable_size(files_->view().address({offset}));
        return size ? size.value() : 0;
    });
    check_pointers(problems);
    for (const failure& warning : files_->warnings()) {
        problems.push_back("SB-1: " + warning.message());
    }
    if (pages) {
        constexpr std::size_t most = 100;
        std::vector<failure> broken;
        if (auto verified = files_->verify(broken, most)) {
            compared_ = *verified;
        } else {
            problems.push_back("SEG-2: " + verified.error().message());
        }
        for (const failure& problem : broken) {
            problems.push_back("SEG-2: " + problem.message());
        }
    }
    return problems;
}

base::result<segment::superblock_on_media> read_superblock(const std::string& path) {
    const segment::heap_paths paths(path);
    HF_TRY_ASSIGN(const auto held, segment::hold_directory(persist::posix_storage(), paths));
    return read_superblock(*held, paths);
}

base::result<segment::superblock_on_media> read_superblock(persist::storage& storage,
                                                           const segment::heap_paths& paths) {
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_only));
    HF_TRY_ASSIGN(const auto copies, segment::read_superblocks(*file));
    if (const auto* newest = copies.newest(); newest != nullptr) {
        return *newest;
    }
    return copies.bad[0];
}

base::result<void> copy(const std::string& source, const std::string& destination,
                        std::span<const std::string> node_places) {
    const segment::heap_paths paths(source);
    HF_TRY_ASSIGN(const auto hold, segment::hold_heap(persist::posix_storage(), paths, access_mode::read_only));
    HF_TRY_ASSIGN(const auto state, segment::recover(*hold->storage, paths, access_mode::read_only));
    return segment::copy_heap({*hold->storage, paths, state}, persist::posix_storage(), destination, node_places);
}

base::result<bool> remove(const std::string& path) { return segment::remove_heap(persist::posix_storage(), path); }

}  // namespace holdfast::heap
