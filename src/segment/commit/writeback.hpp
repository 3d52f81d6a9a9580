// Lets the device begin to write the first files of a commit while later ones are still being copied.
//
// To submit the pages of a scattered commit costs as much as to copy them, and the kernel does it in the thread that
// asks. So a second thread gives hints; the syncs of the commit decide what is durable.
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
    /// Waits until no file is in use, and drops hints that were not given yet.
    ~writeback();

    /// The file must live as long as this object. Never fails: without a second thread nothing is done.
    void start(persist::file& file) noexcept;

private:
    void run() noexcept;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<persist::file*> waiting_;
    std::size_t next_ = 0;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace holdfast::segment
