#include "segment/files/heap_turns.hpp"

#include <utility>

#include "log/record_chain.hpp"

namespace holdfast::segment {

using base::failure;
using base::failure_code;

base::result<std::unique_ptr<heap_turns>> heap_turns::begin(std::shared_ptr<heap_directories> directories,
                                                            std::string directory) {
    if (directories == nullptr || directories->readers == nullptr || directories->locks.empty()) {
        return failure{failure_code::unsupported,
                       std::move(directory),
                       "a heap to be shared by writers",
                       "no file readers that processes can share",
                       "a directory on a local file system, with some space",
                       "open it in one process alone",
                       0};
    }
    HF_TRY_ASSIGN(std::uint64_t name, log::random_number());
    name |= 1U;  // 0 is nobody
    HF_TRY(directories->readers->take());
    return std::unique_ptr<heap_turns>(new heap_turns(std::move(directories), std::move(directory), name));
}

base::result<void> heap_turns::lock() {
    reader_table& table = *directories_->readers;
    HF_TRY(table.turns().wait_in_line());
    auto locked = directories_->locks.front().take_again();
    table.turns().leave_line();
    return locked;
}

base::result<heap_turns::found> heap_turns::take() {
    HF_TRY(lock());
    reader_table& table = *directories_->readers;
    const bool is_as_left =
        table.turns().left_by() == name_ && table.session() == session_ && table.durable() == version();
    directories_->was_left_in_order = table.turns().left_by() != 0;
    table.turns().set_left_by(0);
    table.hide_version();  // home goes on as it does for a writer alone
    has_turn_ = true;
    if (is_as_left) {
        // A reader that has come meanwhile, when nobody had the turn, counts what later sessions say alone.
        table.turns().set_session(session_ + 1);
        table.set_writer(writer_kind::beside);
        return found::as_left;
    }
    // What the log has behind home is about to be read again, and what a dead process has begun there erased. A
    // reader that is about to read is no hindrance: it counts as reading the oldest version (LOG-13).
    table.set_writer(writer_kind::opening);
    directories_->storage->forget_files();
    return found::changed;
}

void heap_turns::give(std::uint64_t version, bool in_order) noexcept {
    reader_table& table = *directories_->readers;
    table.set_version(version);
    version_.store(version, std::memory_order_release);
    session_ = table.session();
    table.turns().set_left_by(in_order ? name_ : 0);
    table.set_writer(writer_kind::none);
    has_turn_ = false;
    directories_->locks.front().let_go();
}

void heap_turns::leave(bool in_order) noexcept {
    reader_table& table = *directories_->readers;
    table.turns().set_left_by(in_order && directories_->was_left_in_order ? name_ : 0);
    table.leave();
    table.turns().stop_sharing();
    table.set_writer(writer_kind::none);
    has_turn_ = false;
    directories_->locks.front().let_go();
}

}  // namespace holdfast::segment
