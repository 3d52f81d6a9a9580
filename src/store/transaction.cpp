#include "store/transaction.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "store/cursor.hpp"
#include "store/pages_beyond.hpp"
#include "store/two_phase_commit.hpp"

namespace holdfast::store_engine {

namespace {

void set_orders(environment& env, MDB_dbi number, database_state& state) noexcept {
    const database_handle& handle = env.handle(number);
    state.keys = order_of_keys(state.record.flags, handle.compare);
    state.values = order_of_values(state.record.flags, handle.compare_values);
}

// But for those that another transaction has opened, too, and committed.
void close_new_handles(environment& env, std::vector<database_state>& databases) noexcept {
    for (MDB_dbi i = first_named; i < databases.size(); ++i) {
        if (std::exchange(databases[i].opened_here, false)) {
            const std::lock_guard guard(env.handle_mutex());
            const database_handle& handle = env.handle(i);
            if (handle.pending && handle.sequence == databases[i].sequence) {
                env.close_handle(i);
            }
        }
    }
}

void close_dropped(environment& env, MDB_dbi number, database_state& state) noexcept {
    const std::lock_guard guard(env.handle_mutex());
    env.close_handle(number);
    state.dropped = false;
    state.opened_here = false;
}

}  // namespace

status transaction::begin(environment& env, transaction* outer, unsigned flags, std::unique_ptr<transaction>& made) {
    const bool read_only = (flags & MDB_RDONLY) != 0;
    if (env.has(MDB_RDONLY) && !read_only) {
        return status::access_denied;
    }
    std::unique_ptr<transaction> one(new transaction(env));
    one->read_only_ = read_only;
    if (outer != nullptr) {
        if (outer->read_only_ || read_only) {
            return status::invalid_argument;
        }
        HF_STORE_TRY(outer->check_usable());
        one->nest(*outer);
    } else {
        HF_STORE_TRY(read_only ? one->begin_read() : one->begin_write());
        one->prepare_databases();
    }
    made = std::move(one);
    return status::ok;
}

status transaction::begin_read() {
    engine& store = env_->store();
    if (store.pages().shared().is_of_parent() || store.has_lost()) {
        return status::panic;
    }
    HF_STORE_TRY(store.check_nobody_writes());
    const bool own_slot = env_->has(MDB_NOTLS | MDB_NOLOCK);
    if (!own_slot) {
        HF_STORE_TRY(env_->thread_slot(slot_));  // of this thread: the one before may have ended, with its slot
    } else if (slot_ == nullptr) {
        HF_STORE_TRY(store.pages().shared().take_slot(slot_));
    }
    if (slot_->transaction.load(std::memory_order_relaxed) != no_transaction) {
        slot_ = nullptr;
        return status::bad_reader_slot;  // the thread reads already
    }
    version_ = store.enter(*slot_);
    if (store.pages().extend_addresses(version_.next_page) != status::ok) {
        slot_->transaction.store(no_transaction, std::memory_order_release);
        return status::map_resized;
    }
    pages_.read(store, version_.transaction, version_.next_page);
    return status::ok;
}

status transaction::begin_write() {
    announced_.begin(env_->writers());
    own_state_ = std::make_unique<write_state>();
    engine& store = env_->store();
    move_pages_of_others_within_limit(*env_);
    HF_STORE_TRY(store.begin_write(own_state_->lock, own_state_->changes));
    version_ = own_state_->changes.version;
    pages_.write(store, *own_state_);
    env_->set_writer(*this);
    return status::ok;
}

void transaction::nest(transaction& outer) {
    outer_ = &outer;
    pages_ = outer.pages_;
    pages_.nest();
    version_ = outer.version_;
    databases_.reserve(outer.databases_.capacity());
    databases_ = outer.databases_;
    for (database_state& state : databases_) {
        state.touched = false;
        state.opened_here = false;
    }
    outer.inner_ = this;
}

void transaction::prepare_databases() {
    const MDB_dbi count = env_->handle_count();
    databases_.clear();
    databases_.reserve(std::max<std::size_t>(count, env_->handle_capacity()));  // cursors point into it
    databases_.resize(count);
    for (MDB_dbi i = 0; i < count; ++i) {
        databases_[i].sequence = env_->handle(i).sequence;
    }
    databases_[free_database].known = true;
    databases_[main_database].known = true;
    databases_[main_database].record = version_.main;
    set_orders(*env_, main_database, databases_[main_database]);
}

transaction::~transaction() {
    abort();
    close_cursors();  // a reset transaction still has them
    if (slot_ != nullptr && !is_orphan() && env_->has(MDB_NOTLS | MDB_NOLOCK)) {
        shared_state::give_slot(*slot_);
    }
}

void transaction::close_cursors() noexcept {
    for (cursor* one : cursors_) {
        if (read_only_) {
            one->detach();  // its owner closes it, or renews it
        } else {
            const std::unique_ptr<cursor> closed(one);
        }
    }
    cursors_.clear();
}

void transaction::end(bool committed) noexcept {
    close_cursors();
    if (!committed) {
        close_new_handles(*env_, databases_);
    } else if (outer_ == nullptr) {
        for (MDB_dbi i = first_named; i < databases_.size(); ++i) {
            if (databases_[i].own) {  // others may use it now, whichever transaction opened it first
                const std::lock_guard guard(env_->handle_mutex());
                database_handle& handle = env_->handle(i);
                handle.pending = handle.pending && handle.sequence != databases_[i].sequence;
            }
        }
    }
    if (slot_ != nullptr) {
        slot_->transaction.store(no_transaction, std::memory_order_release);
    }
    if (outer_ != nullptr) {
        outer_->inner_ = nullptr;
    }
    finished_ = true;
    if (own_state_ != nullptr && env_->writer() == this) {
        env_->end_writer();
    }
}

void transaction::lose_environment() noexcept {
    if (inner_ != nullptr) {
        inner_->lose_environment();
    }
    for (cursor* one : cursors_) {
        one->detach();
    }
    cursors_.clear();
    abort();
}

void transaction::abort() noexcept {
    if (finished_) {
        return;
    }
    if (is_orphan()) {
        close_cursors();
        finished_ = true;
        return;
    }
    if (inner_ != nullptr) {
        const std::unique_ptr<transaction> inner(inner_);
    }
    if (prepared_) {
        static_cast<void>(
            two_phase_commit::finish(*this, status::bad_transaction));  // where that fails, nobody writes any more
        return;
    }
    if (outer_ != nullptr) {
        try {
            pages_.undo();
        } catch (const std::bad_alloc&) {
            static_cast<void>(outer_->spoil(status::no_memory));  // its abort takes back what this one took
        }
    } else if (own_state_ != nullptr && own_state_->lock.owns()) {
        env_->store().roll_back(own_state_->changes, own_state_->lock);
    }
    end(false);
}

void transaction::reset() noexcept {
    if (!read_only_ || finished_) {
        return;
    }
    if (is_orphan()) {
        abort();
        return;
    }
    for (cursor* one : cursors_) {
        try {
            one->keep_position();
            if (databases_[one->number()].opened_here) {
                closed_.push_back({one->number(), databases_[one->number()].sequence + 1});
            }
        } catch (const std::bad_alloc&) {
            one->unplace();
        }
    }
    if (slot_ != nullptr) {
        slot_->transaction.store(no_transaction, std::memory_order_release);
    }
    close_new_handles(*env_, databases_);
    finished_ = true;
}

status transaction::renew() {
    if (!read_only_ || !finished_) {
        return status::invalid_argument;
    }
    if (is_orphan()) {
        return status::bad_transaction;
    }
    HF_STORE_TRY(begin_read());
    prepare_databases();
    finished_ = false;
    for (cursor* one : cursors_) {
        static_cast<void>(one->bind_again());  // to the database as it is now; where there is none, it finds nothing
    }
    return status::ok;
}

status transaction::check_writable() const noexcept {
    if (is_orphan()) {
        return status::bad_transaction;
    }
    if (env_->store().pages().shared().is_of_parent()) {
        return status::panic;  // its pages are those of a transaction of the parent
    }
    return read_only_ ? status::access_denied : check_usable();
}

status transaction::spoil(status what) noexcept {
    failed_ = true;
    return what;
}

void transaction::forget(const cursor& one) noexcept { std::erase(cursors_, &one); }

void transaction::keep_positions(MDB_dbi number, const cursor* except) {
    for (cursor* one : cursors_) {
        if (one != except && one->number() == number) {
            one->keep_position();
        }
    }
}

// --- commit ---------------------------------------------------------------------------------------------------------

status transaction::commit() {
    if (inner_ != nullptr) {
        const std::unique_ptr<transaction> inner(inner_);
        HF_STORE_TRY(inner->commit());
    }
    if (finished_ || failed_ || prepared_ || is_orphan()) {
        abort();
        return read_only_ && !is_orphan() ? status::ok : status::bad_transaction;  // a reader may have been reset
    }
    if (env_->store().pages().shared().is_of_parent()) {
        abort();
        return status::panic;
    }
    if (read_only_) {
        publish_handles();
        end(true);
        return status::ok;
    }
    const status outcome = outer_ != nullptr ? commit_nested() : commit_writes();
    if (outcome != status::ok) {
        abort();
    }
    return outcome;
}

void transaction::publish_handles() noexcept {
    for (MDB_dbi i = first_named; i < databases_.size(); ++i) {
        if (databases_[i].opened_here && databases_[i].known) {
            env_->handle(i).flags = databases_[i].record.flags;
        }
    }
}

status transaction::commit_nested() {
    outer_->failed_ = true;  // if memory runs out in the midst, pages of the outer one may be free already
    for (cursor* one : outer_->cursors_) {
        if (databases_[one->number()].touched) {
            one->keep_position();  // its pages may be used for others from here on
        }
    }
    pages_.join(outer_->pages_);
    for (MDB_dbi i = 0; i < databases_.size(); ++i) {
        if (i >= outer_->databases_.size()) {
            outer_->databases_.resize(i + 1);
        }
        database_state& outer = outer_->databases_[i];
        const bool touched = outer.touched || databases_[i].touched;
        const bool opened = outer.opened_here || databases_[i].opened_here;
        outer = databases_[i];
        outer.touched = touched;
        outer.opened_here = opened;
        if (outer.dropped && outer_->outer_ == nullptr) {
            close_dropped(*env_, i, outer);
        }
    }
    outer_->failed_ = false;
    end(true);
    return status::ok;
}

status transaction::commit_writes() {
    if (env_->is_in_heap()) {
        std::uint64_t number = 0;
        HF_STORE_TRY(two_phase_commit::prepare(*this, number));
        if (number == 0) {
            return status::ok;
        }
        const status of_heap = env_->ask_heap(number);
        const status outcome = two_phase_commit::decide(*this, of_heap);
        if (outcome == status::ok) {
            move_pages_within_limit(*env_);
        }
        end(of_heap == status::ok);
        return outcome;
    }
    bool changed = false;
    HF_STORE_TRY(two_phase_commit::save_records(*this, changed));
    if (changed) {
        HF_STORE_TRY(env_->store().commit(own_state_->changes, own_state_->lock));
        publish_handles();
        move_pages_within_limit(*env_);  // before the end, which may close the environment
    } else {
        env_->store().roll_back(own_state_->changes, own_state_->lock);
    }
    end(true);
    return status::ok;
}

// --- databases ------------------------------------------------------------------------------------------------------

status transaction::load(MDB_dbi number, database_state& state) {
    database_state& main = databases_[main_database];
    tree_cursor at;
    at.attach(pages_, main.record, main.keys);
    bool exact = false;
    HF_STORE_TRY(at.seek(env_->handle(number).name, exact));
    if (!exact) {
        return status::not_found;
    }
    if ((at.flags() & (node_is_tree | node_has_many)) != node_is_tree) {
        return status::incompatible;
    }
    state.record = record_from(at.value());
    if (state.record.item_size != 0) {
        return status::corrupted;  // only values of keys are packed
    }
    state.known = true;
    set_orders(*env_, number, state);
    return status::ok;
}

status transaction::database(MDB_dbi number, database_state*& state, bool of_cursor) {
    if (finished_ || is_orphan() || number >= env_->handle_count()) {
        return status::invalid_argument;
    }
    if (number >= databases_.size()) {
        const std::size_t before = databases_.size();
        databases_.resize(env_->handle_count());
        for (std::size_t i = before; i < databases_.size(); ++i) {
            databases_[i].sequence = env_->handle(static_cast<MDB_dbi>(i)).sequence;
        }
    }
    state = &databases_[number];
    const database_handle& handle = env_->handle(number);
    if (of_cursor && !closed_.empty()) {
        const std::lock_guard guard(env_->handle_mutex());  // else another thread may give the handle another name
        const auto is_it = [&](const closed_handle& one) {
            return one.number == number && one.sequence == handle.sequence;
        };
        if (!handle.open && std::any_of(closed_.begin(), closed_.end(), is_it)) {
            return load(number, *state);
        }
    }
    if (!handle.open || state->dropped || (handle.pending && !state->own)) {
        return status::invalid_argument;
    }
    if (state->sequence != handle.sequence) {
        return status::bad_database;
    }
    return state->known ? status::ok : load(number, *state);
}

status transaction::save_record(const std::string& name, const tree_record& record) {
    database_state& main = databases_[main_database];
    keep_positions(main_database, nullptr);
    tree_cursor at;
    at.attach(pages_, main.record, main.keys);
    bool exact = false;
    const status found = at.seek(name, exact);
    if (found != status::ok && found != status::not_found) {
        return found;
    }
    if (exact) {
        HF_STORE_TRY(at.replace(as_text(record), node_is_tree, nullptr));
    } else {
        HF_STORE_TRY(at.insert(name, as_text(record), node_is_tree, nullptr));
        ++main.record.entries;
    }
    changed(main);
    return status::ok;
}

status transaction::open_database(const char* name, unsigned flags, MDB_dbi& number) {
    constexpr unsigned persistent =
        MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_REVERSEDUP;
    if ((flags & ~(persistent | MDB_CREATE)) != 0) {
        return status::invalid_argument;
    }
    HF_STORE_TRY(check_usable());
    database_state& main = databases_[main_database];
    const auto wanted = narrow<std::uint16_t>(flags & persistent);
    if (name == nullptr) {
        number = main_database;
        if ((main.record.flags | wanted) != main.record.flags) {
            if (main.record.root != 0) {
                return status::incompatible;  // entries lie in another order, or have another form
            }
            main.record.flags = narrow<std::uint16_t>(main.record.flags | wanted);
            main.dirty = !read_only_;
            set_orders(*env_, main_database, main);
        }
        return status::ok;
    }
    const std::string_view key(name);
    if (key.empty() || key.size() > max_long_key) {
        return status::bad_value_size;
    }
    const std::lock_guard guard(env_->handle_mutex());
    bool is_new = false;
    if ((main.record.flags & (MDB_DUPSORT | MDB_INTEGERKEY)) != 0) {
        return (flags & MDB_CREATE) != 0 ? status::incompatible : status::not_found;
    }
    HF_STORE_TRY(env_->find_handle(name, number, is_new));
    if (number >= databases_.size()) {
        databases_.resize(number + 1);
    }
    database_state& state = databases_[number];
    // Others may have closed the handle that had this number, and opened this one.
    const bool is_other = is_new || state.sequence != env_->handle(number).sequence;
    if (is_other && state.dirty) {
        return status::bad_database;  // it was closed before its changes were saved
    }
    const bool was_dropped = !is_other && state.dropped;
    if (is_other || was_dropped) {
        const bool opened_here = was_dropped && state.opened_here;
        state = database_state();
        state.opened_here = opened_here;
    }
    state.sequence = env_->handle(number).sequence;
    status outcome = state.known ? status::ok : load(number, state);
    if (outcome == status::not_found && (flags & MDB_CREATE) != 0) {
        const bool fits = key.size() <= env_->max_key_size();
        outcome = read_only_ ? status::access_denied : fits ? status::ok : status::bad_value_size;
        if (outcome == status::ok) {
            state.record = tree_record{};
            state.record.flags = wanted;
            state.known = true;
            set_orders(*env_, number, state);
            changed(state);
            outcome = save_record(env_->handle(number).name, state.record);
        }
    }
    if (is_new && outcome == status::ok) {
        env_->handle(number).open = true;
        env_->handle(number).pending = true;
        state.opened_here = true;
    }
    state.own = outcome == status::ok;
    state.dropped = was_dropped && outcome != status::ok;
    return outcome;
}

namespace {

// Cursors may still have it.
void empty_state(database_state& removed) noexcept {
    if (removed.known) {
        const std::uint16_t flags = removed.record.flags;
        removed.record = tree_record{};
        removed.record.flags = flags;
        removed.touched = true;
        removed.known = false;
        removed.dirty = false;
    }
}

}  // namespace

status transaction::drop(MDB_dbi number, bool remove) {
    HF_STORE_TRY(check_writable());
    database_state* state = nullptr;
    HF_STORE_TRY(database(number, state));
    if (number == free_database) {
        return status::invalid_argument;
    }
    const space_freeing frees(pages_);
    // The named databases go with the main one, whose entries must lead to their trees as they are now.
    const bool all = number == main_database;
    if (const status outcome = all ? two_phase_commit::save_named(*this) : status::ok; outcome != status::ok) {
        return spoil(outcome);
    }
    for (cursor* one : cursors_) {
        if (all || one->number() == number) {
            one->unplace();
        }
    }
    changed(*state);
    if (const status outcome = drop_tree(pages_, state->record); outcome != status::ok) {
        return spoil(outcome);
    }
    for (MDB_dbi i = first_named; all && i < databases_.size(); ++i) {
        empty_state(databases_[i]);
    }
    if (!remove || number < first_named) {
        return status::ok;
    }
    database_state& main = databases_[main_database];
    keep_positions(main_database, nullptr);
    tree_cursor at;
    at.attach(pages_, main.record, main.keys);
    bool exact = false;
    HF_STORE_TRY(at.seek(env_->handle(number).name, exact));
    if (exact) {
        if (const status outcome = at.remove(); outcome != status::ok) {
            return spoil(outcome);
        }
        --main.record.entries;
        changed(main);
    }
    state->dirty = false;
    state->known = false;
    state->dropped = true;
    if (outer_ == nullptr) {
        close_dropped(*env_, number, *state);
    }
    return status::ok;  // if this one is undone, an outer one has what it changed, and its handle
}

status transaction::set_order(MDB_dbi number, MDB_cmp_func* compare, bool of_values) {
    database_state* state = nullptr;
    HF_STORE_TRY(database(number, state));
    database_handle& handle = env_->handle(number);
    (of_values ? handle.compare_values : handle.compare) = compare;
    set_orders(*env_, number, *state);
    return status::ok;
}

}  // namespace holdfast::store_engine
