#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "heap/trace/trace.hpp"

namespace holdfast {

namespace {

heap::trace_options inner_options(const collect_options& options, const heap::engine& engine) {
    heap::trace_options wanted;
    wanted.threads = options.threads;
    wanted.mode =
        options.mode == collect_options::marking::precise ? heap::trace_mode::precise : heap::trace_mode::conservative;
    wanted.unknown = options.unknown_types == collect_options::unknown::fail ? heap::unknown_types::fail
                                                                             : heap::unknown_types::conservative;
    wanted.raw_pointers = (engine.files().superblock().flags & segment::flag_same_address) != 0;
    wanted.null_transient = options.null_transient;
    wanted.dry_run = options.dry_run;
    wanted.most_lines = options.most_lines;
    if (options.progress) {
        wanted.progress = [&options](const heap::trace_progress& so_far) {
            options.progress({so_far.phase == heap::trace_phase::sweep, so_far.done_bytes, so_far.total_bytes});
        };
    }
    return wanted;
}

collect_report public_report(heap::trace_report&& in, const heap::type_registry& types) {
    collect_report report;
    report.roots = in.roots;
    report.words_scanned = in.words_scanned;
    report.blocks_reached = in.blocks_reached;
    report.bytes_reached = in.bytes_reached;
    report.blocks_freed = in.blocks_freed;
    report.bytes_freed = in.bytes_freed;
    for (const auto& [kind, count] : in.freed) {
        const heap::type_registry::entry* const type = types.find(kind.first);
        report.freed.push_back({kind.first, type != nullptr ? type->description.name : std::string(), kind.second,
                                count.blocks, count.bytes});
    }
    report.slabs_freed = in.slabs_freed;
    report.extents_freed = in.extents_freed;
    report.slabs_quarantined = in.slabs_quarantined;
    report.refused_pointers = in.refused_pointers;
    report.free_block_pointers = in.free_block_pointers;
    report.wild_pointers = in.wild_pointers;
    report.nulled_pointers = in.nulled_pointers;
    report.unknown_type_blocks = in.unknown_type_blocks;
    report.lines = std::move(in.lines);
    report.threads = in.threads;
    report.prepare_ns = in.prepare_ns;
    report.mark_ns = in.mark_ns;
    report.sweep_ns = in.sweep_ns;
    return report;
}

}  // namespace

collect_report heap_collection::collect(const collect_options& options) {
    heap::engine& engine = core().engine();
    core().plain().refuse_inside("collect");
    core().sync_pending();  // what commit_later() left may free blocks, and lead to others
    detail::commit_pause others(engine, core().participants());
    if (engine.changes() != nullptr && !options.dry_run) {
        value_or_throw(others.begin());  // a pointer that moves may be seen neither where it was nor where it is
    }
    {
        const std::lock_guard guard(engine.object_mutex());
        value_or_throw(engine.types().load(engine.objects()));
    }
    return public_report(value_or_throw(heap::trace_open_heap(engine, engine.types(), inner_options(options, engine))),
                         engine.types());
}

std::optional<collect_report> heap_collection::last_recovery_trace() const {
    heap::engine& engine = core().engine();
    const std::lock_guard guard(engine.object_mutex());
    if (!engine.recovered().traced) {
        return std::nullopt;
    }
    value_or_throw(engine.types().load(engine.objects()));  // the report names types
    return public_report(heap::trace_report(*engine.recovered().traced), engine.types());
}

void heap_collection::register_type(const type_layout& layout) {
    heap::engine& engine = core().engine();
    detail::refuse_read_only(engine, "register a type");
    core().plain().refuse_inside("register_type");
    heap::type_description described{layout.type, layout.size, layout.stride, {}, layout.name};
    for (const pointer_field& field : layout.pointers) {
        described.pointers.push_back(field.offset | (field.raw ? heap::raw_pointer_bit : 0));
        if (field.offset % 8 != 0) {
            throw_failure(base::failure{base::failure_code::invalid_argument,
                                        handle().path(),
                                        "offset of a pointer",
                                        std::to_string(field.offset),
                                        "a multiple of 8",
                                        {},
                                        0});
        }
    }
    const std::lock_guard guard(engine.object_mutex());
    value_or_throw(engine.types().add(engine.objects(), described));
}

std::vector<type_layout> heap_collection::registered_types() const {
    heap::engine& engine = core().engine();
    const std::lock_guard guard(engine.object_mutex());
    value_or_throw(engine.types().load(engine.objects()));
    std::vector<type_layout> layouts;
    for (const auto& [type, entry] : engine.types().entries()) {
        if (entry.described) {
            type_layout& made = layouts.emplace_back(
                type_layout{type, entry.description.size, entry.description.stride, {}, entry.description.name});
            for (const std::uint32_t pointer : entry.description.pointers) {
                made.pointers.push_back({pointer & ~heap::raw_pointer_bit, (pointer & heap::raw_pointer_bit) != 0});
            }
        }
    }
    return layouts;
}

void heap_collection::register_visitor(std::uint32_t type, block_visitor visitor) {
    value_or_throw(core().engine().types().add_visitor(type, detail::inner_visitor(std::move(visitor))));
}

void heap_collection::set_free_filter(free_filter filter) {
    heap::engine& engine = core().engine();
    if (engine.atomic() != nullptr) {
        throw_failure(base::failure{base::failure_code::unsupported, handle().path(), "free filter",
                                    "durability atomic", "durability commit or collect",
                                    "frees are durable when they return", 0});
    }
    engine.set_free_filter(std::move(filter));
    handle().renew_fast_path();
}

void heap_collection::free_now(void* block) {
    if (block != nullptr) {
        heap::engine& engine = core().engine();
        detail::refuse_read_only(engine, "free_now");
        if (!engine.free_at_once(block)) {
            detail::throw_refused_free(engine);
        }
    }
}

}  // namespace holdfast
