#include "heap/heap_opening.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "heap/registry.hpp"
#include "persist/machine.hpp"
#include "segment/creation/copy.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

/// In durability `commit` pages are private.
bool is_shared(access_mode mode, durability_kind durability) {
    return mode == access_mode::read_write && durability != durability_kind::commit;
}

/// No free takes an object's block. If the directory cannot be read, every request for an object fails instead.
base::result<void> pin_objects(heap_parts& heap) {
    try {
        std::vector<std::uint64_t> offsets;
        static_cast<void>(
            heap.objects().for_each_offset([&](std::uint64_t offset) { offsets.push_back(offset); }).ok());
        std::ranges::sort(offsets);  // ascending: the set tries its end first
        for (const std::uint64_t offset : offsets) {
            heap.blocks().pin(heap.files().view().address({offset}), slab::pinned_blocks::make_place());
        }
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        what.path = heap.files().paths().directory();
        return what;
    }
    return {};
}

}  // namespace

base::result<void> heap_opening::check_durability() const {
    const durability_kind asked = options_.durability;
    if (asked >= durability_kind::commit && asked <= durability_kind::atomic) {
        return {};
    }
    return failure{failure_code::invalid_argument,
                   path_,
                   "durability",
                   fmt::format("{}", static_cast<unsigned>(asked)),
                   "commit, collect or atomic",
                   {},
                   0};
}

base::result<void> heap_opening::check_promise(const segment::heap_files& files) const {
    const bool is_disk = files.domain() == persist::domain_kind::disk;
    if (is_disk && files.shared() && options_.durability == durability_kind::collect) {
        return failure{failure_code::promise_unavailable,
                       files.paths().directory(),
                       "durability",
                       "collect, which has no records that the domain disk could sync",
                       "durability atomic or commit",
                       "choose another durability, or the domain page-cache",
                       0};
    }
    if (!files.shared() || files.domain() != persist::domain_kind::page_cache || options_.accept_process_crash_only) {
        return {};
    }
    return failure{failure_code::promise_unavailable,
                   files.paths().directory(),
                   "durability",
                   fmt::format("{}, where the persistence domain is page-cache: what was stored survives a crash of "
                               "the process, and not a power loss",
                               options_.durability == durability_kind::atomic ? "atomic" : "collect"),
                   "the domain dax or eadr, or durability commit",
                   "accept crashes of the process alone (accept_process_crash_only), put the heap on a file system "
                   "that is mounted with dax, or use durability commit",
                   0};
}

/// A session without a promise for a loss of power has lost no store unless the machine stopped.
base::result<void> heap_opening::check_boot(const segment::heap_files& files) const {
    const std::uint64_t boot = files.superblock().boot;
    const bool is_pending = files.has_pending_lanes() || files.has_pending_tracing();
    if (!is_pending || boot == 0 || persist::this_boot() == 0 || boot == persist::this_boot() ||
        options_.accept_machine_restart) {
        return {};
    }
    return failure{failure_code::promise_unavailable,
                   files.paths().directory(),
                   "boot of the machine",
                   "the heap was open in a domain that survives crashes of the process alone, and the machine was "
                   "restarted: any of its pages may be older than others",
                   "the boot in which that session began",
                   "use a copy; or, where the machine was shut down in order, open it with accept_machine_restart and "
                   "check it",
                   0};
}

base::result<std::unique_ptr<engine>> heap_opening::create() {
    HF_TRY(check_durability());
    HF_TRY_ASSIGN(auto files, segment::heap_files::create(*options_.storage, path_, options_.files));
    std::unique_ptr<engine> made(new engine(std::move(files)));
    if (auto formatted = format(*made); !formatted) {
        failure what = std::move(formatted).error();
        if (what.path.empty()) {
            what.path = path_;
        }
        return what;
    }
    if (options_.durability != durability_kind::commit) {
        // The heap is complete, and opened as any other. It stays locked: if this fails, no other process has it.
        HF_TRY(made->close(false));
        const auto directories = made->files().directories();
        made.reset();
        auto opened = open(access_mode::read_write, directories);
        if (!opened) {
            static_cast<void>(segment::remove_heap(*options_.storage, path_, directories).ok());
        }
        return opened;
    }
    if (auto started = start_created(*made); !started) {
        const auto directories = made->files().directories();
        made.reset();
        static_cast<void>(segment::remove_heap(*options_.storage, path_, directories).ok());
        return std::move(started).error();
    }
    return made;
}

base::result<void> heap_opening::format(engine& made) const {
    HF_TRY(made.files().grow(base::pages_for(std::max(options_.initial_bytes, segment::region_size))));
    HF_TRY(made.blocks().format());
    HF_TRY(made.files().commit(free_space_of(made.extents())));
    return {};
}

base::result<void> heap_opening::start_created(engine& made) const {
    HF_TRY(keep_extents(made));
    made.space_.start_decay(decay_ns());
    HF_TRY(harden(made));
    made.chosen().start_destinations();
    made.find_fast_path();
    HF_TRY(register_engine(made));
    made.files().readers().admit(options_.by_turns);
    return {};
}

base::result<std::unique_ptr<engine>> heap_opening::create_scratch() {
    HF_TRY_ASSIGN(auto files, segment::heap_files::create_scratch(*options_.storage, options_.files));
    std::unique_ptr<engine> made(new engine(std::move(files)));
    HF_TRY(made->files().grow(base::pages_for(std::max(options_.initial_bytes, segment::region_size))));
    HF_TRY(made->blocks().format());
    HF_TRY(keep_extents(*made));
    made->space_.start_decay(options_.decay_ns);
    HF_TRY(harden(*made));
    made->find_fast_path();
    return made;
}

base::result<std::unique_ptr<engine>> heap_opening::open(
    access_mode mode, const std::shared_ptr<segment::heap_directories>& directories) {
    HF_TRY(check_durability());
    segment::mapping_options mapping = options_.files.mapping;
    mapping.shared = is_shared(mode, options_.durability);
    mapping.by_turns = options_.by_turns;
    mapping.domain = options_.domain;
    mapping.syncs_records =
        options_.durability == durability_kind::atomic && !options_.domain && !options_.accept_process_crash_only;
    HF_TRY_ASSIGN(auto files, segment::heap_files::open(*options_.storage, path_, mode, mapping, directories));
    HF_TRY(check_boot(*files));
    if (mode == access_mode::read_write) {
        // Recovery works on the files themselves.
        const auto crashed_in = files->has_pending_lanes()     ? durability_kind::atomic
                                : files->has_pending_tracing() ? durability_kind::collect
                                                               : options_.durability;
        if (crashed_in != options_.durability) {
            const auto same = files->directories();
            files.reset();
            return open_recovered(crashed_in, same);
        }
    }
    HF_TRY(check_promise(*files));
    std::unique_ptr<engine> opened(new engine(std::move(files)));
    HF_TRY_ASSIGN(opened->recovered_, heap_recovery(*opened).run(path_, options_.recovery, options_.before_trace));
    HF_TRY(opened->space_.reserve_copied());
    HF_TRY(start_opened(*opened, mode));
    return opened;
}

base::result<std::unique_ptr<engine>> heap_opening::read_anew(std::unique_ptr<segment::heap_files> files) {
    std::unique_ptr<engine> made(new engine(std::move(files)));
    made->files().bitmaps().admit_none();
    HF_TRY_ASSIGN(made->recovered_, heap_recovery(*made).run(path_, options_.recovery, options_.before_trace));
    HF_TRY(start_opened(*made, access_mode::read_only));
    return made;
}

base::result<std::unique_ptr<engine>> heap_opening::write_anew(std::unique_ptr<segment::heap_files> files) {
    std::unique_ptr<engine> made(new engine(std::move(files)));
    HF_TRY_ASSIGN(made->recovered_, heap_recovery(*made).run(path_, options_.recovery, options_.before_trace));
    HF_TRY(start_opened(*made, access_mode::read_write));
    return made;
}

base::result<void> heap_opening::start_opened(engine& opened, access_mode mode) const {
    const bool shared = is_shared(mode, options_.durability);
    if (shared) {
        HF_TRY(options_.durability == durability_kind::atomic ? opened.chosen().start_atomic(options_.lane_slots)
                                                              : opened.chosen().start_collect());
    }
    if (mode != access_mode::read_write) {
        extent::show_opened(opened.extents());
        return register_reader(opened);
    }
    opened.extents().write_opened();  // only after the superblock says that a crash needs recovery
    if (!shared) {
        segment::free_runs free;
        free.reserve(opened.extents().count(segment::extent_kind::free));
        opened.extents().space().for_each_backed(
            [&](const extent::extent& run) { free.emplace_back(run.start, run.length); });
        opened.files().commits().note_free(free);
    }
    HF_TRY(keep_extents(opened));
    opened.space_.start_decay(decay_ns());
    HF_TRY(harden(opened));
    HF_TRY(pin_objects(opened));
    opened.chosen().start_destinations();
    opened.find_fast_path();
    HF_TRY(register_engine(opened));
    if (!shared) {
        opened.files().readers().admit(options_.by_turns);
    }
    return {};
}

/// It was promised at creation.
std::uint64_t heap_opening::decay_ns() const noexcept {
    return options_.initial_bytes != 0 ? extent::decay_curve::never : options_.decay_ns;
}

base::result<void> heap_opening::harden(engine& heap) const {
    if (!options_.hardened) {
        return {};
    }
    heap.chosen().harden();
    return heap.chosen().start_guards();
}

base::result<void> heap_opening::keep_extents(engine& heap) const {
    auto kept = heap.blocks().keep_extents();
    if (!kept && kept.error().path.empty()) {
        kept.error().path = path_;
    }
    return kept;
}

base::result<std::unique_ptr<engine>> heap_opening::open_or_create(const engine_options& created_with) {
    constexpr int attempts = 16;
    for (int attempt = 1;; ++attempt) {
        auto opened = open(access_mode::read_write, nullptr);
        const failure_code why = opened ? failure_code::none : opened.error().code;
        if (why != failure_code::not_found && why != failure_code::not_a_heap && why != failure_code::missing) {
            return opened;
        }
        // It tells an empty directory from one with an interrupted creation.
        auto created = heap_opening(path_, created_with).create();
        if (created || created.error().code != failure_code::already_exists) {
            return created;
        }
        // Another process created a heap, or other files are there: open() says more.
        if (attempt == attempts) {
            return opened;
        }
    }
}

base::result<std::unique_ptr<engine>> heap_opening::open_recovered(
    durability_kind crashed_in, const std::shared_ptr<segment::heap_directories>& directories) const {
    engine_options recovery = options_;
    recovery.durability = crashed_in;
    recovery.accept_process_crash_only = true;
    HF_TRY_ASSIGN(auto opened, heap_opening(path_, recovery).open(access_mode::read_write, directories));
    recovered_heap recovered = std::move(opened->recovered_);
    HF_TRY(opened->close(true));
    opened.reset();
    HF_TRY_ASSIGN(auto again, heap_opening(path_, options_).open(access_mode::read_write, directories));
    again->recovered_ = std::move(recovered);
    return again;
}

}  // namespace holdfast::heap
