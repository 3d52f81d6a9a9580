// What processes that change a heap by turns tell one another in the file `readers` (heap_turns.hpp): by locks of an
// open file on bytes behind those of the slots, and by words of the table.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

struct reader_table_on_file;

/// Of the file `readers`: locked for reading by all who share the heap.
inline constexpr std::uint32_t sharing_byte = 1024 + 1;

/// Of an open table, and no longer than it. Thread-safe.
class turn_locks {
public:
    turn_locks(const persist::file& file, reader_table_on_file& table) noexcept : file_(file), table_(table) {}

    /// They share the heap, or a writer has it alone. False: somebody else holds it in the other way.
    [[nodiscard]] bool try_to_share() const noexcept;
    [[nodiscard]] bool try_to_have_alone() const noexcept;
    void stop_sharing() const noexcept;
    [[nodiscard]] bool is_shared_by_others() const noexcept;
    /// Whether processes share the heap by turns, or wait to do so; not a writer alone.
    [[nodiscard]] bool is_shared() const noexcept;
    /// A writer that does not share it has it.
    [[nodiscard]] bool is_had_alone() const noexcept;
    /// The place of the next one: who has it waits for the turn. The lock ends with a process that is killed meanwhile.
    base::result<void> wait_in_line() const noexcept;
    void leave_line() const noexcept;

    /// 0: nobody says so, in this boot of the machine and of the version that the table has as durable.
    [[nodiscard]] std::uint64_t left_by() const noexcept;
    void set_left_by(std::uint64_t who) const noexcept;
    void set_session(std::uint64_t session) const noexcept;

private:
    [[nodiscard]] std::uint64_t mark_of(std::uint64_t who) const noexcept;

    const persist::file& file_;
    reader_table_on_file& table_;
};

}  // namespace holdfast::segment
