// A transaction, as LMDB's MDB_txn: a version of the store, and what this transaction makes of it.
#pragma once

#include <memory>
#include <vector>

#include "store/environment.hpp"
#include "store/free_list_view.hpp"
#include "store/tree.hpp"

namespace holdfast::store_engine {

class cursor;

/// As a transaction sees it.
struct database_state {
    tree_record record{};
    order keys;
    order values;
    std::uint32_t sequence = 0;  ///< of the handle
    bool known = false;          ///< record is read
    bool dirty = false;
    bool opened_here = false;  ///< the handle is this transaction's until it commits
    bool own = false;          ///< or of one around it
    bool touched = false;      ///< changed in this transaction, not only in those around it
    bool dropped = false;      ///< in a nested transaction: the handle is closed when that is part of no other
};

struct closed_handle {
    MDB_dbi number;
    std::uint32_t sequence;  ///< since it was closed
};

class transaction {
public:
    /// `outer` may be null.
    [[nodiscard]] static status begin(environment& env, transaction* outer, unsigned flags,
                                      std::unique_ptr<transaction>& made);
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction();

    [[nodiscard]] status commit();
    void abort() noexcept;
    void reset() noexcept;
    [[nodiscard]] status renew();

    /// Reads a database's record where needed. bad_database: there is no such handle. `of_cursor`: also where the
    /// handle closed when the transaction was reset.
    [[nodiscard]] status database(MDB_dbi number, database_state*& state, bool of_cursor = false);
    [[nodiscard]] status check_writable() const noexcept;
    /// Ok if it has not ended, not failed, and has no transaction nested in it.
    [[nodiscard]] status check_usable() const noexcept {
        return finished_ || failed_ || prepared_ || inner_ != nullptr || is_orphan() ? status::bad_transaction
                                                                                     : status::ok;
    }
    /// Its environment was closed.
    [[nodiscard]] bool is_orphan() const noexcept { return closes_->load(std::memory_order_relaxed) != closed_before_; }
    /// Ends it, as its environment is about to be closed. Its cursors' owners close them.
    void lose_environment() noexcept;
    [[nodiscard]] status open_database(const char* name, unsigned flags, MDB_dbi& number);
    [[nodiscard]] status drop(MDB_dbi number, bool remove);
    [[nodiscard]] status set_order(MDB_dbi number, MDB_cmp_func* compare, bool of_values);

    /// Before a database is changed, by all but the cursor that changes it.
    void keep_positions(MDB_dbi number, const cursor* except);
    void changed(database_state& state) noexcept { state.dirty = state.touched = true; }
    /// After an error in the midst of a change, the transaction can only be aborted.
    status spoil(status what) noexcept;

    [[nodiscard]] environment& env() const noexcept { return *env_; }
    [[nodiscard]] transaction_pages& pages() noexcept { return pages_; }
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
    [[nodiscard]] bool finished() const noexcept { return finished_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return pages_.transaction(); }
    /// That it began with.
    [[nodiscard]] const root& version() const noexcept { return version_; }

    void track(cursor& one) { cursors_.push_back(&one); }
    void forget(const cursor& one) noexcept;

    free_list_view free_list;

private:
    friend class two_phase_commit;
    explicit transaction(environment& env) noexcept
        : env_(&env), closes_(&env.closes()), closed_before_(closes_->load(std::memory_order_relaxed)) {}
    [[nodiscard]] status begin_read();
    [[nodiscard]] status begin_write();
    void nest(transaction& outer);
    void prepare_databases();
    [[nodiscard]] status load(MDB_dbi number, database_state& state);
    [[nodiscard]] status save_record(const std::string& name, const tree_record& record);
    [[nodiscard]] status commit_nested();
    [[nodiscard]] status commit_writes();
    void publish_handles() noexcept;
    void close_cursors() noexcept;
    void end(bool committed) noexcept;

    environment* env_;
    const std::atomic<std::uint64_t>* closes_;
    std::uint64_t closed_before_;
    transaction* outer_ = nullptr;
    transaction* inner_ = nullptr;
    bool read_only_ = false;
    bool finished_ = false;
    bool failed_ = false;
    bool prepared_ = false;
    reader_slot* slot_ = nullptr;
    root version_{};
    announced_write announced_;  ///< ends after own_state_, which has the lock
    std::unique_ptr<write_state> own_state_;
    transaction_pages pages_;
    std::vector<database_state> databases_;
    std::vector<cursor*> cursors_;
    std::vector<closed_handle> closed_;  ///< by reset(), with cursors of their databases
};

}  // namespace holdfast::store_engine
