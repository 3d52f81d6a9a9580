// Data files that LMDB wrote, as runs: the length of what follows as it is (u32), these bytes, a byte, and how often it
// comes (u32).
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace holdfast_lmdb_file {

/// Throws std::runtime_error where the file of runs cannot be read, or is none.
[[nodiscard]] inline std::string golden_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string runs((std::istreambuf_iterator<char>(in)), {});
    if (runs.empty()) {
        throw std::runtime_error(path + ": cannot be read");
    }
    std::string file;
    const auto number = [&](std::size_t at) {
        std::uint32_t value = 0;
        if (runs.copy(reinterpret_cast<char*>(&value), sizeof(value), at) != sizeof(value)) {
            throw std::runtime_error(path + ": no runs");
        }
        return value;
    };
    for (std::size_t at = 0; at < runs.size();) {
        const std::uint32_t length = number(at);
        file.append(runs, at + 4, length);
        file.append(number(at + 5 + length), runs.at(at + 4 + length));
        at += 9 + length;
    }
    return file;
}

}  // namespace holdfast_lmdb_file
