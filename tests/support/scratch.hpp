// Directories for tests, and what their files hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/scratch_test_support.hpp"

namespace holdfast::support {

using base::scratch_directory;

/// Name, kind, size and checksum of everything under a path, itself included; an empty map where nothing is there.
/// Equal maps: not a byte differs. The content of `lock` is left out: it means nothing.
[[nodiscard]] std::map<std::string, std::string> files_under(const std::string& path);

/// Copies a directory with all in it; what was at the destination before is gone.
void copy_directory(const std::string& from, const std::string& to);

[[nodiscard]] std::vector<char> read_bytes(const std::string& path);
[[nodiscard]] std::vector<char> read_bytes(const std::string& path, std::uint64_t offset, std::size_t count);
/// Overwrites in place, or appends; the file is made where it is not there.
void write_bytes(const std::string& path, std::uint64_t offset, const std::vector<char>& bytes);
void flip_bit(const std::string& path, std::uint64_t byte, unsigned bit);

}  // namespace holdfast::support
