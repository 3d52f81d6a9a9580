// session: opening, transactions, holders, closing.
#include "session.hpp"

#include <sys/stat.h>

#include <unordered_set>
#include <utility>

#include <holdfast/detail/interruptible_waits.hpp>

#include "places.hpp"

namespace holdfast::python {

namespace {

[[noreturn]] void refuse(errc code, const std::string& path, const std::string& field, const std::string& found,
                         const std::string& expected, const std::string& hint = {}) {
    std::string message = path + ": " + field + ": found " + found + ", expected " + expected;
    if (!hint.empty()) {
        message += "; " + hint;
    }
    throw error(code, message, {path, field, found, expected, hint, 0});
}

manager open_heap(const std::string& path, const session_options& options) {
    switch (options.mode) {
        case 'r': return manager(open_read_only, path, options.heap);
        case 'w': return manager(open_only, path, options.heap);
        case 'x': return manager(create_only, path, options.heap);
        default: return manager(open_or_create, path, options.heap);
    }
}

}  // namespace

held_object::held_object(std::shared_ptr<session> of, void* object, kind what, std::shared_ptr<const found_at> place)
    : owner_(std::move(of)), hold_(owner_->holders_.add(object, what, std::move(place))), what_(what) {}

held_object::~held_object() { owner_->let_go(hold_); }

void* held_object::object() const {
    if (hold_->is_gone) {
        refuse(errc::not_found, owner_->path(), "object",
               owner_->follows() ? "one that another process has removed or moved, or an aborted transaction had made"
                                 : "one that an aborted transaction had made",
               "one that is there", "look it up again");
    }
    if (owner_->outside_ && owner_->has_made(hold_->object)) {
        owner_->expect_inside();
    }
    return const_cast<void*>(hold_->object);
}

std::shared_ptr<const found_at> held_object::place_within(const document* key, std::uint64_t index) const {
    auto made = std::make_shared<found_at>();
    made->in = hold_;
    if (key != nullptr) {
        made->key = *key;
    }
    made->index = index;
    return made;
}

session::session(const std::string& path, const session_options& options)
    : path_(path), read_only_(options.mode == 'r'), shared_(options.heap.shared), gives_up_(options.gives_up) {
    const detail::interruptible_waits waits(gives_up_);
    manager_.emplace(open_heap(path, options));
    covers_arrays_ = !read_only_ && manager_->durability() == durability::commit;
    if (struct stat found{}; stat(path.c_str(), &found) == 0) {
        identity_ = {found.st_dev, found.st_ino};
    }
    contents_ = std::make_unique<contents>(*manager_, [this](const void* object) { return holders_.has(object); });
    levels_.emplace(*manager_, contents_->space);
    seen_version_ = manager_->version();
    prepare_root();
}

session::~session() {
    if (!closed_ && !is_child_) {
        try {
            close(true);
        } catch (const std::exception&) {  // close() says why to those who call it; here nobody listens
            closed_ = true;
        }
    }
    if (levels_ && !is_owner()) {
        levels_->leave_to_owner();
    }
}

/// Finds the root, makes it in a new heap, and frees what was held when the heap was closed last.
void session::prepare_root() {
    const auto is_made = [this] { return root_ != nullptr && root_->entries.object != nullptr; };
    root_ = manager_->find<values::root>(values::root_name).first;
    if (read_only_) {
        return;
    }
    if (is_made()) {
        if (contents_->space.object_of<values::sequence>(root_->detached)->size != 0) {
            sweep(true);
        }
        return;
    }
    if (shared_) {
        transact_scope all(*manager_);
        note_turn();
        if (!is_made()) {  // nor has another process made it meanwhile
            make_root();
            all.commit();
            note_end_of_turn();
        }
        return;
    }
    make_root();
    if (manager_->durability() == durability::commit) {
        manager_->commit();
    }
}

void session::make_root() {
    root_ = manager_->find_or_construct<values::root>(values::root_name)();
    transaction within(*manager_, detail::within_transact());
    apply(within, [this](contents& in) {
        document empty;
        empty.what = kind::dict;
        const value entries = in.build(empty);
        empty.what = kind::list;
        const value detached = in.build(empty);
        values::root& changed = in.space.change(*root_);
        changed.entries = entries;
        changed.detached = detached;
    });
}

void session::expect_open() const {
    if (closed_) {
        refuse(errc::invalid_argument, path_, "heap", "closed", "an open heap");
    }
}

void session::expect_writer() const {
    expect_open();
    if (is_child_) {
        refuse(errc::wrong_process, path_, "process", "a child of the process that opened the heap",
               "the process that opened it",
               shared_ ? "a child of fork() opens the heap for itself, with shared=True"
                       : "open the heap again, with mode='r'");
    }
    if (read_only_) {
        refuse(errc::read_only, path_, "mode", "r", "a heap that is open for writing");
    }
}

manager& session::heap() {
    expect_open();
    return *manager_;
}

manager& session::to_read() {
    expect_open();
    if (is_child_ && (shared_ || (!read_only_ && manager_->durability() != durability::commit))) {
        expect_writer();
    }
    return *manager_;
}

contents& session::reading() {
    static_cast<void>(to_read());
    return *contents_;
}

value session::entries() {
    contents& from = reading();
    if (root_ == nullptr) {
        refuse(errc::not_found, path_, values::root_name, "no such object", "a heap that Python has written");
    }
    return from.space.look(*root_).entries;
}

void session::expect_inside() const {
    if (outside_) {
        refuse(errc::invalid_argument, path_, "transaction", "one that another task of this thread has begun",
               "none, or one of this task", "`async with heap.transaction()` waits for its end");
    }
}

void session::write(const std::function<void(contents&)>& change) {
    expect_writer();
    expect_inside();
    if (in_transaction()) {
        if (levels_->is_spoiled()) {
            refuse(errc::invalid_argument, path_, "transaction", "one in which a change has failed", "its end");
        }
        try {
            change(*contents_);
        } catch (...) {
            levels_->spoil();
            throw;
        }
        return;
    }
    if (shared_) {
        write_in_turn(change);
        return;
    }
    transaction within(*manager_);
    apply(within, change);
}

void session::apply(transaction& within, const std::function<void(contents&)>& change) {
    struct ending {
        workspace& space;
        ~ending() { space.end(); }
    } const guard{contents_->space};
    contents_->space.begin(within);
    change(*contents_);
    within.commit();
}

/// Waits for the turn, until a signal says otherwise.
std::unique_ptr<transact_scope> session::take_turn() {
    const detail::interruptible_waits waits(gives_up_);
    return std::make_unique<transact_scope>(*manager_);
}

void session::write_in_turn(const std::function<void(contents&)>& change) {
    const auto turn = take_turn();
    note_turn();
    {
        transaction within(*manager_, detail::within_transact());
        apply(within, [&](contents& in) {
            sweep_in_turn(in);
            change(in);
        });
    }
    seen_version_ = 0;  // where the commit fails, nobody knows what is there
    turn->commit();
    note_end_of_turn();
}

/// This process has the turn, or had it. Where others had it since it has looked last, what it holds may be gone.
void session::note_turn() {
    if (!follows()) {
        return;
    }
    const std::uint64_t version = manager_->version();
    if (version == std::exchange(seen_version_, version)) {
        return;
    }
    ++aborts_;
    root_ = manager_->find<values::root>(values::root_name).first;
    holders_.follow(*contents_, root_ == nullptr ? nullptr : root_->entries.object.get());
}

void session::begin(std::uint64_t number, bool by_task) {
    expect_writer();
    expect_inside();
    if (in_transaction()) {
        if (levels_->is_spoiled()) {
            refuse(errc::invalid_argument, path_, "transaction", "one in which a change has failed", "its end");
        }
        levels_->begin(number, by_task, covers_arrays_);
        number_ = number;
        by_task_ = by_task;
        return;
    }
    if (covers_arrays_ && !shared_) {
        sweep_if_needed();  // not at the end, where its failure would be told of a transaction that is durable
    }
    mutex_->lock();
    try {
        if (shared_) {
            auto turn = take_turn();
            note_turn();
            levels_->begin_in(std::move(turn), number, by_task);
            sweep_in_turn(*contents_);
        } else {
            levels_->begin(number, by_task, covers_arrays_);
        }
    } catch (...) {
        if (levels_->any()) {
            levels_->abort();
            levels_->leave();
        }
        mutex_->unlock();
        throw;
    }
    owner_ = std::this_thread::get_id();
    by_task_ = by_task;
    number_ = number;
}

/// Those who hold what the transaction has made learn that it is gone.
void session::abort_level() {
    levels_->for_each_made([this](const void* made) { holders_.forget(made); });
    ++aborts_;
    levels_->abort();
    if (shared_ && !levels_->is_inner()) {
        holders_.note_let_go();  // what it has swept is there again
    }
}

void session::leave_level() noexcept {
    levels_->leave();
    number_ = levels_->number();
    by_task_ = levels_->by_task();
    if (!levels_->any()) {
        owner_ = std::thread::id{};
        mutex_->unlock();
    }
}

/// Where it throws, the heap is as at the begin.
ticket session::end(std::uint64_t number, bool commit, bool durable) {
    expect_writer();
    if (!is_owner() || !levels_->has(number)) {
        refuse(errc::invalid_argument, path_, "transaction", "none of that number that this thread has begun",
               "the thread that began it");
    }
    struct ending {
        session& of;
        ~ending() { of.leave_level(); }
    };
    bool left_open = false;
    while (levels_->number() != number) {
        const ending guard{*this};
        abort_level();
        left_open = true;
    }
    const bool spoiled = levels_->is_spoiled();
    const bool is_outermost = !levels_->is_inner();
    ticket done;
    {
        const ending guard{*this};
        if (!commit || spoiled || left_open) {
            abort_level();
        } else {
            try {
                seen_version_ = is_outermost ? 0 : seen_version_;  // where it fails, nobody knows what is there
                done = levels_->commit(durable);
                if (is_outermost) {
                    note_end_of_turn();
                }
            } catch (...) {
                abort_level();
                throw;
            }
        }
    }
    if (commit && (spoiled || left_open)) {
        refuse(errc::invalid_argument, path_, "transaction",
               spoiled ? "one in which a change has failed" : "one within it that is open",
               spoiled ? "changes that succeed" : "their end before it", "all of it was taken back");
    }
    return done;
}

void session::pin(const void* begin, std::size_t bytes) {
    expect_writer();
    manager_->pin(begin, bytes);
}

void session::unpin(const void* begin, std::size_t bytes) {
    expect_writer();
    manager_->unpin(begin, bytes);
}

void session::commit() {
    expect_writer();
    expect_no_transaction("commit");
    sweep_if_needed();
    manager_->commit();
    note_turn();
}

void session::expect_no_transaction(const char* call) const {
    if (in_transaction()) {
        refuse(errc::invalid_argument, path_, call, "an open transaction", "none");
    }
}

ticket session::commit_later() {
    expect_writer();
    expect_no_transaction("commit_later");
    sweep_if_needed();
    const ticket made = manager_->commit_later();
    note_turn();
    return made;
}

/// Runs the call, which is not under the lock. close() waits for its end.
template <class Call>
auto session::while_open(Call&& call) {
    {
        const std::lock_guard guard(*mutex_);
        expect_open();
        if (is_child_ && !read_only_) {
            expect_writer();
        }
        const std::lock_guard count(waiting_mutex_);
        ++waiting_;
    }
    struct ending {
        session& of;
        ~ending() {
            const std::lock_guard count(of.waiting_mutex_);
            --of.waiting_;
            of.nobody_waits_.notify_all();
        }
    } const guard{*this};
    return call();
}

void session::sync(const ticket& of) {
    try {
        while_open([&] { manager_->sync(of); });
    } catch (const error&) {
        if (!all_is_durable_) {
            throw;
        }
    }
}

std::vector<std::string> session::check(bool pages) {
    std::vector<std::string> found = to_read().check(pages);
    note_turn();
    return found;
}

shrink_report session::shrink(std::uint64_t target) {
    expect_writer();
    expect_no_transaction("shrink");
    sweep_if_needed();
    const shrink_report done = manager_->shrink({.target = target, .progress = {}});
    note_turn();
    return done;
}

void session::snapshot(const std::string& destination) {
    if (!read_only_) {
        expect_writer();
        expect_no_transaction("snapshot");
        sweep_if_needed();
    }
    heap().snapshot(destination);
    note_turn();
}

std::uint64_t session::refresh() {
    expect_open();
    if (is_child_) {
        expect_writer();
    }
    if (shared_) {
        expect_no_transaction("refresh");
    } else {
        let_waiting_threads_end();
    }
    const detail::interruptible_waits waits(gives_up_);
    const std::uint64_t version = manager_->refresh().version;
    note_turn();
    return version;
}

std::uint64_t session::version() { return to_read().version(); }

bool session::wait_for_change(std::chrono::milliseconds longest) {
    return while_open([&] { return manager_->wait_for_change(longest); });
}

void session::sweep_if_needed() {
    if (!holders_.take_let_go()) {
        return;
    }
    if (contents_->space.object_of<values::sequence>(root_->detached)->size != 0) {
        sweep(false);
    }
}

/// In the transaction that is open, of a heap that processes share. What others hold of it is gone for them.
void session::sweep_in_turn(contents& within) {
    if (root_ != nullptr && holders_.take_let_go() &&
        within.space.look(*within.space.object_of<values::sequence>(root_->detached)).size != 0) {
        within.sweep(*root_, false);
    }
}

/// In one transaction; or in many, where the domain allows one of them only some blocks.
void session::sweep(bool all) {
    try {
        write([this, all](contents& within) { within.sweep(*root_, all); });
        return;
    } catch (const error& failure) {
        if (failure.reason() != errc::limit) {
            throw;
        }
    }
    std::unordered_set<const void*> free;
    for (bool is_done = false; !is_done;) {
        write([&](contents& within) { is_done = within.sweep_some(*root_, all, free); });
    }
}

void session::close(bool commit) {
    if (closed_) {
        return;
    }
    if (is_child_) {
        closed_ = true;
        return;
    }
    expect_no_transaction("close");
    if (!read_only_ && commit && !shared_) {  // of a shared heap all is durable that is to be kept
        sweep_if_needed();
        if (manager_->durability() == durability::commit) {
            manager_->commit();
        }
    }
    all_is_durable_ = !read_only_ && (commit || shared_ || manager_->durability() != durability::commit);
    std::vector<std::string> in_use = find_arrays_in_use();
    bool unmaps = false;
    holders_.locked([&](std::uint64_t arrays) {  // another thread may let go of the last array: one of them unmaps
        closed_ = true;
        unmaps = arrays == 0;
        arrays_in_use_ = std::move(in_use);
    });
    if (unmaps) {
        unmap();
    }
}

/// What was not committed before is lost in durability `commit`: arrays that were written after close().
/// In wait_for_change(), which new ones cannot enter while this thread has the lock.
void session::let_waiting_threads_end() {
    std::unique_lock guard(waiting_mutex_);
    nobody_waits_.wait(guard, [this] { return waiting_ == 0; });
}

void session::unmap() {
    let_waiting_threads_end();
    manager_->close(false);
}

std::uint64_t session::arrays_held() const { return holders_.arrays(); }

std::vector<std::string> session::arrays_in_use() const {
    std::vector<std::string> found;
    holders_.locked([&](std::uint64_t arrays) {
        if (arrays != 0) {
            found = arrays_in_use_;
        }
    });
    return found;
}

/// Where the arrays lie that Python holds; those that were removed from the heap have no place.
std::vector<std::string> session::find_arrays_in_use() {
    const std::vector<const void*> held = holders_.held_arrays();
    std::unordered_set<const void*> wanted(held.begin(), held.end());
    if (wanted.empty() || root_ == nullptr) {
        return {};
    }
    const std::size_t count = wanted.size();
    std::vector<std::string> found;
    try {
        found = find_places(*contents_, root_->entries, std::move(wanted));
    } catch (const error&) {  // the heap is damaged; those who read it learn of it
    }
    if (found.size() < count) {
        found.push_back(std::to_string(count - found.size()) + " that the heap has no more");
    }
    return found;
}

void session::forget_parent() {
    static_cast<void>(mutex_.release());  // its state is that of a thread of the parent
    mutex_ = std::make_unique<session_mutex>();
    is_child_ = true;
    if (in_transaction()) {
        contents_->space.end();
        number_ = 0;
        owner_ = std::thread::id{};
    }
}

void session::let_go(const std::shared_ptr<hold>& of) noexcept {
    if (holders_.let_go(of, closed_) && !is_child_) {
        try {
            unmap();
        } catch (const std::exception&) {  // nothing of it was to be kept
        }
    }
}

}  // namespace holdfast::python
