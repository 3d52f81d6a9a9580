#include <algorithm>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "base/units.hpp"
#include "segment/files/heap_directories.hpp"

namespace holdfast {

namespace {

using persist::access_mode;

/// In nanoseconds.
std::uint64_t decay_of(const open_options& options) {
    return options.decay.count() < 0
               ? extent::decay_curve::never
               : base::checked_multiply(static_cast<std::uint64_t>(options.decay.count()), 1'000'000)
                     .value_or(extent::decay_curve::never);
}

heap::engine_options engine_options_of(const open_options& options, std::uint64_t initial_bytes = 0) {
    heap::engine_options wanted;
    wanted.initial_bytes = initial_bytes;
    wanted.durability = static_cast<heap::durability_kind>(options.durability);
    wanted.files.mapping.reservation = options.reservation;
    wanted.files.mapping.base_address = static_cast<std::byte*>(options.base_address);
    wanted.files.mapping.capacity = options.maximum_size;
    wanted.files.mapping.maximum_uncommitted = options.maximum_uncommitted;
    wanted.files.mapping.verify = options.verify;
    wanted.files.mapping.on_replay.tell = options.on_replay;
    wanted.files.same_address = options.same_address;
    wanted.files.separate_cache_lines = options.separate_cache_lines;
    wanted.hardened = options.hardened;
    wanted.by_turns = options.shared;
    wanted.accept_process_crash_only = options.accept_process_crash_only;
    wanted.accept_machine_restart = options.accept_machine_restart;
    wanted.recovery = options.precise_recovery ? heap::trace_mode::precise : heap::trace_mode::conservative;
    wanted.before_trace = detail::calls_before_trace(options);
    wanted.decay_ns = decay_of(options);
    switch (options.domain) {
        case open_options::domain_choice::detect: break;
        case open_options::domain_choice::emulated: wanted.domain = persist::domain_kind::emulated; break;
        case open_options::domain_choice::page_cache: wanted.domain = persist::domain_kind::page_cache; break;
        case open_options::domain_choice::disk: wanted.domain = persist::domain_kind::disk; break;
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

/// Null where there is none.
std::unique_ptr<heap::upkeep_thread> upkeep_for(heap::engine& engine, const open_options& options) {
    if (!options.upkeep_thread || options.durability == durability::commit || options.decay.count() < 0 ||
        engine.read_only()) {
        return nullptr;
    }
    try {
        return std::make_unique<heap::upkeep_thread>(engine.blocks().slabs().upkeep(), decay_of(options));
    } catch (const std::system_error&) {  // the program's calls give memory back
        return nullptr;
    }
}

detail::core_owner wrap(base::result<std::unique_ptr<heap::engine>> opened, const open_options& options) {
    auto engine = value_or_throw(std::move(opened));
    auto upkeep = upkeep_for(*engine, options);
    auto core = std::make_unique<detail::manager_core>(std::move(engine), options.commit_on_close,
                                                       options.check_transactions, nullptr, std::move(upkeep));
    return detail::core_owner(core.release());
}

void refuse_to_share(const std::string& path, access_mode mode, const open_options& options) {
    const auto refuse = [&](const char* found, const char* expected) {
        throw_failure({base::failure_code::invalid_argument, path, "shared", found, expected, {}, 0});
    };
    if (mode == access_mode::read_only) {
        refuse("an open for reading", "an open for writing: any number of readers may be beside it anyway");
    } else if (options.durability != durability::commit) {
        refuse("durability atomic or collect", "durability commit");
    } else if (options.hardened) {
        refuse("a hardened heap", "one that is not");
    }
}

/// It has the turn, until the core gives it away.
detail::core_owner wrap_shared(std::unique_ptr<heap::engine> opened, const open_options& options) {
    auto turns = value_or_throw(detail::process_turns::begin(*opened, engine_options_of(options)));
    return detail::core_owner(std::make_unique<detail::manager_core>(std::move(opened), options.commit_on_close,
                                                                     options.check_transactions, std::move(turns))
                                  .release());
}

detail::core_owner create_heap(const std::string& path, const open_options& options, std::uint64_t size = 0) {
    if (options.shared) {
        refuse_to_share(path, access_mode::read_write, options);
        return wrap_shared(value_or_throw(heap::engine::create(path, engine_options_of(options, size))), options);
    }
    return wrap(heap::engine::create(path, engine_options_of(options, size)), options);
}

detail::core_owner open_heap(const std::string& path, access_mode mode, const open_options& options) {
    if (options.shared) {
        refuse_to_share(path, mode, options);
        return wrap_shared(value_or_throw(heap::engine::open(path, mode, engine_options_of(options))), options);
    }
    return wrap(heap::engine::open(path, mode, engine_options_of(options)), options);
}

/// While another process creates the heap, it is locked, and before that nothing or no heap.
std::unique_ptr<heap::engine> open_or_create_shared(const std::string& path, const heap::engine_options& opened,
                                                    const heap::engine_options& created) {
    constexpr std::chrono::seconds longest{5};
    const auto end = std::chrono::steady_clock::now() + longest;
    for (;;) {
        auto found = heap::engine::open_or_create(path, opened, created);
        const base::failure_code why = found ? base::failure_code::none : found.error().code;
        const bool may_come = why == base::failure_code::locked || why == base::failure_code::not_found ||
                              why == base::failure_code::not_a_heap || why == base::failure_code::missing ||
                              why == base::failure_code::already_exists;
        const bool is_refused =
            why == base::failure_code::locked && segment::is_had_alone(*created.storage, segment::heap_paths(path));
        if (!may_come || is_refused || std::chrono::steady_clock::now() >= end) {
            return value_or_throw(std::move(found));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

detail::core_owner open_or_create_heap(const std::string& path, const open_options& opened, const open_options& created,
                                       std::uint64_t size = 0) {
    if (opened.shared) {
        refuse_to_share(path, access_mode::read_write, opened);
        return wrap_shared(open_or_create_shared(path, engine_options_of(opened), engine_options_of(created, size)),
                           opened);
    }
    return wrap(heap::engine::open_or_create(path, engine_options_of(opened), engine_options_of(created, size)),
                opened);
}

open_options with_address(void* base_address) {
    open_options options;
    options.base_address = base_address;
    return options;
}

/// Slabs and runs of pages take more than their blocks.
open_options with_size(std::uint64_t size, void* base_address) {
    open_options options = with_address(base_address);
    options.maximum_size = base::align_up(size + size / 8 + 4 * base::mebibyte, base::page_size);
    return options;
}

shrink_report public_report(const heap::shrink_report& report) {
    return {report.charged_before, report.charged_after, report.apparent_before,
            report.apparent_after, report.given_back,    report.shortened};
}

}  // namespace

manager::manager(create_only_t, const std::string& path, const open_options& options)
    : manager(create_heap(path, options)) {}
manager::manager(open_only_t, const std::string& path, const open_options& options)
    : manager(open_heap(path, access_mode::read_write, options)) {}
manager::manager(open_or_create_t, const std::string& path, const open_options& options)
    : manager(open_or_create_heap(path, options, options)) {}
manager::manager(open_read_only_t, const std::string& path, const open_options& options)
    : manager(open_heap(path, access_mode::read_only, options)) {}
manager::manager(create_only_t, const std::string& path, size_type size, void* base_address)
    : manager(create_heap(path, with_size(size, base_address), size)) {}
manager::manager(open_or_create_t, const std::string& path, size_type size, void* base_address)
    : manager(open_or_create_heap(path, with_address(base_address), with_size(size, base_address), size)) {}
manager::manager(open_only_t, const std::string& path, void* base_address)
    : manager(open_heap(path, access_mode::read_write, with_address(base_address))) {}
static_assert(sizeof(manager) == sizeof(detail::heap_handle), "the parts of a manager have no data");

manager::manager(detail::core_owner core) : handle_(std::move(core)) {}
manager::manager(manager&& other) noexcept : handle_(std::move(other.handle_)) {}
manager& manager::operator=(manager&& other) noexcept {
    handle_ = std::move(other.handle_);
    return *this;
}
manager::~manager() = default;

void manager::commit() { core().commit(); }
ticket manager::commit_later() { return core().commit_later(); }
void manager::close() {
    if (const detail::manager_core* const heap = handle_.core_or_null()) {
        close(heap->commit_on_close());
    }
}
void manager::close(bool commit_changes) {
    if (detail::manager_core* const heap = handle_.core_or_null()) {
        handle_.leave_fast_path();
        try {
            heap->close(commit_changes);
        } catch (...) {
            handle_.renew_fast_path();  // the heap is still open
            throw;
        }
    }
}
commit_report manager::last_commit() const { return core().last_report(); }

std::uint64_t manager::version() const { return core().engine().files().superblock().sequence; }

refresh_report manager::refresh() { return core().refresh(); }

bool manager::wait_for_change(std::chrono::nanoseconds longest) const {
    longest = std::min(longest, std::chrono::nanoseconds(std::chrono::years(1)));  // clocks count no further than 292
    return core().wait_for_change(longest);
}

shrink_report manager::shrink(const shrink_options& options) {
    if (!core().is_shared()) {
        detail::refuse_read_only(core().engine(), "shrink");
    }
    return public_report(value_or_throw(core().around_commit([&] {
        return core().engine().shrink(options.target, [&options](const heap::shrink_report& so_far) {
            if (options.progress) {
                options.progress(public_report(so_far));
            }
        });
    })));
}

void manager::snapshot(const std::string& destination) {
    core().sync_pending();  // what commit_later() left is part of the heap
    value_or_throw(core().around_commit([&] { return core().engine().snapshot(destination); }));
}

}  // namespace holdfast
