#include <fmt/format.h>
#include <holdfast/size_classes.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"

namespace holdfast_cli {

namespace {

/// Unused bytes of a block that holds the smallest request of its class.
std::uint64_t worst_waste(const holdfast::size_class_information& of) { return of.block_size - of.smallest_request; }

double worst_waste_percent(const holdfast::size_class_information& of) {
    return 100.0 * static_cast<double>(worst_waste(of)) / static_cast<double>(of.block_size);
}

}  // namespace

int classes(const arguments& given) {
    const auto all = holdfast::size_classes();
    if (given.json) {
        json answer;
        for (const auto& one : all) {
            answer["classes"].push_back({{"block_size", one.block_size},
                                         {"smallest_request", one.smallest_request},
                                         {"alignment", one.alignment},
                                         {"blocks_a_slab", one.blocks_a_slab},
                                         {"blocks_a_part", one.blocks_a_part},
                                         {"worst_waste", worst_waste(one)}});
        }
        print(answer);
        return exit_sound;
    }
    fmt::print("{:>6}  {:>14}  {:>9}  {:>13}  {:>13}  {:>18}\n", "BYTES", "REQUESTS", "ALIGNED", "BLOCKS A SLAB",
               "BLOCKS A PART", "WASTE AT MOST");
    for (const auto& one : all) {
        fmt::print("{:>6}  {:>6} - {:>5}  {:>9}  {:>13}  {:>13}  {:>8} ({:>4.1f} %)\n", one.block_size,
                   one.smallest_request, one.block_size, one.alignment, one.blocks_a_slab, one.blocks_a_part,
                   worst_waste(one), worst_waste_percent(one));
    }
    return exit_sound;
}

}  // namespace holdfast_cli
