// Submitting the pages of a scattered commit costs as much as copying them, so a second thread asks for it while later
// files are copied. The syncs decide what is durable.
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
    /// Drops hints, and waits until no file is in use.
    ~writeback();

    /// The file must live as long as this object.
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
