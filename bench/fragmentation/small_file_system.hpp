// A file system of a size that a benchmark can fill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace bench {

/// A tmpfs in a mount namespace of this process and its children: it is gone when they are, however they end. It takes
/// memory for what is written to it.
class small_file_system {
public:
    /// Mounts it over the directory, which exists. Where that is not possible, why_not() says so.
    small_file_system(std::filesystem::path directory, std::uint64_t capacity);
    small_file_system(const small_file_system&) = delete;
    small_file_system& operator=(const small_file_system&) = delete;
    ~small_file_system();

    [[nodiscard]] bool mounted() const noexcept { return why_not_.empty(); }
    [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

private:
    std::filesystem::path directory_;
    std::string why_not_;
};

}  // namespace bench
