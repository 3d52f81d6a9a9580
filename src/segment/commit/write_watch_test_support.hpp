#pragma once

#include <cstdio>
#include <vector>

#include "segment/commit/write_watch.hpp"
#include "segment/files/heap_options.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {

/// Both where the kernel watches memory.
inline std::vector<store_watch> ways_to_find() {
    write_watch watch;
    const auto started = watch.start(must(pagemap::open()));
    if (started) {
        return {store_watch::never, store_watch::everywhere};
    }
    std::fprintf(stderr, "NOT TESTED HERE: watched memory: %s\n", started.error().message().c_str());
    return {store_watch::never};
}

}  // namespace holdfast::segment
