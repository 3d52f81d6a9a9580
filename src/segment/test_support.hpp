#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/result.hpp"
#include "base/scratch_test_support.hpp"

namespace holdfast::segment {

template <class T>
T must(base::result<T> outcome) {
    if (!outcome) {
        throw std::runtime_error(outcome.error().message());
    }
    return std::move(outcome).value();
}
inline void must(base::result<void> outcome) {
    if (!outcome) {
        throw std::runtime_error(outcome.error().message());
    }
}

enum class place { memory, disk };

class test_directory : public base::scratch_directory {
public:
    explicit test_directory(place where = place::memory)
        : scratch_directory(where == place::memory ? base::memory_directory() : base::disk_directory()) {}
};

inline std::vector<std::byte> content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::byte> bytes(std::filesystem::file_size(path));
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) {
        throw std::runtime_error("cannot read " + path);
    }
    return bytes;
}

inline void overwrite(const std::string& path, std::uint64_t offset, const std::vector<std::byte>& bytes) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
        throw std::runtime_error("cannot write " + path);
    }
}

inline std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace holdfast::segment
