// The commands of the program `holdfast`. All but defrag and gc open a heap read-only: nothing of it on media ever
// changes.
//
// Each prints its answer to standard output, as text for people or as one JSON object, and returns the exit status.
// What stops a command is thrown (holdfast::error) and printed by main() with its full message.
#pragma once

#include <string>
#include <vector>

namespace holdfast_cli {

inline constexpr int exit_sound = 0;
inline constexpr int exit_problems = 1;  ///< `check`: the heap breaks an invariant; `leaks`: it has some
inline constexpr int exit_failed = 2;    ///< the command could not do its work
inline constexpr int exit_nothing = 3;   ///< `check`: no problem was found, and no page could be compared

struct arguments {
    std::string heap;    ///< the directory
    bool json = false;   ///< one JSON object instead of text
    std::string target;  ///< defrag: a size, or empty
};

/// Identity, sizes, space by kind, objects, last commit. A heap that a writer has open is described by its superblock
/// alone.
int info(const arguments& given);
/// All numbers of the heap, its blocks by size, and what the recovery of durability `atomic` found. A heap that a
/// writer has open is described by what its files say of the lanes.
int stats(const arguments& given);
/// The sizes of small blocks, which are those of every heap.
int classes(const arguments& given);
/// The named, unique and anonymous objects.
int list(const arguments& given);
struct map_arguments {
    std::string file;  ///< where the page goes; "-": standard output
    bool force = false;
};
/// Draws the space of the heap as one HTML page.
int map(const arguments& given, const map_arguments& output);
/// Every invariant; `pages`: every committed page is read and compared with its checksum, too.
int check(const arguments& given, bool pages);

struct copy_arguments {
    std::string destination;
    std::vector<std::string> node_directories;  ///< "": in the copy's own
};
/// Copies the heap; where its segments should lie in several directories, into these.
int copy(const arguments& given, const copy_arguments& to);

/// Gives what is free back to the file system, until it charges no more than the target. A crashed heap is recovered.
int defrag(const arguments& given);

struct gc_arguments {
    bool dry_run = false;  ///< nothing is freed, and the heap is opened read-only
    bool precise = false;
    bool strict = false;          ///< precise: types that are not registered are an error
    bool null_transient = false;  ///< precise: pointers that lead out of the heap become null
    bool leaks = false;           ///< unreachable blocks are the exit status 1
    unsigned threads = 0;
};
/// Frees what cannot be reached from the roots and the objects, or says what that is.
int gc(const arguments& given, const gc_arguments& how);

}  // namespace holdfast_cli
