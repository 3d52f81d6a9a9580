// Readers of an open heap beside its writer (docs/decisions/0039-readers-beside-the-writer.md): the writer lets them
// come, and a reader goes from version to version. It has mapped home, and over it, as private pages, what the log has.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "log/log_format.hpp"
#include "segment/commit/committer.hpp"
#include "segment/commit/heap_mapping.hpp"
#include "segment/commit/heap_superblock.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/objects_file.hpp"
#include "segment/files/reader_table.hpp"

namespace holdfast::segment {

struct refreshed_pages {
    std::uint64_t version = 0;
    std::uint64_t versions = 0;   ///< commits since the last refresh
    std::uint64_t pages = 0;      ///< that changed
    bool tables_changed = false;  ///< what an engine has read of the heap's own tables may be another now
};

struct heap_readers_parts {
    const heap_location& location;
    heap_superblock& superblock;
    heap_mapping& mapping;
    objects_file& objects;
    committer& commits;
};

/// Not thread-safe; no thread looks at the heap's memory meanwhile.
class heap_readers {
public:
    explicit heap_readers(const heap_readers_parts& parts) noexcept : parts_(parts) {}
    heap_readers(const heap_readers&) = delete;
    heap_readers& operator=(const heap_readers&) = delete;
    ~heap_readers() = default;

    /// Null: nobody reads beside a writer.
    [[nodiscard]] reader_table* table() const noexcept {
        return parts_.location.directories() == nullptr ? nullptr : parts_.location.directories()->readers.get();
    }

    // --- of a writer in durability `commit` ---
    [[nodiscard]] recovery_wishes wishes(const replay_watch& watch) const;
    /// From now on readers may come. Best effort: without the file `readers` they are refused. `by_turns`: and who
    /// takes turns.
    void admit(bool by_turns = false) noexcept;

    // --- of a reader ---
    /// The state is about to be mapped.
    void begin(const recovered_state& state);
    /// It is mapped.
    void begin_reading() noexcept;
    /// Takes the heap's lock again, and with it keeps writers out until the heap is closed. `locked` beside a writer.
    base::result<void> keep_writers_out();
    /// What the files and the log have of the version that this process shows, for who reads them while a standstill()
    /// lives.
    [[nodiscard]] base::result<recovered_state> state_on_media() const;
    [[nodiscard]] reader_table::standstill standstill() const noexcept {
        return {is_reading_ ? table() : nullptr, parts_.superblock.now().sequence};
    }
    /// Until refresh() would find a newer version; false when the time is over.
    [[nodiscard]] bool wait_for_change(std::chrono::nanoseconds longest) const;
    /// Goes to the newest version. No thread may look at the heap's memory meanwhile. Where it fails, the heap shows no
    /// version as a whole, and must be closed. Of a writer: does nothing.
    base::result<refreshed_pages> refresh();

private:
    base::result<refreshed_pages> refresh(reader_table& readers);
    base::result<superblock_on_media> begin_of_log() const;
    base::result<void> grow(const superblock_on_media& to);
    base::result<log_content> read_behind(std::uint64_t durable, std::uint64_t session);
    base::result<void> show_pages_at_home(const log_content& content);
    void drop_what_home_has(std::uint64_t home) noexcept;
    [[nodiscard]] base::failure left_behind(std::uint64_t version, std::uint64_t expected) const;

    heap_readers_parts parts_;
    bool is_reading_ = false;
    std::uint64_t session_ = 0;
    /// What the file `readers` says counts: else it is of before the open, when no writer was there, and may be of
    /// another heap.
    bool has_session_ = false;
    log::mark end_;                                ///< of the version in the log
    std::map<std::uint64_t, std::uint64_t> over_;  ///< places of private pages, and their versions
};

}  // namespace holdfast::segment
