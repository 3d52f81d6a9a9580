// What the superblock's file says, for who asks at each turn: it is judged anew only where it has changed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

/// Of one heap. Not thread-safe; nobody writes to the file meanwhile.
class superblock_reader {
public:
    /// The newest sound copy of the file that has the name now, up to the next call. Null: there is none. May throw
    /// std::bad_alloc.
    base::result<const superblock_on_media*> newest(persist::storage& storage, const heap_paths& paths);

private:
    using content = std::array<std::byte, superblock_copies * superblock_size>;
    struct buffers {
        content seen{};
        content now{};
        superblock_on_media newest{};
    };
    std::unique_ptr<persist::file> file_;
    std::string identity_;  ///< of the file
    std::unique_ptr<buffers> read_;
    bool is_seen_ = false;
};

}  // namespace holdfast::segment
