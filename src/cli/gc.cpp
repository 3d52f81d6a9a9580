#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace holdfast_cli {

namespace {

json as_json(const arguments& given, const holdfast::collect_report& report, bool dry_run) {
    json object;
    object["path"] = given.heap;
    object["dry_run"] = dry_run;
    object["roots"] = report.roots;
    object["blocks_reached"] = report.blocks_reached;
    object["bytes_reached"] = report.bytes_reached;
    object["blocks_unreachable"] = report.blocks_freed;
    object["bytes_unreachable"] = report.bytes_freed;
    json kinds = json::array();
    for (const holdfast::unreachable_blocks& kind : report.freed) {
        kinds.push_back({{"type", kind.type},
                         {"type_name", kind.type_name},
                         {"size", kind.size},
                         {"blocks", kind.blocks},
                         {"bytes", kind.bytes}});
    }
    object["unreachable"] = std::move(kinds);
    object["refused_pointers"] = report.refused_pointers;
    object["free_block_pointers"] = report.free_block_pointers;
    object["wild_pointers"] = report.wild_pointers;
    object["nulled_pointers"] = report.nulled_pointers;
    object["unknown_type_blocks"] = report.unknown_type_blocks;
    object["slabs_quarantined"] = report.slabs_quarantined;
    object["lines"] = report.lines;
    object["threads"] = report.threads;
    object["mark_ns"] = report.mark_ns;
    object["sweep_ns"] = report.sweep_ns;
    return object;
}

void print_text(const holdfast::collect_report& report, bool dry_run) {
    print_line("roots", fmt::format("{}", report.roots));
    print_line("reached", fmt::format("{} blocks, {}", report.blocks_reached, size_text(report.bytes_reached)));
    print_line(dry_run ? "unreachable" : "freed",
               fmt::format("{} blocks, {}", report.blocks_freed, size_text(report.bytes_freed)));
    if (!report.freed.empty()) {
        fmt::print("\n  {:>8} {:>12} {:>12} {:>16}  {}\n", "type", "size", "blocks", "bytes", "name");
        for (const holdfast::unreachable_blocks& kind : report.freed) {
            fmt::print("  {:>8} {:>12} {:>12} {:>16}  {}\n", kind.type == 0 ? "-" : fmt::format("{}", kind.type),
                       kind.size, kind.blocks, kind.bytes, printable(kind.type_name));
        }
        fmt::print("  (of what age they are a heap does not know: it keeps no times of allocation)\n\n");
    }
    const std::uint64_t odd = report.refused_pointers + report.free_block_pointers + report.wild_pointers;
    if (odd + report.slabs_quarantined != 0) {
        print_line("pointers to no block", fmt::format("{}", report.refused_pointers));
        print_line("pointers to free blocks", fmt::format("{}", report.free_block_pointers));
        print_line("pointers out of it", fmt::format("{}", report.wild_pointers));
        print_line("of these now null", fmt::format("{}", report.nulled_pointers));
        print_line("damaged slabs", fmt::format("{}", report.slabs_quarantined));
        for (const std::string& line : report.lines) {
            fmt::print("  {}\n", printable(line));
        }
    }
    print_line("time",
               fmt::format("mark {:.3f} ms, sweep {:.3f} ms, {} threads", static_cast<double>(report.mark_ns) / 1e6,
                           static_cast<double>(report.sweep_ns) / 1e6, report.threads));
}

}  // namespace

int gc(const arguments& given, const gc_arguments& how) {
    // A dry run changes nothing on media. Otherwise the open recovers a crashed heap.
    holdfast::manager heap = how.dry_run ? holdfast::manager(holdfast::open_read_only, given.heap)
                                         : holdfast::manager(holdfast::open_only, given.heap, to_change());
    progress shown({.what = "mark", .is_wanted = !given.json});
    holdfast::collect_options wanted;
    wanted.mode =
        how.precise ? holdfast::collect_options::marking::precise : holdfast::collect_options::marking::conservative;
    wanted.unknown_types =
        how.strict ? holdfast::collect_options::unknown::fail : holdfast::collect_options::unknown::conservative;
    wanted.threads = how.threads;
    wanted.null_transient = how.null_transient;
    wanted.dry_run = how.dry_run;
    wanted.progress = [&shown](const holdfast::collect_progress& so_far) {
        shown.update(so_far.sweeping ? "sweep" : "mark", so_far.done_bytes, so_far.total_bytes);
    };
    const holdfast::collect_report report = heap.collect(wanted);
    shown.end();
    heap.close(!how.dry_run);
    if (given.json) {
        print(as_json(given, report, how.dry_run));
    } else {
        print_text(report, how.dry_run);
    }
    return how.leaks && report.blocks_freed != 0 ? exit_problems : exit_sound;
}

}  // namespace holdfast_cli
