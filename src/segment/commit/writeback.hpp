// Submitting the pages of a scattered commit costs as much as copying them, so a second thread asks for it, while later
// files are copied and after the commit. The syncs decide what is durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "persist/storage.hpp"

namespace holdfast::segment {

/// They are open together.
inline constexpr std::size_t files_synced_at_once = 64;

/// Of fewer, the thread costs more than it saves.
inline constexpr std::uint64_t writeback_pages = 256;

/// Callers serialise start(). The thread ends when it has nothing to do.
class writeback {
public:
    writeback() = default;
    writeback(const writeback&) = delete;
    writeback& operator=(const writeback&) = delete;
    /// Drops hints, and waits until no file is in use. In a child of fork there is no thread.
    ~writeback();

    void start(std::shared_ptr<persist::file> file) noexcept;
    /// Files wait.
    [[nodiscard]] bool is_busy() const noexcept;

private:
    void run() noexcept;

    mutable std::mutex mutex_;
    std::deque<std::shared_ptr<persist::file>> waiting_;
    bool runs_ = false;
    std::thread thread_;
    std::uint64_t owner_ = 0;  ///< base::process_identity()
};

}  // namespace holdfast::segment
