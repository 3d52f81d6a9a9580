// What a number means nothing without: machine, kernel, file system, build, commit.
#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace bench {

/// The file system is that of `directory` (by statfs), the commit id that of the environment variable HOLDFAST_COMMIT,
/// else as git described the tree when it was configured.
[[nodiscard]] nlohmann::ordered_json describe_environment(const std::filesystem::path& directory);

/// Writes everything back and empties the kernel's caches of files; false where we may not.
[[nodiscard]] bool drop_caches();

/// fdatasync. Throws std::system_error.
void sync_file(const std::filesystem::path& file);

/// A directory inside `parent`, removed with all it contains by the destructor.
class workplace {
public:
    /// Throws std::system_error.
    explicit workplace(const std::filesystem::path& parent);
    workplace(const workplace&) = delete;
    workplace& operator=(const workplace&) = delete;
    ~workplace();
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

/// Bytes that the file system charges for a file or for all files in a directory.
[[nodiscard]] std::uint64_t charged_bytes(const std::filesystem::path& path);

}  // namespace bench
