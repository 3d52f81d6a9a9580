#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <holdfast/heap_glance.hpp>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace holdfast_cli {

namespace {

/// What the file system charges for the files of a directory, and those in the nodes' directories.
std::uint64_t charged_bytes_of(const copy_arguments& to) {
    constexpr std::uint64_t block = 512;  // of st_blocks
    std::uint64_t sum = 0;
    std::vector<std::string> directories = to.node_directories;
    directories.push_back(to.destination);
    for (const std::string& each : directories) {
        std::error_code ignored;
        for (const auto& file : std::filesystem::directory_iterator(each, ignored)) {
            struct stat information {};
            sum += ::stat(file.path().c_str(), &information) == 0
                       ? static_cast<std::uint64_t>(information.st_blocks) * block
                       : 0;
        }
    }
    return sum;
}

/// 0 where the heap does not tell: then the copy says why.
std::uint64_t charged_bytes_of(const std::string& heap) {
    try {
        return holdfast::glance_at(heap).charged_bytes;
    } catch (const holdfast::error&) {
        return 0;
    }
}

}  // namespace

int copy(const arguments& given, const copy_arguments& to) {
    progress shown({.what = "copy",
                    .all = charged_bytes_of(given.heap),
                    .done = [&to] { return charged_bytes_of(to); },
                    .is_wanted = !given.json});
    holdfast::manager::copy(given.heap, to.destination, to.node_directories);
    shown.end();
    const holdfast::manager made(holdfast::open_read_only, to.destination);
    const std::vector<std::string> nodes = made.node_directories();
    if (given.json) {
        print({{"path", to.destination}, {"uuid", made.get_uuid()}, {"node_directories", nodes}});
        return exit_sound;
    }
    print_line("copy", printable(to.destination));
    print_line("uuid", made.get_uuid());
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        print_line(fmt::format("node {}", node), printable(nodes[node]));
    }
    return exit_sound;
}

}  // namespace holdfast_cli
