#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"

namespace holdfast_cli {

int copy(const arguments& given, const copy_arguments& to) {
    holdfast::manager::copy(given.heap, to.destination, to.node_directories);
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
