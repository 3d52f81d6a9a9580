#include "segment/heap_files.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "persist/posix_io.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

base::result<void> check_page_size() {
    const auto found = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (found != page_size) {
        return failure{failure_code::unsupported,
                       {},
                       "page size of the kernel",
                       fmt::format("{}", found),
                       fmt::format("{}", page_size),
                       {},
                       0};
    }
    return {};
}

/// Nobody knows which pages were changed without their checksums.
base::result<void> forget_stale_checksums(const segment_files& segments, const objects_file& objects,
                                          heap_superblock& superblock) {
    if ((superblock.now().flags & flag_stale_checksums) == 0) {
        return {};
    }
    HF_TRY(segments.forget_checksums(base::divide_up(superblock.now().frontier, superblock.shape().segment_size)));
    HF_TRY(objects.forget_checksums());
    return superblock.write(superblock.now().state,
                            [](superblock_on_media& next) { next.flags &= ~flag_stale_checksums; });
}

}  // namespace

heap_files::heap_files(persist::storage& storage, std::string directory, access_mode mode)
    : location_(storage, std::move(directory), mode) {}

base::result<std::unique_ptr<heap_files>> heap_files::create(persist::storage& storage, const std::string& directory,
                                                             const creation_options& options) {
    HF_TRY(check_page_size());
    if (!geometry{segment_size_of(options)}.valid()) {
        return failure{failure_code::invalid_argument,
                       directory,
                       "segment size",
                       fmt::format("{}", options.segment_size),
                       "a power of two from 2 MiB to 64 GiB",
                       {},
                       0};
    }
    std::unique_ptr<heap_files> files(new heap_files(storage, directory, access_mode::read_write));
    HF_TRY(check_node_places(storage, files->paths(), options.node_places));
    HF_TRY(files->creation_.take_directory());
    HF_TRY_ASSIGN(const superblock_on_media superblock, new_superblock(options));
    files->superblock_.set(superblock);
    HF_TRY(files->creation_.make_nodes(options.node_places));
    HF_TRY(files->reserve_addresses(options.mapping));
    files->superblock_.set_base_address(files->view().base());
    HF_TRY(files->creation_.make_files());
    files->segments_.set_names_changed(true);
    HF_TRY(files->location_.find_domain());
    HF_TRY(files->location_.check_whether_in_memory());
    HF_TRY(files->commits_.start(options.mapping.watch));
    files->space_.set_bound(files->bound_.start(options.mapping.maximum_uncommitted));
    return files;
}

base::result<std::unique_ptr<heap_files>> heap_files::create_scratch(persist::storage& storage,
                                                                     const creation_options& options) {
    HF_TRY(check_page_size());
    std::unique_ptr<heap_files> files(new heap_files(storage, "(a heap without files)", access_mode::read_write));
    files->superblock_.set_on_media();
    files->location_.set_scratch();
    HF_TRY_ASSIGN(const superblock_on_media superblock, new_superblock(options));
    files->superblock_.set(superblock);
    HF_TRY(files->reserve_addresses(options.mapping));
    files->superblock_.set_base_address(files->view().base());
    return files;
}

base::result<std::unique_ptr<heap_files>> heap_files::open(persist::storage& outer, const std::string& directory,
                                                           access_mode mode, const mapping_options& options,
                                                           std::shared_ptr<heap_directories> directories) {
    HF_TRY(check_page_size());
    std::unique_ptr<heap_files> files(new heap_files(outer, directory, mode));
    files->superblock_.set_on_media();
    recovered_state state;
    if (mode == access_mode::read_only) {
        HF_TRY_ASSIGN(reader_state found, open_and_recover(outer, files->paths()));
        state = std::move(found.state);
        state.crashed = state.crashed && !found.directories->locks.empty();  // it runs
        files->location_.set_directories(std::move(found.directories));
    } else {
        const neighbours beside = options.by_turns ? neighbours::turns
                                  : options.shared ? neighbours::none
                                                   : neighbours::readers;
        if (directories == nullptr) {
            HF_TRY_ASSIGN(directories, open_heap_directories(outer, files->paths(), mode, beside));
        }
        files->location_.set_directories(std::move(directories));
        HF_TRY_ASSIGN(state,
                      recover(files->storage(), files->paths(), mode, files->readers_.wishes(options.on_replay)));
        sign_locks(*files->location_.directories());
    }
    state.crashed = state.crashed && !files->directories()->was_left_in_order;
    files->superblock_.set_recovered(state.superblock, state.crashed);
    files->location_.set_nodes(state.superblock.nodes);
    files->replayed_ = state.replayed;
    files->warnings_ = std::move(state.warnings);
    files->overlay_ = std::move(state.overlay);
    if (options.verify) {
        std::vector<failure> problems;
        HF_TRY_ASSIGN(files->compared_, files->verify(problems, 1));
        if (!problems.empty()) {
            return problems.front();
        }
    }
    const auto on_media = std::make_unique<superblock_on_media>(state.on_media);
    const log::mark end = state.end;
    files->readers_.begin(state);
    HF_TRY(files->reserve_addresses(options));
    HF_TRY(files->map(options));
    if (mode == access_mode::read_only) {
        files->readers_.begin_reading();
    } else if (files->overlay_) {
        HF_TRY(files->commits_.begin_behind(*on_media, *files->overlay_, end));
        files->overlay_.reset();
    }
    return files;
}

base::result<void> heap_files::reserve_addresses(const mapping_options& options) {
    location_.set_topology(*options.topology);
    HF_TRY(mapping_.reserve(options, superblock_.now()));
    segments_.set_shape(superblock_.shape());
    objects_.set_area(mapping_.objects_area());
    superblock_on_media said = superblock_.now();  // becomes durable with the next write of the superblock
    if (options.capacity != 0 && location_.is_writer()) {
        limit_changed_ = said.capacity != options.capacity;
        said.capacity = options.capacity;
    }
    superblock_.set(said);
    space_.set_limit(std::min(view().reservation(), said.capacity != 0 ? said.capacity : maximum_reservation));
    return {};
}

base::result<void> heap_files::map(const mapping_options& options) {
    HF_TRY(location_.find_domain());
    HF_TRY(location_.choose_sharing(options));
    HF_TRY(location_.check_whether_in_memory());
    HF_TRY(copies_.inspect(cover_));
    if (shared()) {
        HF_TRY(mapping_.split_folios(superblock().frontier));
    }
    const bool keeps_checksums = location_.is_writer() && !options.shared;
    if (keeps_checksums && !has_pending_lanes() && !has_pending_tracing()) {
        HF_TRY(forget_stale_checksums(segments_, objects_, superblock_));
    }
    HF_TRY(mapping_.map_committed(base::pages_for(superblock().frontier)));
    HF_TRY(objects_.map_committed());
    if (overlay_) {
        HF_TRY(mapping_.apply_overlay(*overlay_));
    }
    HF_TRY(bitmaps_.verify_tables((superblock().flags & flag_stale_checksums) == 0));
    if (location_.is_writer()) {
        HF_TRY(segments_.remove_leftovers(frontier(), recovered()));
        if (recovered()) {
            HF_TRY(objects_.remove_leftovers());
            segments_.set_names_changed(true);  // the session that died may not have made them durable
        }
    }
    if (!keeps_checksums) {
        return {};
    }
    // A commit writes the tables, at the end of a segment's file.
    HF_TRY(persist::check_file_length(segments_.file_length(), paths().directory()));
    HF_TRY(commits_.start(options.watch));
    space_.set_bound(bound_.start(options.maximum_uncommitted));
    return {};
}

base::result<file_statistics> heap_files::statistics() const {
    if (location_.is_scratch()) {
        return file_statistics{};
    }
    HF_TRY_ASSIGN(file_statistics sizes, location_.sizes());
    sizes.segments = mapping_.segment_count(frontier());
    return sizes;
}

base::result<page_comparison> heap_files::verify(std::vector<failure>& problems, std::size_t limit) const {
    if (commits_.log().lag().is_on()) {
        HF_TRY(commits_.log().appended(0).wait());
        HF_TRY_ASSIGN(const log_content behind, log_content::read(storage(), paths(), commits_.log().lag().home()));
        return verify_pages(storage(), paths(), superblock(), problems, limit, &behind);
    }
    if (!location_.is_writer() && readers_.table() != nullptr) {
        const reader_table::standstill until_read = readers_.standstill();
        HF_TRY_ASSIGN(const recovered_state now, readers_.state_on_media());
        return verify_pages(storage(), paths(), superblock(), problems, limit, now.overlay ? &*now.overlay : nullptr);
    }
    return verify_pages(storage(), paths(), superblock(), problems, limit, overlay_ ? &*overlay_ : nullptr);
}

base::result<void> heap_files::show_to_child(bool shown) const {
    if (!shared()) {
        return {};
    }
    HF_TRY(mapping_.show_to_child(shown));
    return objects_.show_to_child(shown);
}

base::result<void> heap_files::continue_in_child(const free_runs& used, std::span<const base::granule> slabs) {
    if (shared()) {
        HF_TRY(mapping_.copy_for_child(used, slabs));
        HF_TRY(objects_.copy_for_child());
    }
    location_.continue_in_child();
    return {};
}

}  // namespace holdfast::segment
