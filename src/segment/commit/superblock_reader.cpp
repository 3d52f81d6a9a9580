#include "segment/commit/superblock_reader.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace holdfast::segment {

base::result<const superblock_on_media*> superblock_reader::newest(persist::storage& storage, const heap_paths& paths) {
    HF_TRY_ASSIGN(std::string there, storage.identity(paths.superblock()));
    if (file_ == nullptr || there != identity_) {
        is_seen_ = false;
        HF_TRY_ASSIGN(file_, storage.open(paths.superblock(), persist::access_mode::read_only));
        read_ = read_ == nullptr ? std::make_unique<buffers>() : std::move(read_);
        identity_ = std::move(there);
    }
    HF_TRY(file_->read_at(0, read_->now));
    if (is_seen_ && std::memcmp(read_->now.data(), read_->seen.data(), read_->now.size()) == 0) {
        return &read_->newest;
    }
    is_seen_ = false;
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(*file_));
    const superblock_on_media* const found = copies.newest();
    if (found == nullptr) {
        return found;
    }
    read_->newest = *found;
    read_->seen = read_->now;
    is_seen_ = true;
    return &read_->newest;
}

}  // namespace holdfast::segment
