#include "api/manager_core.hpp"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "api/object_claims.hpp"
#include "api/transaction_checks.hpp"

namespace holdfast::detail {

using base::failure;
using base::failure_code;

manager_core::manager_core(std::unique_ptr<heap::engine> opened, bool commit_on_close, bool check_transactions,
                           std::unique_ptr<process_turns> turns, std::unique_ptr<heap::upkeep_thread> upkeep)
    : engine_(std::move(opened)),
      turns_(std::move(turns)),
      upkeep_(std::move(upkeep)),
      ranges_(check_transactions ? std::make_unique<open_ranges>() : nullptr),
      handle_(*this),
      commit_on_close_(commit_on_close),
      counted_(engine_->read_only()) {
    if (check_transactions) {
        engine_->undo().fill_what_goes();
    }
    if (turns_ != nullptr) {
        turns_->give(*engine_);
    }
}

manager_core::~manager_core() {
    life_.end();
    if (engine_ == nullptr) {
        return;
    }
    upkeep_.reset();
    plain_.abort_all();
    // A commit needs memory, as the message of a failure does.
    try {
        if (commit_on_close_) {
            pending_.sync_all();
        }
    } catch (const std::exception&) {
        report_failure(heap::engine::last_failure(), path());
    }
    try {
        auto closed = close_engine(commit_on_close_);
        if (!closed) {
            report_failure(closed.error());
        }
    } catch (const holdfast::error& refused) {  // its thread is within transact() or read()
        report_failure({failure_code::invalid_argument, path(), refused.field(), refused.found(), refused.expected(),
                        refused.hint(), 0});
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        report_failure(what);
    }
    participants_.leave();
}

void manager_core::leave_to_parent() noexcept {
    life_.end();
    static_cast<void>(upkeep_.release());  // its thread is the parent's
    engine_->leave_to_parent();
    counted_.end();
}

void manager_core::take_turn() {
    if (turns_ == nullptr) {
        return;
    }
    if (turns_->is_over()) {
        throw_closed();
    }
    if (has_claimed_objects(life())) {
        throw_failure(failure{failure_code::invalid_argument, path(), "transact",
                              "an index of this heap that is open, in a heap that processes share", "none", "close it",
                              0});
    }
    try {
        if (value_or_throw(turns_->take(engine_))) {
            life_.renew();  // threads keep what their last transactions knew
        }
        if (ranges_ != nullptr) {
            engine_->undo().fill_what_goes();
        }
    } catch (...) {
        if (engine_ == nullptr) {  // it could not be opened anew; other threads may be in wait_for_change()
            life_.end();
        }
        throw;
    }
}

void manager_core::give_turn() noexcept {
    if (turns_ != nullptr && turns_->has_turn()) {
        turns_->give(*engine_);
    }
}

/// The last process that shares the heap closes it, as a writer alone would.
base::result<void> manager_core::close_shared(bool commit_changes) {
    const plain_transactions::pause others(plain_, "close", plain_transactions::pause::of::threads);
    auto closed = turns_->close(engine_, commit_changes);
    if (engine_ == nullptr) {
        life_.end();
    }
    return closed;
}

refresh_report manager_core::refresh_shared() {
    const plain_transactions::pause turn(plain_, "refresh");
    const std::uint64_t before = turns_->version();
    const std::uint64_t now = engine().files().superblock().sequence;
    return {now, now - before, 0};
}

base::result<void> manager_core::close_engine(bool commit_changes) {
    if (turns_ != nullptr) {
        return close_shared(commit_changes);
    }
    if (!commit_changes || engine_->read_only()) {
        return engine_->close(commit_changes);
    }
    if (!participants_.going_files().empty()) {
        HF_TRY(around_commit([&] { return engine_->commit(); }));
        participants_.remove_going_files(engine_->files());  // behind the close, another process may have such a file
    }
    return around_commit([&] { return engine_->close(true); });
}

void throw_moved_from() {
    throw_failure(
        failure{failure_code::invalid_argument, {}, "manager", "one that was moved from", "an open one", {}, 0});
}

void throw_closed() {
    throw_failure(failure{failure_code::invalid_argument, {}, "manager", "a closed heap", "an open one", {}, 0});
}

void throw_read_only(const heap::engine& engine, std::string_view operation) {
    const bool rests = engine.files().directories() != nullptr && engine.files().directories()->rests;
    throw_failure(failure{failure_code::read_only,
                          engine.files().paths().directory(),
                          std::string(operation),
                          rests ? "a heap that processes share, outside of a transaction" : "a heap opened read-only",
                          rests ? "a call within transact()" : "a writer",
                          {},
                          0});
}

void throw_refused_free(const heap::engine& engine) {
    failure what = heap::engine::last_failure();
    if (what.path.empty()) {
        what.path = engine.files().paths().directory();
    }
    throw_failure(what);
}

void throw_last_failure(const heap::engine& engine) {
    failure what = heap::engine::last_failure();
    if (what.code == failure_code::bad_address || what.code == failure_code::corrupt) {
        what.path = engine.files().paths().directory();
        throw_failure(what);
    }
    throw_allocation_failure(what, engine.files().paths().directory());
}

refresh_report manager_core::refresh() {
    if (is_shared()) {
        return refresh_shared();
    }
    if (!engine().read_only()) {
        return {engine().files().superblock().sequence, 0, 0};
    }
    value_or_throw(engine().check_process());
    if (has_claimed_objects(life()) || !participants_.forget_unused()) {
        throw_failure(failure{failure_code::invalid_argument, path(), "refresh",
                              "an index or a store of this heap that is open", "none",
                              "close it, and open it again behind the refresh", 0});
    }
    try {
        extent::take_back_opened(engine_->extents());
        const segment::refreshed_pages done = value_or_throw(engine_->files().readers().refresh());
        if (done.tables_changed) {
            engine_ = value_or_throw(heap::engine::read_anew(std::move(engine_)));
        } else {
            extent::show_opened(engine_->extents());
        }
        return {done.version, done.versions, done.pages};
    } catch (...) {  // a part of the version may be there, and a part of the one before
        life_.end();
        engine_.reset();
        throw;
    }
}

const std::string& manager_core::path() const noexcept {
    static const std::string closed;
    return engine_ == nullptr ? closed : engine_->files().paths().directory();
}

void manager_core::sync_pending() {
    if (is_shared()) {  // each is durable when it ends
        return;
    }
    if (const heap::engine& open = engine(); pending_.is_used()) {
        value_or_throw(open.check_process());
        pending_.sync_all();
    }
}

void manager_core::close(bool commit_changes) {
    if (engine_ != nullptr) {
        if (engine_->check_process()) {
            plain_.refuse_inside("close");
            upkeep_.reset();
        }
        if (commit_changes) {
            sync_pending();
        }
        value_or_throw(close_engine(commit_changes));
        participants_.leave();
        life_.end();
        plain_.forget();
        engine_.reset();
        turns_.reset();
    }
}

void manager_core::commit() {
    sync_pending();  // what commit_later() left is part of the heap
    note_commit(value_or_throw(around_commit([&] { return engine().commit(); })));
}

segment::appended_commit manager_core::commit_inside(bool is_gate_closed) {
    const auto participants = participants_.try_all();
    const bool has_participants = !participants || !participants->empty();
    const auto commit = [&]() -> base::result<segment::commit_statistics> {
        HF_TRY_ASSIGN(segment::commit_statistics done, engine().undo().commit());
        if (has_participants) {  // they are told that it is durable
            plain_.participants().note(transaction_end::unknown);
            HF_TRY(done.record.wait());
            plain_.participants().accept();
        }
        return done;
    };
    const segment::commit_statistics done = value_or_throw(commit_beside(commit, is_gate_closed));
    note_commit(done);
    return done.record;
}

ticket manager_core::commit_later() {
    if (is_shared()) {  // who has the turn next finds nothing that is not durable
        commit();
        return {};
    }
    heap::engine& open = engine();
    const auto participants = participants_.try_all();
    if (open.changes() == nullptr || !participants || !participants->empty()) {
        commit();
        return {};
    }
    ticket taken;
    value_or_throw(around_commit([&]() -> base::result<bool> {
        HF_TRY_ASSIGN(const bool is_captured, open.undo().commit_later());
        if (is_captured) {
            taken = plain_.note_captured();
        }
        return is_captured;
    }));
    return taken;
}

void manager_core::note_commit(const segment::commit_statistics& done) noexcept {
    participants_.remove_going_files(engine_->files());
    report_ = commit_report{done.dirty_pages, done.fresh_pages, done.logged_pages, done.written_bytes,
                            done.scan_ns,     done.write_ns,    done.sync_ns,      done.total_ns};
}

std::uint64_t manager_core::offset_of(const void* address) const {
    const segment::heap_files& files = engine().files();
    const std::uint64_t offset = files.view().offset(address).value;
    if (offset >= base::to_bytes(files.frontier())) {
        throw_failure(failure{failure_code::bad_address,
                              path(),
                              "address",
                              fmt::format("{}", address),
                              "an address of the heap's user space",
                              {},
                              0});
    }
    return offset;
}

object_info manager_core::describe(const heap::object_entry& entry) const {
    object_info info;
    info.name_ = entry.kind == heap::object_kind::unique ? entry.type : entry.name;
    info.kind_ = static_cast<instance_kind>(entry.kind);
    info.address_ = engine().files().view().address({entry.offset});
    info.offset_ = entry.offset;
    info.length_ = entry.count;
    info.type_name_ = entry.type;
    info.type_size_ = entry.type_size;
    info.description_ = entry.description;
    return info;
}

std::vector<object_info> manager_core::list(instance_kind kind) const {
    const std::lock_guard guard(engine().object_mutex());
    std::vector<object_info> objects;
    for (const heap::object_entry& entry :
         value_or_throw(engine().objects().list(static_cast<heap::object_kind>(kind)))) {
        objects.push_back(describe(entry));
    }
    return objects;
}

std::size_t manager_core::count(instance_kind kind) const {
    const std::lock_guard guard(engine().object_mutex());
    return value_or_throw(engine().objects().count(static_cast<heap::object_kind>(kind)));
}

}  // namespace holdfast::detail
