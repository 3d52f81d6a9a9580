// The version of the heap that a reader beside a writer has mapped: home, and over it, as private pages, what the log
// has of later versions. Home goes on to a version only when every reader has it.
#pragma once

#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "log/log_format.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/reader_table.hpp"
#include "segment/heap_mapping.hpp"

namespace holdfast::segment {

struct refreshed_pages {
    std::uint64_t version = 0;
    std::uint64_t versions = 0;   ///< commits since the last refresh
    std::uint64_t pages = 0;      ///< that changed
    bool tables_changed = false;  ///< what an engine has read of the heap's own tables may be another now
};

struct reader_view_parts {
    const heap_location& location;
    heap_superblock& superblock;
    heap_mapping& mapping;
    objects_file& objects;
};

/// Not thread-safe; no thread looks at the heap's memory meanwhile.
class reader_view {
public:
    explicit reader_view(const reader_view_parts& parts) noexcept : parts_(parts) {}
    reader_view(const reader_view&) = delete;
    reader_view& operator=(const reader_view&) = delete;
    ~reader_view() = default;

    /// The state is mapped.
    void begin(const recovered_state& state);
    base::result<refreshed_pages> refresh(reader_table& readers);

private:
    base::result<superblock_on_media> begin_of_log() const;
    base::result<void> grow(const superblock_on_media& to);
    [[nodiscard]] bool is_of_tables(std::uint64_t place) const noexcept;
    void drop_pages_at_home(const log_content& content) noexcept;
    void drop_what_home_has(std::uint64_t home) noexcept;
    [[nodiscard]] base::failure left_behind(std::uint64_t version, std::uint64_t expected) const;

    reader_view_parts parts_;
    std::uint64_t session_ = 0;
    log::mark end_;                             ///< of the version in the log
    std::map<std::uint64_t, std::uint64_t> over_;  ///< places of private pages, and their versions
};

}  // namespace holdfast::segment
