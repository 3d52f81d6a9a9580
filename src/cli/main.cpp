// holdfast: inspects, checks, copies and shrinks heaps; says what is in stores.
//
// Exit status: 0; 1 where `check` found problems, `leaks` leaks or `upgrade` work; 2 where a command failed, also for
// wrong arguments; 3 where `check` found no problem and could compare no page.
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <holdfast/error.hpp>

#include "command_line/command_line.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "store.hpp"
#include "values.hpp"

namespace {

using holdfast_cli::arguments;
using holdfast_cli::copy_arguments;
using holdfast_cli::gc_arguments;
using holdfast_cli::map_arguments;
using holdfast_cli::migration_arguments;
using holdfast_programs::command;
using holdfast_programs::command_line;
using holdfast_programs::option;

constexpr const char* exit_statuses =
    "Exit status: 0; 1 where check found problems, leaks leaks or upgrade work; 2 where the work could not be done; "
    "3 where check found no problem and could compare no page.";

command add_plain_command(command_line& program, const std::string& name, const std::string& summary,
                          arguments& given) {
    const command added = program.add_command(name, summary);
    added.add_option("HEAP", given.heap, "The heap's directory").required();
    return added;
}

command add_command(command_line& program, const std::string& name, const std::string& summary, arguments& given) {
    const command added = add_plain_command(program, name, summary, given);
    added.add_flag("--json", given.json, "Print one JSON object");
    return added;
}

command add_map(command_line& program, arguments& given, map_arguments& output) {
    const command added =
        add_plain_command(program, "map", "Draw the space of a heap or store as one HTML page", given);
    added.add_option("-o,--output", output.file, "The page to write; - for standard output").required();
    added.add_flag("--force", output.force, "Overwrite the page");
    added.add_option("--store", output.store, "Draw this store, which lies in the heap");
    added.footer("The page needs no server and no other file. FILE.html#at=0x10000 points at an offset.");
    return added;
}

command add_classes(command_line& program, arguments& given) {
    const command added = program.add_command("classes", "The sizes of small blocks, which all heaps have");
    added.add_flag("--json", given.json, "Print one JSON object");
    return added;
}

command add_info(command_line& program, arguments& given) {
    const command added =
        add_command(program, "info", "Identity, domain, sizes, space by kind, last commit, number of objects", given);
    added.footer(
        "Extents are runs of pages: free; one block, big (up to 16 MiB) or huge; a slab, 64 KiB of small blocks; the\n"
        "roots; reserved. On disk: what the file system has space for; the rest are holes. Fragmentation: external is\n"
        "1 - largest free extent / free extents (0 where nothing is free); of the slabs, 1 - bytes of live blocks /\n"
        "bytes of slabs (0 where there are none).");
    return added;
}

command add_stats(command_line& program, arguments& given) {
    return add_command(program, "stats", "Numbers: space, blocks by size, recovery, durability atomic", given);
}

command add_copy(command_line& program, arguments& given, copy_arguments& to) {
    const command added = add_command(program, "copy", "Copy the heap, which no writer has open", given);
    added.add_option("DESTINATION", to.destination, "The copy's directory, which is not there yet").required();
    added.add_option("--node", to.node_directories,
                     "A directory for segments; once for each node of the machine, in the kernel's order");
    added.footer("Without --node all segments lie in the copy's directory, wherever those of the heap do.");
    return added;
}

command add_tracing(command_line& program, const std::string& name, const std::string& summary, arguments& given,
                    gc_arguments& how) {
    const command added = add_command(program, name, summary, given);
    const option precise = added.add_flag("--precise", how.precise,
                                          "Follow the pointers of registered types alone; other types: every word");
    added.add_flag("--strict", how.strict, "Refuse blocks of types that are not registered").needs(precise);
    added.add_option("--threads", how.threads, "Threads that mark; one for each processor by default").range(1, 256);
    added.footer("What a conservative trace takes for a pointer, and what it keeps: docs/tracing.md.");
    return added;
}

command add_defrag(command_line& program, arguments& given) {
    const command added =
        add_command(program, "defrag", "Give free space back to the file system; nothing moves", given);
    added.add_option("--target", given.target,
                     "Stop when the file system charges no more: bytes, or with K, M, G, T (1024)");
    return added;
}

command add_leaks(command_line& program, arguments& given, gc_arguments& how) {
    return add_tracing(program, "leaks", "Say what is allocated, and the roots and the objects do not lead to", given,
                       how);
}

command add_check(command_line& program, arguments& given, bool& quick, bool& pages) {
    const command added = add_command(program, "check", "Check every invariant of the heap", given);
    const option pages_option =
        added.add_flag("--pages", pages, "Compare every committed page with its checksum (the default)");
    added.add_flag("--quick", quick, "Leave the pages out").excludes(pages_option);
    added.footer("A store (docs/store.md) is read as a whole in any case.");
    return added;
}

command add_migration(command_line& program, const std::string& name, const std::string& summary, arguments& given,
                      migration_arguments& how) {
    const bool imports = name == "import";
    const command added = program.add_command(name, summary);
    added
        .add_option(imports ? "LMDB" : "STORE", how.from,
                    imports ? "The directory or the data file of LMDB 0.9 or 1.0" : "The store's directory")
        .required();
    added.add_option(imports ? "STORE" : "LMDB", how.to, "What is made; it is not there yet").required();
    added.add_flag("--no-subdir", how.no_subdirectory, "The store, and what is made, are single files (MDB_NOSUBDIR)");
    if (imports) {
        added.add_flag("--sort", how.sort,
                       "Databases that a function of a program sorts become sorted as their flags "
                       "say");
    }
    added.add_flag("--json", given.json, "Print one JSON object");
    return added;
}

command add_gc(command_line& program, arguments& given, gc_arguments& how) {
    const command added = add_tracing(program, "gc", "Free what the roots and the objects do not lead to", given, how);
    const option dry_run =
        added.add_flag("--dry-run", how.dry_run, "Say what would be freed, by type and size; change nothing");
    added
        .add_flag("--null-transient", how.null_transient,
                  "Pointers of registered types that lead out of the heap become null: they led to memory of a process "
                  "that is gone")
        .needs(added.find_option("--precise"))
        .excludes(dry_run);
    return added;
}

struct value_arguments {
    unsigned depth = 1;
    std::vector<std::string> keys;
};

command add_list(command_line& program, arguments& given, value_arguments& wanted) {
    const command added =
        add_command(program, "ls", "Objects, and what Python has stored: key, type, length, size", given);
    added.add_option("--depth", wanted.depth, "Levels of dicts and lists of Python").range(0U, 100U).show_default();
    return added;
}

command add_get(command_line& program, arguments& given, value_arguments& wanted) {
    const command added = add_command(program, "get", "Print a value that Python has stored, as JSON", given);
    added.add_option("KEY", wanted.keys, "Keys of dicts, indexes of lists, one below the other").required();
    return added;
}

command add_metrics(command_line& program, std::vector<std::string>& heaps) {
    const command added =
        program.add_command("metrics", "Numbers of heaps and stores, in the text format of Prometheus");
    added.add_option("HEAP", heaps, "Heaps and stores").required();
    added.footer("For the textfile collector of node_exporter: write to a new file, and rename it.");
    return added;
}

command add_exporter(command_line& program, arguments& given) {
    const command added =
        program.add_command("exporter", "Serve numbers of heaps and stores over HTTP, for Prometheus");
    added.add_option("--listen", given.listen, "Address and port; port 0: a free one").show_default();
    added.add_option("HEAP", given.heaps, "Heaps and stores").required();
    added.footer(
        "Prints the address of the numbers, and serves them until SIGINT or SIGTERM. It reads files when it is asked,\n"
        "takes no lock and changes nothing, so it refuses no writer and makes none wait; stores it opens as a reader\n"
        "does. A heap that is not there, is damaged or replaced is one whose numbers say so.");
    return added;
}

/// The commands that take many heaps, or none.
struct heaps_commands {
    command metrics;
    command exporter;
    command upgrade;
    command completion;
    command manual;
};

heaps_commands add_heaps_commands(command_line& program, arguments& given) {
    heaps_commands made{add_metrics(program, given.heaps), add_exporter(program, given),
                        program.add_command("upgrade", "Say what is to be done before another version opens a heap"),
                        program.add_command("completion", "Print a script that completes commands in a shell"),
                        program.add_command("manual", "Print the page for man(1)")};
    made.upgrade.add_option("PATH", given.heaps, "Heaps and stores").required();
    made.upgrade.add_flag("--json", given.json, "Print one JSON object");
    made.completion.add_option("SHELL", given.shell, "bash, zsh or fish")
        .one_of(command_line::known_shells())
        .show_default();
    made.completion.footer(
        "In ~/.bashrc: . <(holdfast completion). In ~/.zshrc, behind compinit: . <(holdfast completion zsh). For "
        "fish:\n"
        "holdfast completion fish >~/.config/fish/completions/holdfast.fish");
    made.manual.footer("To read it without a package: holdfast manual >holdfast.1; man ./holdfast.1");
    made.upgrade.footer("Changes nothing. Exit status 1: something is to be done. See docs/versions.md.");
    return made;
}

std::optional<int> run(const heaps_commands& of, const command_line& program, const arguments& given) {
    if (of.completion.parsed()) {
        fmt::print("{}", program.completion(given.shell));
        return holdfast_cli::exit_sound;
    }
    if (of.manual.parsed()) {
        fmt::print("{}", program.manual("look into persistent heaps and stores, copy and shrink them"));
        return holdfast_cli::exit_sound;
    }
    if (of.exporter.parsed()) {
        return holdfast_cli::serve_metrics(given.heaps, given.listen);
    }
    if (of.metrics.parsed()) {
        return holdfast_cli::metrics(given.heaps);
    }
    if (of.upgrade.parsed()) {
        return holdfast_cli::upgrade(given.heaps, given.json);
    }
    if (!given.heap.empty()) {  // of all other commands
        holdfast_cli::refuse_lmdb(given.heap);
    }
    return std::nullopt;
}

[[noreturn]] int refuse_store(const arguments& given) {
    throw std::runtime_error(given.heap +
                             ": a store, not a heap: info, stats, ls, check and map say what is in it, and copy and "
                             "export write it elsewhere");
}

int run(int argc, char** argv, arguments& given) {
    command_line program("Holdfast: a persistent heap. Looks into one, copies it; defrag and gc alone change it.",
                         "holdfast");
    program.version_flag("--version", "holdfast " HOLDFAST_VERSION ", heap format " HOLDFAST_HEAP_FORMAT);
    program.require_command();
    program.footer(exit_statuses);
    const command info = add_info(program, given);
    map_arguments output;
    const command map = add_map(program, given, output);
    const command stats = add_stats(program, given);
    const command classes = add_classes(program, given);
    const heaps_commands of_heaps = add_heaps_commands(program, given);
    value_arguments wanted;
    const command list = add_list(program, given, wanted);
    const command get = add_get(program, given, wanted);
    const command dump = add_command(program, "dump", "Print all that Python has stored, as JSON", given);
    bool quick = false;
    bool pages = false;
    const command check = add_check(program, given, quick, pages);
    copy_arguments to;
    const command copy = add_copy(program, given, to);
    const command defrag = add_defrag(program, given);
    gc_arguments collection;
    const command gc = add_gc(program, given, collection);
    const command leaks = add_leaks(program, given, collection);
    migration_arguments migration;
    const command import = add_migration(program, "import", "Make a store of LMDB's data file", given, migration);
    const command exporting =
        add_migration(program, "export", "Write what a store holds as LMDB's data file", given, migration);
    if (const auto status = program.parse(argc, argv)) {
        return *status == 0 ? holdfast_cli::exit_sound : holdfast_cli::exit_failed;
    }
    if (const auto status = run(of_heaps, program, given)) {
        return *status;
    }
    if (map.parsed()) {
        return holdfast_cli::map(given, output);
    }
    if ((get.parsed() || dump.parsed()) && !holdfast_cli::is_store(given.heap)) {
        return holdfast_cli::get(given, wanted.keys);
    }
    if (holdfast_cli::is_store(given.heap)) {
        return info.parsed() || stats.parsed() ? holdfast_cli::store_info(given)
               : list.parsed()                 ? holdfast_cli::store_list(given)
               : copy.parsed()                 ? holdfast_cli::store_copy(given, to)
               : check.parsed()                ? holdfast_cli::store_check(given)
                                               : refuse_store(given);
    }
    const auto plain = info.parsed()      ? holdfast_cli::info
                       : stats.parsed()   ? holdfast_cli::stats
                       : defrag.parsed()  ? holdfast_cli::defrag
                       : classes.parsed() ? holdfast_cli::classes
                                          : nullptr;
    if (plain != nullptr) {
        return plain(given);
    }
    if (import.parsed() || exporting.parsed()) {
        return holdfast_cli::migrate(given, migration, import.parsed());
    }
    if (gc.parsed() || leaks.parsed()) {
        collection.leaks = leaks.parsed();
        collection.dry_run = collection.dry_run || leaks.parsed();
        return holdfast_cli::gc(given, collection);
    }
    if (copy.parsed()) {
        return holdfast_cli::copy(given, to);
    }
    return list.parsed() ? holdfast_cli::list(given, wanted.depth) : holdfast_cli::check(given, !quick);
}

/// exit_failed where the output could not be written.
int finish(int status) {
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        std::fputs("holdfast: cannot write to standard output\n", stderr);
        return holdfast_cli::exit_failed;
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    // A file that may not grow (`ulimit -f`) is an error like a full disk: what was half made is removed.
    std::signal(SIGXFSZ, SIG_IGN);
    arguments given;
    try {
        return finish(run(argc, argv, given));
    } catch (const holdfast::error& what) {
        if (given.json) {
            holdfast_cli::print_failure(given.heap, what);
        }
        std::fflush(stdout);
        fmt::print(stderr, "holdfast: {}\n", holdfast_cli::printable(what.what()));
    } catch (const std::exception& what) {
        std::fflush(stdout);
        fmt::print(stderr, "holdfast: {}\n", holdfast_cli::printable(what.what()));
    }
    return holdfast_cli::exit_failed;
}
