#include <cstring>
#include <filesystem>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "base/checked.hpp"
#include "segment/superblock.hpp"

namespace holdfast {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

heap::engine_options engine_options_of(const open_options& options, std::uint64_t initial_bytes = 0) {
    heap::engine_options wanted;
    wanted.initial_bytes = initial_bytes;
    wanted.durability = static_cast<heap::durability_kind>(options.durability);
    wanted.files.mapping.reservation = options.reservation;
    wanted.files.mapping.base_address = static_cast<std::byte*>(options.base_address);
    wanted.files.mapping.capacity = options.maximum_size;
    wanted.files.mapping.verify = options.verify;
    wanted.files.same_address = options.same_address;
    wanted.files.separate_cache_lines = options.separate_cache_lines;
    wanted.hardened = options.hardened;
    wanted.accept_process_crash_only = options.accept_process_crash_only;
    wanted.recovery = options.precise_recovery ? heap::trace_mode::precise : heap::trace_mode::conservative;
    wanted.before_trace = detail::calls_before_trace(options);
    wanted.decay_ns = options.decay.count() < 0
                          ? extent::decay_curve::never
                          : base::checked_multiply(static_cast<std::uint64_t>(options.decay.count()), 1'000'000)
                                .value_or(extent::decay_curve::never);
    switch (options.domain) {
        case open_options::domain_choice::detect: break;
        case open_options::domain_choice::emulated: wanted.domain = persist::domain_kind::emulated; break;
        case open_options::domain_choice::page_cache: wanted.domain = persist::domain_kind::page_cache; break;
    }
    if (options.segment_size != 0) {
        wanted.files.segment_size = options.segment_size;
    }
    wanted.files.node_places = options.node_directories;
    switch (options.huge_pages) {
        case open_options::page_choice::advise: break;
        case open_options::page_choice::none: wanted.files.mapping.user_pages = segment::huge_pages::none; break;
        case open_options::page_choice::at_once: wanted.files.mapping.user_pages = segment::huge_pages::at_once; break;
    }
    return wanted;
}

std::unique_ptr<detail::manager_core> wrap(base::result<std::unique_ptr<heap::engine>> opened,
                                           const open_options& options) {
    return std::make_unique<detail::manager_core>(value_or_throw(std::move(opened)), options.commit_on_close);
}

std::unique_ptr<detail::manager_core> create_heap(const std::string& path, const open_options& options,
                                                  std::uint64_t size = 0) {
    return wrap(heap::engine::create(path, engine_options_of(options, size)), options);
}

std::unique_ptr<detail::manager_core> open_heap(const std::string& path, access_mode mode,
                                                const open_options& options) {
    return wrap(heap::engine::open(path, mode, engine_options_of(options)), options);
}

std::unique_ptr<detail::manager_core> open_or_create_heap(const std::string& path, const open_options& opened,
                                                          const open_options& created, std::uint64_t size = 0) {
    return wrap(heap::engine::open_or_create(path, engine_options_of(opened), engine_options_of(created, size)),
                opened);
}

open_options with_address(void* base_address) {
    open_options options;
    options.base_address = base_address;
    return options;
}

/// Options of a heap that must be able to allocate `size` bytes: slabs and runs of pages take more than their blocks.
open_options with_size(std::uint64_t size, void* base_address) {
    open_options options = with_address(base_address);
    options.maximum_size = base::align_up(size + size / 8 + 4 * base::mebibyte, base::page_size);
    return options;
}

/// The absolute path: a thread that uses it later must not depend on the working directory of that time.
std::string full_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::path full = std::filesystem::absolute(path, error);
    return error || path.empty() ? path : full.string();
}

failure outside(const std::string& path, const void* address) {
    return failure{failure_code::bad_address,
                   path,
                   "address",
                   fmt::format("{}", address),
                   "an address of the heap's user space",
                   {},
                   0};
}

}  // namespace

namespace detail {

manager_core::~manager_core() {
    if (engine_ == nullptr) {
        return;
    }
    // A commit needs memory, and so does the message of a failure.
    try {
        auto closed = engine_->close(commit_on_close_);
        // No report in a child of fork: the heap is its parent's.
        if (!closed && closed.error().code != failure_code::wrong_process) {
            report_failure(closed.error());
        }
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        report_failure(what);
    }
}

plain_path::plain_path() noexcept : plain_path(slab::plain_blocks::of_no_heap()) {}

plain_path::plain_path(const slab::plain_blocks& of) noexcept {
    static_assert(sizeof blocks_ == sizeof of && std::is_trivially_copyable_v<slab::plain_blocks>);
    std::memcpy(blocks_, &of, sizeof blocks_);
}

plain_path& plain_path::operator=(plain_path&& other) noexcept {
    if (this != &other) {
        std::memcpy(blocks_, other.blocks_, sizeof blocks_);
        std::memcpy(other.blocks_, &slab::plain_blocks::of_no_heap(), sizeof blocks_);
    }
    return *this;
}

void throw_moved_from() {
    throw_failure(
        failure{failure_code::invalid_argument, {}, "manager", "one that was moved from", "an open one", {}, 0});
}

void throw_closed() {
    throw_failure(failure{failure_code::invalid_argument, {}, "manager", "a closed heap", "an open one", {}, 0});
}

void* allocate_rarely(manager& heap, std::size_t bytes) { return heap.allocate_aligned(bytes, bytes >= 16 ? 16 : 8); }

const std::string& manager_core::path() const noexcept {
    static const std::string closed;
    return engine_ == nullptr ? closed : engine_->files().paths().directory();
}

void manager_core::close(bool commit_changes) {
    if (engine_ != nullptr) {
        value_or_throw(engine_->close(commit_changes));
        engine_.reset();
    }
}

void manager_core::commit() {
    const auto done = value_or_throw(engine().commit());
    report_ = commit_report{done.dirty_pages, done.fresh_pages, done.journaled_pages, done.written_bytes,
                            done.scan_ns,     done.write_ns,    done.sync_ns,         done.total_ns};
}

std::uint64_t manager_core::offset_of(const void* address) const {
    const segment::heap_files& files = engine().files();
    const std::uint64_t offset = files.view().offset(address).value;
    if (offset >= base::to_bytes(files.frontier())) {
        throw_failure(outside(path(), address));
    }
    return offset;
}

object_info manager_core::describe(const heap::object_entry& entry) const {
    object_info info;
    info.name_ = entry.kind == heap::object_kind::unique ? entry.type : entry.name;
    info.kind_ = static_cast<instance_kind>(entry.kind);
    info.address_ = engine().files().view().address({entry.offset});
    info.offset_ = entry.offset;
    info.length_ = entry.count;
    info.type_name_ = entry.type;
    info.type_size_ = entry.type_size;
    info.description_ = entry.description;
    return info;
}

std::vector<object_info> manager_core::list(instance_kind kind) const {
    const std::lock_guard guard(engine().object_mutex());
    std::vector<object_info> objects;
    for (const heap::object_entry& entry :
         value_or_throw(engine().objects().list(static_cast<heap::object_kind>(kind)))) {
        objects.push_back(describe(entry));
    }
    return objects;
}

}  // namespace detail

std::string object_info::readable_type_name() const { return detail::readable_type(type_name_).value_or(type_name_); }

manager::manager(create_only_t, const std::string& path, const open_options& options)
    : core_(create_heap(path, options)), plain_(core_->plain()) {}
manager::manager(open_only_t, const std::string& path, const open_options& options)
    : core_(open_heap(path, access_mode::read_write, options)), plain_(core_->plain()) {}
manager::manager(open_or_create_t, const std::string& path, const open_options& options)
    : core_(open_or_create_heap(path, options, options)), plain_(core_->plain()) {}
manager::manager(open_read_only_t, const std::string& path, const open_options& options)
    : core_(open_heap(path, access_mode::read_only, options)), plain_(core_->plain()) {}
manager::manager(create_only_t, const std::string& path, size_type size, void* base_address)
    : core_(create_heap(path, with_size(size, base_address), size)), plain_(core_->plain()) {}
manager::manager(open_or_create_t, const std::string& path, size_type size, void* base_address)
    : core_(open_or_create_heap(path, with_address(base_address), with_size(size, base_address), size)),
      plain_(core_->plain()) {}
manager::manager(open_only_t, const std::string& path, void* base_address)
    : core_(open_heap(path, access_mode::read_write, with_address(base_address))), plain_(core_->plain()) {}
manager::manager(manager&& other) noexcept = default;
manager& manager::operator=(manager&& other) noexcept = default;
manager::~manager() = default;

detail::manager_core& manager::core() const {
    if (core_ == nullptr) [[unlikely]] {
        detail::throw_moved_from();
    }
    return *core_;
}

std::uint64_t manager::key() const noexcept { return core_ != nullptr ? core_->handle()->key() : 0; }
bool manager::is_open() const noexcept { return core_ != nullptr && core_->is_open(); }
void manager::commit() { core().commit(); }
void manager::close() {
    if (core_ != nullptr) {
        close(core_->commit_on_close());
    }
}
void manager::close(bool commit_changes) {
    if (core_ != nullptr) {
        plain_ = {};
        try {
            core_->close(commit_changes);
        } catch (...) {
            plain_ = core_->plain();  // the heap is still open
            throw;
        }
    }
}
commit_report manager::last_commit() const { return core().last_report(); }

object_info manager::object_at(const void* object) const {
    const std::lock_guard guard(core().engine().object_mutex());
    const auto entry = value_or_throw(core().engine().objects().find_at(core().offset_of(object)));
    if (!entry) {
        throw_failure(failure{failure_code::bad_address,
                              path(),
                              "address",
                              fmt::format("{}", object),
                              "an object of the directory",
                              {},
                              0});
    }
    return core().describe(*entry);
}

object_iterator manager::objects(instance_kind kind) const {
    return object_iterator(std::make_shared<const std::vector<object_info>>(core().list(kind)));
}

void manager::describe(const void* object, std::string_view description) {
    detail::refuse_read_only(core().engine(), "set_instance_description");
    const std::lock_guard guard(core().engine().object_mutex());
    const std::uint64_t offset = core().offset_of(object);
    value_or_throw(core().engine().objects().describe_at(offset, description));
}

namespace {

std::uint64_t count_objects(heap::engine& engine, heap::object_kind kind) {
    const std::lock_guard guard(engine.object_mutex());
    return value_or_throw(engine.objects().count(kind));
}

}  // namespace

manager::size_type manager::get_num_named_objects() const {
    return count_objects(core().engine(), heap::object_kind::named);
}
manager::size_type manager::get_num_unique_objects() const {
    return count_objects(core().engine(), heap::object_kind::unique);
}
manager::size_type manager::get_num_anonymous_objects() const {
    return count_objects(core().engine(), heap::object_kind::anonymous);
}

ptr<void>& manager::root(size_type index) {
    detail::refuse_read_only(core().engine(), "root, to be written");
    return const_cast<ptr<void>&>(std::as_const(*this).root(index));
}

const ptr<void>& manager::root(size_type index) const {
    if (index >= root_count) {
        throw_failure(
            failure{failure_code::invalid_argument, path(), "root", fmt::format("{}", index), "less than 512", {}, 0});
    }
    return reinterpret_cast<ptr<void>*>(core().engine().roots())[index];
}

void* manager::allocate(size_type bytes) {
    if (void* const block = plain_->allocate(bytes)) [[likely]] {
        return block;
    }
    return detail::allocate_rarely(*this, bytes);
}

void* manager::allocate(size_type bytes, const std::nothrow_t&) noexcept {
    return is_open() && !read_only() && bytes != 0 ? core_->engine().allocate(bytes, bytes >= 16 ? 16 : 8) : nullptr;
}

void* manager::allocate_aligned(size_type bytes, size_type alignment) { return core().allocate(bytes, alignment, 0); }

void* manager::allocate(size_type bytes, const allocation_traits& traits) {
    const std::size_t least = bytes >= 16 ? 16 : 8;
    void* const block = core().allocate(bytes, traits.alignment == 0 ? least : traits.alignment, traits.type);
    if (traits.zeroed) {
        std::memset(block, 0, bytes);
    }
    return block;
}

void manager::deallocate(void* address) {
    if (!plain_->free(address)) [[unlikely]] {
        deallocate_rarely(address);
    }
}

void manager::deallocate_rarely(void* address) {
    if (address == nullptr) {
        return;
    }
    core().deallocate(address);
}

manager::size_type manager::usable_size(const void* address) const {
    return value_or_throw(core().engine().usable_size(address));
}

std::uint32_t manager::type_of(const void* address) const { return value_or_throw(core().engine().type_of(address)); }

bool manager::separates_cache_lines() const { return core().engine().separates_cache_lines(); }

bool manager::all_memory_deallocated() const { return core().engine().all_free(); }
const manager::segment_manager* manager::get_segment_manager() const noexcept {
    return core_ != nullptr ? core_->handle() : nullptr;
}

bool manager::belongs_to_segment(const void* address) const noexcept {
    if (!is_open()) {
        return false;
    }
    const segment::heap_files& files = core_->engine().files();
    return files.view().offset(address).value < base::to_bytes(files.frontier());
}

manager::handle_t manager::get_handle_from_address(const void* address) const { return core().offset_of(address); }

void* manager::get_address_from_handle(handle_t handle) const {
    const segment::heap_files& files = core().engine().files();
    if (handle >= base::to_bytes(files.frontier())) {
        throw_failure(failure{failure_code::bad_address,
                              path(),
                              "handle",
                              fmt::format("{:#x}", handle),
                              fmt::format("less than {:#x}", base::to_bytes(files.frontier())),
                              {},
                              0});
    }
    return files.view().address({handle});
}

void* manager::get_address() const noexcept { return is_open() ? core_->engine().files().view().base() : nullptr; }
manager::size_type manager::get_size() const { return core().handle()->get_size(); }
manager::size_type manager::get_free_memory() const { return core().handle()->get_free_memory(); }
bool manager::read_only() const noexcept { return is_open() && core_->engine().read_only(); }
bool manager::check_sanity() const { return check(false).empty(); }

std::vector<std::string> manager::check(bool pages) const {
    const std::lock_guard guard(core().engine().object_mutex());
    return core().engine().check(pages);
}

manager::page_comparison manager::last_comparison() const {
    const std::lock_guard guard(core().engine().object_mutex());
    const segment::page_comparison last = core().engine().last_comparison();
    return {last.compared, last.without_sum};
}

heap_statistics manager::statistics() const {
    heap::engine& engine = core().engine();
    const heap::engine_statistics inner = value_or_throw(engine.statistics());
    const segment::superblock_on_media& superblock = engine.files().superblock();
    heap_statistics numbers;
    numbers.reserved_address_space = inner.reservation;
    numbers.user_bytes = inner.user_bytes;
    numbers.allocated_bytes = inner.allocated_bytes;
    numbers.allocated_blocks = inner.allocated_blocks;
    numbers.free_bytes = inner.user_bytes - inner.allocated_bytes;
    numbers.largest_free_block = inner.largest_free_block;
    numbers.apparent_bytes = inner.files.apparent_bytes;
    numbers.charged_bytes = inner.files.charged_bytes;
    numbers.segments = inner.files.segments;
    numbers.segment_size = engine.files().view().shape().segment_size;
    numbers.slabs = inner.slabs;
    numbers.extents = inner.extents;
    numbers.guard_ranges = inner.guard_ranges;
    numbers.named_objects = get_num_named_objects();
    numbers.unique_objects = get_num_unique_objects();
    numbers.anonymous_objects = get_num_anonymous_objects();
    numbers.commit_sequence = superblock.sequence;
    numbers.last_commit_ns = superblock.committed_ns;
    numbers.created_ns = superblock.created_ns;
    numbers.recoveries = superblock.recoveries;
    numbers.recovered = engine.files().recovered();
    numbers.rolled_forward = engine.files().rolled_forward();
    return numbers;
}

const std::string& manager::path() const noexcept {
    static const std::string none;
    return core_ != nullptr ? core_->path() : none;
}

std::string manager::get_uuid() const { return segment::uuid_text(core().engine().files().superblock().uuid); }
std::string manager::get_version() const { return fmt::format("{}", core().engine().files().superblock().version); }
std::string manager::get_description() const {
    const std::lock_guard guard(core().engine().object_mutex());
    return value_or_throw(core().engine().objects().heap_description());
}
void manager::set_description(std::string_view description) {
    detail::refuse_read_only(core().engine(), "set_description");
    const std::lock_guard guard(core().engine().object_mutex());
    value_or_throw(core().engine().objects().describe_heap(description));
}
std::vector<std::string> manager::node_directories() const {
    const segment::heap_paths& paths = core().engine().files().paths();
    std::vector<std::string> directories;
    for (std::uint32_t node = 0; node < paths.nodes(); ++node) {
        directories.push_back(value_or_throw(core().engine().files().storage().location(paths.node(node))));
    }
    return directories;
}
std::string manager::domain() const { return std::string(persist::to_string(core().engine().files().domain())); }
durability manager::durability() const noexcept {
    return is_open() ? static_cast<holdfast::durability>(core_->engine().durability()) : holdfast::durability::commit;
}

void manager::snapshot(const std::string& destination) { value_or_throw(core().engine().snapshot(destination)); }

void manager::copy(const std::string& source, const std::string& destination,
                   const std::vector<std::string>& node_directories) {
    value_or_throw(heap::copy(source, destination, node_directories));
}
std::future<void> manager::copy_async(const std::string& source, const std::string& destination) {
    return std::async(std::launch::async, [from = full_path(source), to = full_path(destination)] { copy(from, to); });
}
bool manager::remove(const std::string& path) { return value_or_throw(heap::remove(path)); }
std::future<bool> manager::remove_async(const std::string& path) {
    return std::async(std::launch::async, [full = full_path(path)] { return remove(full); });
}
bool manager::consistent(const std::string& path) { return heap::engine::open(path, access_mode::read_only, {}).ok(); }
std::string manager::get_uuid(const std::string& path) {
    return segment::uuid_text(value_or_throw(heap::read_superblock(path)).uuid);
}
std::string manager::get_version(const std::string& path) {
    return fmt::format("{}", value_or_throw(heap::read_superblock(path)).version);
}
std::string manager::get_description(const std::string& path) {
    return manager(open_read_only, path).get_description();
}

}  // namespace holdfast
