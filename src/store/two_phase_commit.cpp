#include "store/two_phase_commit.hpp"

namespace holdfast::store_engine {

status two_phase_commit::save_named(transaction& of) {
    environment& env = of.env();
    for (MDB_dbi i = first_named; i < of.databases_.size(); ++i) {
        const database_state& state = of.databases_[i];
        if (state.dirty && state.known) {
            if (state.sequence != env.handle(i).sequence) {
                return status::bad_database;  // the program closed the handle of what it had changed
            }
            HF_STORE_TRY(of.save_record(env.handle(i).name, state.record));
        }
    }
    return status::ok;
}

status two_phase_commit::save_records(transaction& of, bool& changed) {
    HF_STORE_TRY(save_named(of));
    const database_state& main = of.databases_[main_database];
    write_set& changes = of.own_state_->changes;
    changed = main.dirty || !changes.dirty.empty() || !changes.freed.empty();
    changes.version.main = main.record;
    return status::ok;
}

status two_phase_commit::prepare(transaction& of, std::uint64_t& number) {
    number = 0;
    bool changed = false;
    status outcome = of.check_writable();
    if (outcome == status::ok && of.outer_ != nullptr) {
        outcome = status::bad_transaction;
    }
    if (outcome == status::ok) {
        outcome = save_records(of, changed);
    }
    if (outcome == status::ok && !changed) {
        of.env().store().roll_back(of.own_state_->changes, of.own_state_->lock);
        of.end(true);
        return status::ok;
    }
    if (outcome == status::ok) {
        const std::uint64_t transaction = of.own_state_->changes.version.transaction;
        outcome = of.env().store().prepare(of.own_state_->changes);
        of.prepared_ = outcome == status::ok;
        number = of.prepared_ ? transaction : 0;
    }
    if (outcome != status::ok) {
        of.abort();
    }
    return outcome;
}

void two_phase_commit::accept(transaction& of) noexcept {
    if (of.prepared_) {
        of.env().store().commit_prepared();
    }
}

status two_phase_commit::decide(transaction& of, status of_heap) noexcept {
    of.prepared_ = false;
    engine& store = of.env().store();
    status outcome = of_heap;
    if (of_heap == status::ok) {
        store.commit_prepared();
        of.publish_handles();
    } else if (of_heap == status::panic) {
        store.give_up();
    } else if (const status aborted = store.abort_prepared(); aborted != status::ok) {
        outcome = aborted;
    }
    of.own_state_->lock.unlock();
    return outcome;
}

status two_phase_commit::finish(transaction& of, status of_heap) noexcept {
    if (!of.prepared_) {
        return status::bad_transaction;
    }
    const status outcome = decide(of, of_heap);
    of.end(of_heap == status::ok);
    return outcome;
}

}  // namespace holdfast::store_engine
