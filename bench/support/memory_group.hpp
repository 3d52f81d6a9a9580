// A control group of Linux that bounds the memory of the processes in it, page cache included.
#pragma once

#include <cstdint>
#include <filesystem>

namespace bench {

/// Of version 1 or 2; removed by the destructor, when its processes have ended.
class memory_group {
public:
    /// Where none may be made (not root, or no controller of memory), is_there() is false.
    explicit memory_group(std::uint64_t bytes);
    memory_group(const memory_group&) = delete;
    memory_group& operator=(const memory_group&) = delete;
    ~memory_group();

    [[nodiscard]] bool is_there() const noexcept { return !path_.empty(); }
    /// This process. Throws std::runtime_error.
    void enter() const;

private:
    std::filesystem::path path_;
};

}  // namespace bench
