// What the log has of a file's pages goes to the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/files/heap_options.hpp"

namespace holdfast::segment {

class replay_meter {
public:
    replay_meter(const replay_watch& watch, std::span<const log_content::patch> patches) : watch_(watch) {
        for (const log_content::patch& patch : patches) {
            all_ += patch.length;
        }
    }
    void add(std::uint64_t bytes) {
        done_ += bytes;
        const auto now = clock::now();
        if (watch_.tell && now - told_ >= watch_.interval) {
            told_ = now;
            watch_.tell(done_, all_);
        }
    }

private:
    using clock = std::chrono::steady_clock;
    const replay_watch& watch_;
    std::uint64_t done_ = 0;
    std::uint64_t all_ = 0;
    clock::time_point told_ = clock::now();
};

/// Of the first file, whose patches it takes off. Patches that follow one another are written at once.
base::result<void> write_to_first_file(persist::file& home, patch_reader& reader,
                                       std::span<const log_content::patch>& patches, persist::site where,
                                       replay_meter& meter);

}  // namespace holdfast::segment
