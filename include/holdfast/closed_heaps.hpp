// manager: heaps that are not open, by their paths.
//
// Thread-safe.
#pragma once

#include <future>
#include <string>
#include <vector>

#include <holdfast/lane_information.hpp>

namespace holdfast {

class closed_heaps {
public:
    /// Throws error, with `locked` where a writer has the heap open. The copy's segments lie in its own directory, or
    /// in `node_directories` (as open_options). Relative paths refer to the working directory at the call.
    static void copy(const std::string& source, const std::string& destination,
                     const std::vector<std::string>& node_directories = {});
    [[nodiscard]] static std::future<void> copy_async(const std::string& source, const std::string& destination);
    /// Also removes the heap's directories on nodes. A directory that holds other files stays: throws error. False
    /// where nothing is at the path.
    static bool remove(const std::string& path);
    [[nodiscard]] static std::future<bool> remove_async(const std::string& path);
    /// Whether open_read_only would succeed: a crashed heap counts, one that a writer has open counts in durability
    /// `commit` alone.
    [[nodiscard]] static bool consistent(const std::string& path);
    /// Uuid and version: also while a writer has the heap open. Throw error.
    [[nodiscard]] static std::string get_uuid(const std::string& path);
    [[nodiscard]] static std::string get_version(const std::string& path);
    [[nodiscard]] static std::string get_description(const std::string& path);
    /// Also while a writer has the heap open, whose changes may be seen in part. Throws error.
    [[nodiscard]] static lane_information lanes(const std::string& path);
};

}  // namespace holdfast
