#include "segment/heap_files.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/under_qemu.hpp"
#include "segment/node_directories.hpp"
#include "segment/page_sums.hpp"
#include "segment/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;

/// Unmapped addresses between the metadata and the base: a store in front of the first block must meet no metadata.
constexpr std::uint64_t guard_size = region_size;
#if defined(__has_feature)
#define HF_HAS_FEATURE(feature) __has_feature(feature)
#else
#define HF_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HF_HAS_FEATURE(thread_sanitizer)
constexpr std::uint64_t default_reservation = 64 * base::gibibyte;  // ThreadSanitizer's shadow leaves little room
#else
constexpr std::uint64_t default_reservation = base::under_qemu ? base::gibibyte : base::tebibyte;
#endif

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

base::result<void> fill_random(std::span<std::byte> bytes) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return base::os_failure(errno, "getrandom", {});
    }
    return {};
}

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

/// Metadata bytes of a whole reservation, so that the objects area begins at a round address.
std::uint64_t metadata_span(const geometry& shape, std::uint64_t reservation) noexcept {
    return base::align_up(shape.segments_in(reservation) * shape.metadata_size(), region_size);
}

}  // namespace

heap_files::heap_files(persist::storage& storage, std::string directory, access_mode mode)
    : storage_(storage), paths_(std::move(directory)), mode_(mode), owner_(::getpid()) {}

heap_files::~heap_files() {
    if (!born_ && (owns_files_ || made_directory_) && ::getpid() == owner_) {
        abandon();
    }
}

std::uint64_t heap_files::segment_count(pages frontier) const noexcept {
    return base::divide_up(frontier.value, view_.shape().pages());
}

base::result<void> heap_files::check_process() const {
    if (::getpid() == owner_) {
        return {};
    }
    return failure{failure_code::wrong_process,
                   paths_.directory(),
                   "process",
                   fmt::format("{}", ::getpid()),
                   fmt::format("{}, which opened the heap", owner_),
                   "a child of fork must not touch its parent's heap",
                   0};
}

failure heap_files::poisoned() const {
    failure what = poison_;
    what.code = failure_code::poisoned;
    if (what.path.empty()) {
        // An exception set only the code: there was no memory for the text.
        what.path = paths_.directory();
        what.field = "commit";
        what.found = "no memory in the middle of it";
        what.expected = "free memory";
    }
    what.hint =
        "an earlier commit failed at a point after which nothing can be promised; close the heap without commit and "
        "open it again. " +
        poison_.hint;
    return what;
}

base::result<std::unique_ptr<heap_files>> heap_files::create(persist::storage& storage, const std::string& directory,
                                                             const creation_options& options) {
    HF_TRY(check_page_size());
    if (!geometry{options.segment_size}.valid()) {
        return failure{failure_code::invalid_argument,
                       directory,
                       "segment size",
                       fmt::format("{}", options.segment_size),
                       "a power of two from 2 MiB to 64 GiB",
                       {},
                       0};
    }
    std::unique_ptr<heap_files> files(new heap_files(storage, directory, access_mode::read_write));
    HF_TRY(check_node_places(storage, files->paths_, options.node_places));
    HF_TRY(files->prepare_directory());
    HF_TRY(files->initialise_superblock(options));
    HF_TRY(files->create_nodes(options.node_places));
    HF_TRY(files->reserve(options.mapping));
    files->superblock_.base_address = reinterpret_cast<std::uint64_t>(files->view_.base());
    HF_TRY(files->create_files());
    HF_TRY(files->look_whether_in_memory());
    HF_TRY_ASSIGN(dirty_scanner scanner, dirty_scanner::open());
    files->scanner_ = std::make_unique<dirty_scanner>(std::move(scanner));
    return files;
}

base::result<std::unique_ptr<heap_files>> heap_files::create_scratch(persist::storage& storage,
                                                                     const creation_options& options) {
    HF_TRY(check_page_size());
    std::unique_ptr<heap_files> files(new heap_files(storage, "(a heap without files)", access_mode::read_write));
    files->born_ = true;
    files->scratch_ = true;
    HF_TRY(files->initialise_superblock(options));
    HF_TRY(files->reserve(options.mapping));
    files->superblock_.base_address = reinterpret_cast<std::uint64_t>(files->view_.base());
    return files;
}

/// Accepts an empty directory, and the remains of a creation or removal that was cut off. Anything else belongs to
/// somebody else and must stay.
base::result<void> heap_files::check_empty(std::vector<std::string>& remains) const {
    HF_TRY_ASSIGN(remains, storage().list(paths_.directory()));
    for (const std::string& name : remains) {
        if (name == "superblock" || !heap_paths::is_heap_file(name)) {
            return failure{failure_code::already_exists,
                           paths_.directory(),
                           "directory",
                           name == "superblock" ? "a heap" : fmt::format("a file {}", name),
                           "nothing, or an empty directory",
                           {},
                           0};
        }
    }
    return {};
}

/// Makes the directory where there is none, holds and locks it. False where it was removed or moved meanwhile.
base::result<bool> heap_files::take_directory() {
    made_directory_ = false;
    HF_TRY_ASSIGN(const bool there, storage_.exists(paths_.directory()));
    if (!there) {
        auto made = make_heap_directory(storage_, paths_, "create.directory");
        if (!made && made.error().code != failure_code::already_exists) {
            return std::move(made).error();
        }
        made_directory_ = made.ok();  // false where another process made it first
    }
    auto held = hold_new_heap(storage_, paths_);
    if (!held) {
        if (held.error().os_error == ENOENT) {
            return false;
        }
        if (held.error().os_error != ENOTDIR) {
            return std::move(held).error();
        }
        return failure{failure_code::already_exists,
                       paths_.directory(),
                       "path",
                       "a file",
                       "nothing, or an empty directory",
                       {},
                       0};
    }
    hold_ = std::move(held).value();
    auto locked = lock_directory();
    if (!leads_to(storage_, paths_.directory(), storage())) {
        return false;  // whatever failed may have failed because of that
    }
    HF_TRY(std::move(locked));
    return true;
}

base::result<void> heap_files::lock_directory() {
    std::vector<std::string> names;
    if (auto empty = check_empty(names); !empty) {
        // Where another process created the heap first, the lock file is not this process's to remove.
        made_directory_ = made_directory_ && empty.error().code != failure_code::already_exists;
        return empty;
    }
    HF_TRY(storage().check_place(paths_.directory()));
    auto lock = heap_lock::acquire(storage(), paths_.directory(), access_mode::read_write);
    if (!lock) {
        made_directory_ = made_directory_ && lock.error().code != failure_code::locked;
        return std::move(lock).error();
    }
    hold_->locks.push_back(std::move(lock).value());
    return {};
}

base::result<void> heap_files::prepare_directory() {
    constexpr int attempts = 16;
    bool taken = false;
    for (int attempt = 0; attempt < attempts && !taken; ++attempt) {
        HF_TRY_ASSIGN(taken, take_directory());
    }
    if (!taken) {
        return failure{failure_code::locked,
                       paths_.directory(),
                       "directory",
                       "another one each time it is looked for",
                       "one that stays",
                       {},
                       0};
    }
    // Look again under the lock: another process may have finished its creation meanwhile.
    std::vector<std::string> remains;
    if (auto empty = check_empty(remains); !empty) {
        made_directory_ = made_directory_ && empty.error().code != failure_code::already_exists;
        return empty;
    }
    HF_TRY(examine_node_directories(storage(), paths_, nullptr));
    owns_files_ = true;
    HF_TRY(remove_node_directories(storage(), paths_, nullptr));
    for (const std::string& name : remains) {
        if (name != "lock" && !heap_paths::node_index(name)) {
            HF_TRY(storage().remove(paths_.directory() + "/" + name, "create.remove_remains"));
        }
    }
    sign_locks(*hold_);
    return {};
}

base::result<void> heap_files::initialise_superblock(const creation_options& options) {
    superblock_ = blank_superblock();
    HF_TRY(fill_random(std::as_writable_bytes(std::span{superblock_.uuid})));
    superblock_.uuid[6] = static_cast<std::uint8_t>((superblock_.uuid[6] & 0x0fU) | 0x40U);  // RFC 4122, random
    superblock_.uuid[8] = static_cast<std::uint8_t>((superblock_.uuid[8] & 0x3fU) | 0x80U);
    while (superblock_.heap_key == 0) {
        HF_TRY(fill_random(std::as_writable_bytes(std::span{&superblock_.heap_key, 1})));
    }
    superblock_.segment_size = options.segment_size;
    superblock_.reservation = options.mapping.reservation;
    superblock_.capacity = options.mapping.capacity;
    superblock_.state = heap_state::running;
    superblock_.flags =
        (options.same_address ? flag_same_address : 0) | (options.separate_cache_lines ? flag_separate_lines : 0);
    superblock_.created_ns = now_ns();
    superblock_.nodes = static_cast<std::uint32_t>(options.node_places.size());
    return {};
}

base::result<void> heap_files::create_files() {
    HF_TRY_ASSIGN(auto journal, storage().create(paths_.journal(), "create.journal"));
    superblock_on_media first = superblock_;
    first.sequence = 1;
    HF_TRY(write_void_journal(*journal, first));
    HF_TRY_ASSIGN(auto objects, storage().create(paths_.objects(), "create.objects"));
    HF_TRY_ASSIGN(domain_, domain_of_files());
    names_changed_ = true;
    return {};
}

base::result<void> heap_files::reserve(const mapping_options& options) {
    topology_ = options.topology;
    user_pages_ = options.user_pages;
    const geometry shape = geometry_of(superblock_);
    const std::uint64_t asked = options.reservation != 0 ? options.reservation : superblock_.reservation;
    const std::uint64_t needed = std::max(std::bit_ceil(superblock_.frontier), shape.segment_size);
    if (asked != 0 && (!base::is_power_of_two(asked) || asked > maximum_reservation || asked < needed)) {
        return failure{failure_code::invalid_argument,
                       paths_.directory(),
                       "reservation",
                       fmt::format("{}", asked),
                       fmt::format("a power of two from {} to {}", needed, maximum_reservation),
                       {},
                       0};
    }
    std::uint64_t user = asked != 0 ? asked : std::max(default_reservation, std::min(maximum_reservation, 4 * needed));
    const bool fixed = options.base_address != nullptr || (superblock_.flags & flag_same_address) != 0;
    std::byte* wanted = options.base_address;
    if ((superblock_.flags & flag_same_address) != 0 && superblock_.base_address != 0) {
        wanted = reinterpret_cast<std::byte*>(superblock_.base_address);
    }
    if (reinterpret_cast<std::uintptr_t>(wanted) % region_size != 0) {
        return failure{failure_code::invalid_argument,
                       paths_.directory(),
                       "base address",
                       fmt::format("{}", static_cast<void*>(wanted)),
                       "a multiple of 2 MiB",
                       {},
                       0};
    }
    for (;; user /= 2) {
        const std::uint64_t before = metadata_span(shape, user) + objects_area_size + guard_size;
        // Computed with integers: below a low address the sum wraps around, and the range is then refused as taken.
        auto* const begin = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(wanted) - before);
        auto range = fixed && wanted != nullptr ? address_range::exactly(begin, before + user)
                                                : address_range::anywhere(before + user, before, region_size);
        if (range) {
            range_ = std::move(range).value();
            view_ = space_view(range_.begin() + before, range_.begin(), shape, user);
            objects_ = range_.begin() + metadata_span(shape, user);
            break;
        }
        if (asked != 0 || range.error().code != failure_code::limit || user / 2 < 2 * needed) {
            failure what = std::move(range).error();
            what.path = paths_.directory();
            return what;
        }
    }
    if (options.capacity != 0 && mode_ == access_mode::read_write) {
        superblock_.capacity = options.capacity;  // becomes durable with the next write of the superblock
    }
    capacity_ = std::min(view_.reservation(), superblock_.capacity != 0 ? superblock_.capacity : maximum_reservation);
    return {};
}

base::result<std::unique_ptr<heap_files>> heap_files::open(persist::storage& outer, const std::string& directory,
                                                           access_mode mode, const mapping_options& options,
                                                           std::shared_ptr<heap_hold> hold) {
    HF_TRY(check_page_size());
    std::unique_ptr<heap_files> files(new heap_files(outer, directory, mode));
    files->born_ = true;
    files->hold_ = std::move(hold);
    if (files->hold_ == nullptr) {
        HF_TRY_ASSIGN(files->hold_, hold_heap(outer, files->paths_, mode));
    }
    persist::storage& storage = files->storage();
    HF_TRY_ASSIGN(recovered_state state, recover(storage, files->paths_, mode));
    sign_locks(*files->hold_);
    files->superblock_ = state.superblock;
    files->paths_ = files->paths_.with_nodes(state.superblock.nodes);
    files->recovered_ = state.crashed;
    files->rolled_forward_ = state.rolled_forward;
    files->warnings_ = std::move(state.warnings);
    if (options.verify) {
        std::vector<failure> problems;
        HF_TRY_ASSIGN(files->compared_, verify_pages(storage, files->paths_, state.superblock, problems, 1,
                                                     state.overlay ? &*state.overlay : nullptr));
        if (!problems.empty()) {
            return problems.front();
        }
    }
    HF_TRY(files->reserve(options));
    HF_TRY(files->choose_sharing(options));
    HF_TRY(files->look_whether_in_memory());
    HF_TRY(files->look_whether_copied());
    if (files->shared()) {
        HF_TRY(files->folios_.split(storage, files->paths_, files->superblock_.frontier));
    }
    if (mode == access_mode::read_write && !options.shared && !files->has_pending_lanes() &&
        !files->has_pending_tracing()) {
        HF_TRY(files->forget_stale_sums());
    }
    HF_TRY(files->map_committed());
    if (state.overlay) {
        files->overlay_ = std::move(state.overlay);
        HF_TRY(files->apply_overlay(*files->overlay_));
    }
    HF_TRY(files->verify_tables());
    if (mode == access_mode::read_write) {
        HF_TRY(files->remove_leftovers());
    }
    if (mode == access_mode::read_write && !options.shared) {
        HF_TRY_ASSIGN(dirty_scanner scanner, dirty_scanner::open());
        files->scanner_ = std::make_unique<dirty_scanner>(std::move(scanner));
    }
    return files;
}

base::result<void> heap_files::map_committed() {
    frontier_ = committed_frontier_ = adopted_frontier_ = base::pages_for(superblock_.frontier);
    objects_size_ = committed_objects_size_ = adopted_objects_size_ = superblock_.objects_size;
    const std::uint64_t segments = segment_count(frontier_);
    for (std::uint64_t i = 0; i < segments; ++i) {
        HF_TRY(map_committed_segment(i, 0));
    }
    return map_committed_objects(0);
}

/// Maps the user pages [from_page, committed frontier) of one segment, and its metadata where from_page is 0. `fresh`:
/// their space was just reserved on disk.
base::result<void> heap_files::map_committed_segment(std::uint64_t index, std::uint64_t from_page, bool fresh) {
    const geometry& shape = view_.shape();
    const std::string path = paths_.segment(index);
    HF_TRY_ASSIGN(auto file, storage().open(path, shared() ? access_mode::read_write : access_mode::read_only));
    const std::uint64_t end_page = std::min(shape.pages(), committed_frontier_.value - index * shape.pages());
    if (from_page < end_page) {
        std::byte* const address = view_.base() + index * shape.segment_size + from_page * page_size;
        const std::uint64_t bytes = (end_page - from_page) * page_size;
        HF_TRY(map_file(address, bytes, file->native_handle(), from_page * page_size, path, sharing_));
        place(index, address, bytes, fresh);
    }
    if (from_page == 0) {
        HF_TRY(map_file(view_.metadata_of(index), shape.metadata_size(), file->native_handle(), shape.segment_size,
                        path, sharing_));
    }
    if (copied_ && mode_ == access_mode::read_only) {
        const std::array<mapped_window, 2> windows{
            {{view_.base() + index * shape.segment_size, 0, end_page * page_size},
             {view_.metadata_of(index), shape.segment_size, shape.metadata_size()}}};
        return cover_holes(*file, windows);
    }
    return folios_.choose(*file, index, from_page, end_page, fresh);
}

base::result<void> heap_files::map_committed_objects(std::uint64_t from) {
    if (committed_objects_size_ == from) {
        return {};
    }
    HF_TRY_ASSIGN(auto file,
                  storage().open(paths_.objects(), shared() ? access_mode::read_write : access_mode::read_only));
    HF_TRY(map_file(objects_ + from, committed_objects_size_ - from, file->native_handle(), from, paths_.objects(),
                    sharing_));
    if (copied_ && mode_ == access_mode::read_only) {
        const mapped_window whole{objects_, 0, committed_objects_size_};
        return cover_holes(*file, {&whole, 1});
    }
    return {};
}

base::result<void> heap_files::apply_overlay(const journal_content& journal) {
    HF_TRY_ASSIGN(auto file, storage().open(paths_.journal(), access_mode::read_only));
    const geometry& shape = view_.shape();
    for (std::size_t i = 0; i < journal.entries.size(); ++i) {
        const std::uint64_t id = entry_file(journal.entries[i]);
        const std::uint64_t page = entry_page(journal.entries[i]);
        std::byte* target = objects_ + page * page_size;
        if (id != objects_file_id) {
            const bool user = page < shape.pages();
            if (user && id * shape.pages() + page >= frontier_.value) {
                continue;  // beyond the frontier: not mapped, not in use
            }
            target = user ? view_.base() + id * shape.segment_size + page * page_size
                          : view_.metadata_of(id) + (page - shape.pages()) * page_size;
        }
        HF_TRY(read_journal_page(*file, journal, i, {target, page_size}));
    }
    return {};
}

base::result<page_comparison> heap_files::verify(std::vector<failure>& problems, std::size_t limit) const {
    return verify_pages(storage(), paths_, superblock_, problems, limit, overlay_ ? &*overlay_ : nullptr);
}

void heap_files::abandon() noexcept {
    born_ = true;
    // Best effort: what is left has no superblock, so it is no heap, and the next create removes it.
    try {
        if (owns_files_) {
            static_cast<void>(remove_node_directories(storage(), paths_, nullptr).ok());
        }
        if (auto listed = storage().list(paths_.directory()); listed && owns_files_) {
            for (const std::string& name : listed.value()) {
                if (heap_paths::is_heap_file(name) && !heap_paths::node_index(name)) {
                    static_cast<void>(storage().remove(paths_.directory() + "/" + name, "create.abandon").ok());
                }
            }
        }
        if (!owns_files_ && made_directory_) {
            static_cast<void>(storage().remove(paths_.lock(), "create.abandon_lock").ok());
        }
        static_cast<void>(
            remove_held_directory(storage_, paths_.directory(), storage(), "create.abandon_directory").ok());
    } catch (const std::bad_alloc&) {
        return;  // no memory for the names
    }
}

}  // namespace holdfast::segment
