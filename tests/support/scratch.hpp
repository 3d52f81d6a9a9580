// Directories for tests, and what their files hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace holdfast::support {

/// A new directory that goes, with all in it, when the object goes. In memory where the machine has such a file system.
class scratch_directory {
public:
    scratch_directory();
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;
    ~scratch_directory();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

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
