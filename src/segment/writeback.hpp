// Lets the device begin with the files of a commit while later ones are still being copied.
//
// Submitting the pages of a scattered commit costs as much as copying them, and the kernel does it in the thread that
// asks: so another thread asks. It only ever gives hints; what is durable is decided by the syncs of the commit.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "persist/storage.hpp"

namespace holdfast::segment {

class writeback {
public:
    writeback() = default;
    writeback(const writeback&) = delete;
    writeback& operator=(const writeback&) = delete;
    /// Waits until no file is in use; hints that were not given yet are left out.
    ~writeback();

    /// The file must live as long as this object. Never fails: without a second thread nothing is started.
    void start(persist::file& file) noexcept;

private:
    void run() noexcept;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<persist::file*> waiting_;  ///< the oldest first
    std::size_t next_ = 0;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace holdfast::segment
