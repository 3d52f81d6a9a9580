// What fills a file system: Holdfast in its durabilities, libpmemobj.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// A heap with numbered objects. Everything throws what it does not say it returns.
class space_backend {
public:
    space_backend() = default;
    space_backend(const space_backend&) = delete;
    space_backend& operator=(const space_backend&) = delete;
    virtual ~space_backend() = default;

    /// False where there is no space.
    [[nodiscard]] virtual bool allocate(std::size_t number, std::size_t size) = 0;
    virtual void release(std::size_t number) = 0;
    /// Null where that object does not exist.
    [[nodiscard]] virtual std::byte* block(std::size_t number) = 0;
    /// Makes durable what happened; false where there was no space for it.
    [[nodiscard]] virtual bool settle() { return true; }
    /// Every check that the allocator offers; throws std::logic_error.
    virtual void check() {}
    /// Closes and opens again; false where it cannot, for lack of space.
    [[nodiscard]] virtual bool reopen() { return true; }
};

struct space_request {
    std::filesystem::path directory;
    std::uint64_t capacity = 0;  ///< of the file system
    bool limited = true;         ///< by the file system; else the backend limits itself
    std::size_t objects = 0;     ///< that exist at the same time
};

/// "holdfast atomic emulated", "holdfast atomic page-cache", "holdfast commit", "libpmemobj".
[[nodiscard]] const std::vector<std::string>& space_backend_names();
/// Throws backend_unavailable (allocators/allocation_run.hpp) where this machine has not what it needs.
[[nodiscard]] std::unique_ptr<space_backend> open_space_backend(const std::string& name, const space_request& request);

[[nodiscard]] std::unique_ptr<space_backend> open_holdfast_space(const std::string& name, const space_request& request);
[[nodiscard]] std::unique_ptr<space_backend> open_libpmemobj_space(const space_request& request);

}  // namespace bench
