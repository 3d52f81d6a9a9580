// Runs the commands of random programs on a library with LMDB's interface.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "store/lmdb_library.hpp"
#include "store/random_program.hpp"
#include "store/store_model.hpp"

namespace holdfast::test {

class library_subject {
public:
    /// A new environment in an empty directory; `flags` of mdb_env_open() beside MDB_NOTLS and MDB_NOSYNC.
    library_subject(const lmdb_library& library, std::string directory, unsigned flags);
    library_subject(const library_subject&) = delete;
    library_subject& operator=(const library_subject&) = delete;
    ~library_subject();

    /// Throws std::runtime_error where an environment cannot be opened.
    [[nodiscard]] outcome perform(const command& called);

private:
    /// A value that a reader was given: it must stay as it is until the transaction ends.
    struct held_value {
        const void* at;
        std::string bytes;
    };
    struct reader_state {
        MDB_txn* transaction = nullptr;
        std::vector<held_value> held;
    };
    struct cursor {
        MDB_cursor* handle;
        std::size_t level;  ///< 0: of a reader
    };

    [[nodiscard]] MDB_env* open_environment(const std::string& directory, unsigned flags) const;
    [[nodiscard]] MDB_txn* transaction_of(unsigned reader) const;
    outcome reopen(const command& called);
    outcome copy(const command& called);
    outcome begin_or_end(const command& called);
    outcome read(const command& called);
    outcome put(const command& called);
    outcome handle(const command& called);
    outcome cursor_handle(const command& called);
    outcome cursor_get(const command& called);
    outcome cursor_put(const command& called);
    outcome put_multiple(const command& called);
    outcome get_multiple(const command& called);
    outcome scan(MDB_txn* transaction, MDB_dbi database) const;
    void hold(unsigned reader, const MDB_val& value);
    [[nodiscard]] bool held_values_are_intact(reader_state& reader) const;
    int open_database(MDB_txn* transaction, unsigned database, unsigned flags, MDB_dbi& handle) const;

    const lmdb_library& lmdb_;
    std::string directory_;
    unsigned flags_;
    MDB_env* environment_ = nullptr;
    std::vector<MDB_txn*> levels_;
    std::array<reader_state, store_model::readers + 1> readers_;
    std::map<unsigned, cursor> cursors_;
    std::array<MDB_dbi, kinds_of_databases> handles_{};
    unsigned copies_ = 0;
};

}  // namespace holdfast::test
