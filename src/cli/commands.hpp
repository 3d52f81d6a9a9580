// The commands of `holdfast`. All but defrag and gc open a heap read-only and change nothing of it.
//
// Each prints its result to standard output, as text or as one JSON object, and returns the exit status. A failure is
// thrown (holdfast::error); main() prints its message.
#pragma once

#include <string>
#include <vector>

#include <holdfast/open_options.hpp>

namespace holdfast_cli {

inline constexpr int exit_sound = 0;
inline constexpr int exit_problems = 1;  ///< `check`: a broken invariant; `leaks`: leaks; `upgrade`: work
inline constexpr int exit_failed = 2;    ///< the command failed
inline constexpr int exit_nothing = 3;   ///< `check`: no problem, and no page could be compared

/// Also for a heap that was open on the page cache when the machine stopped.
[[nodiscard]] inline holdfast::open_options to_examine() {
    holdfast::open_options options;
    options.accept_machine_restart = true;
    return options;
}

struct arguments {
    std::string heap;  ///< the directory
    bool json = false;
    std::string target;              ///< defrag: a size, or empty
    std::vector<std::string> heaps;  ///< metrics, exporter
    std::string listen = "127.0.0.1:9633";
    std::string shell = "bash";  ///< completion
};

/// If a writer has the heap open: what its superblock and its lanes say.
int info(const arguments& given);
/// All numbers, and the recovery of durability `atomic`. If a writer has the heap open: what its lanes say.
int stats(const arguments& given);
int classes(const arguments& given);
/// Prints the numbers of heaps in the text format of Prometheus. A heap that cannot be read is one with holdfast_up 0,
/// and makes the exit status exit_failed.
int metrics(const std::vector<std::string>& heaps);
/// Serves what the files of the heaps say, in that format, over HTTP, until SIGINT or SIGTERM. Prints the address when
/// it listens. Locks no heap.
int serve_metrics(const std::vector<std::string>& heaps, const std::string& listen);
/// `depth`: levels of what Python programs have stored.
int list(const arguments& given, unsigned depth);
/// Says for each heap and store in which format it is, and what is to be done before another version opens it.
/// exit_problems where something is.
int upgrade(const std::vector<std::string>& paths, bool wants_json);
struct map_arguments {
    std::string file;  ///< of the page; "-": standard output
    bool force = false;
    std::string store;  ///< of the heap, to be drawn; empty: the heap
};
/// Draws the heap, or a store, as one HTML page.
int map(const arguments& given, const map_arguments& output);
/// Checks every invariant; `pages`: also compares all pages with checksums.
int check(const arguments& given, bool pages);

struct copy_arguments {
    std::string destination;
    std::vector<std::string> node_directories;  ///< empty: the copy's own directory
};
int copy(const arguments& given, const copy_arguments& to);

/// Gives space back until the file system charges no more than the target. Recovers a crashed heap first.
int defrag(const arguments& given);

struct gc_arguments {
    bool dry_run = false;  ///< frees nothing, and opens the heap read-only
    bool precise = false;
    bool strict = false;          ///< precise: a type that is not registered is an error
    bool null_transient = false;  ///< precise: pointers that lead out of the heap become null
    bool leaks = false;           ///< unreachable blocks make the exit status 1
    unsigned threads = 0;
};
/// Frees, or only lists, what roots and objects do not reach.
int gc(const arguments& given, const gc_arguments& how);

struct migration_arguments {
    std::string from;
    std::string to;
    bool no_subdirectory = false;
    bool sort = false;  ///< import alone
};
/// Makes a store of a data file of LMDB (`imports`), or the reverse.
int migrate(const arguments& given, const migration_arguments& how, bool imports);

}  // namespace holdfast_cli
