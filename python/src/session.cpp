// session: opening, transactions, holders, closing.
#include "session.hpp"

#include <sys/stat.h>

#include <unordered_set>
#include <utility>

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

held_object::held_object(std::shared_ptr<session> of, void* object, kind what)
    : owner_(std::move(of)), hold_(owner_->hold_object(object, what == kind::array)), what_(what) {}

held_object::~held_object() { owner_->let_go(hold_); }

void* held_object::object() const {
    if (hold_->is_gone) {
        refuse(errc::not_found, owner_->path(), "object",
               "one that an aborted transaction had made, or of before a refresh()", "one that is there",
               "look it up again");
    }
    if (owner_->outside_ && owner_->has_made(hold_->object)) {
        owner_->expect_inside();
    }
    return const_cast<void*>(hold_->object);
}

session::session(const std::string& path, const session_options& options)
    : path_(path), read_only_(options.mode == 'r') {
    manager_.emplace(open_heap(path, options));
    covers_arrays_ = !read_only_ && manager_->durability() == durability::commit;
    if (struct stat found{}; stat(path.c_str(), &found) == 0) {
        identity_ = {found.st_dev, found.st_ino};
    }
    contents_ = std::make_unique<contents>(*manager_, [this](const void* object) { return is_held(object); });
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
    if (all_ != nullptr && !is_owner()) {
        static_cast<void>(all_.release());  // only the thread that began it may end it, and that takes it back
    }
}

/// Finds the root, makes it in a new heap, and frees what was held when the heap was closed last.
void session::prepare_root() {
    root_ = manager_->find<values::root>(values::root_name).first;
    if (read_only_ || (root_ != nullptr && root_->entries.object != nullptr)) {
        if (!read_only_ && contents_->space.object_of<values::sequence>(root_->detached)->size != 0) {
            sweep(true);
        }
        return;
    }
    root_ = manager_->find_or_construct<values::root>(values::root_name)();
    write([this](contents& within) {
        document empty;
        empty.what = kind::dict;
        const value entries = within.build(empty);
        empty.what = kind::list;
        const value detached = within.build(empty);
        values::root& changed = within.space.change(*root_);
        changed.entries = entries;
        changed.detached = detached;
    });
    if (manager_->durability() == durability::commit) {
        manager_->commit();
    }
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
               "the process that opened it", "open the heap again, with mode='r'");
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
    if (is_child_ && !read_only_ && manager_->durability() != durability::commit) {
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
    if (transaction_) {
        if (spoiled_) {
            refuse(errc::invalid_argument, path_, "transaction", "one in which a change has failed", "its end");
        }
        try {
            change(*contents_);
        } catch (...) {
            spoiled_ = true;
            throw;
        }
        return;
    }
    transaction within(*manager_);
    struct ending {
        workspace& space;
        ~ending() { space.end(); }
    } const guard{contents_->space};
    contents_->space.begin(within);
    change(*contents_);
    within.commit();
}

void session::begin(std::uint64_t number, bool by_task) {
    expect_writer();
    expect_inside();
    if (transaction_) {
        refuse(errc::invalid_argument, path_, "transaction", "one that this thread has begun", "none");
    }
    if (covers_arrays_) {
        sweep_if_needed();  // not at the end, where its failure would be told of a transaction that is durable
    }
    mutex_->lock();
    try {
        if (covers_arrays_) {
            all_ = std::make_unique<transact_scope>(*manager_);
            transaction_.emplace(*manager_, detail::within_transact());
        } else {
            transaction_.emplace(*manager_);
        }
    } catch (...) {
        all_.reset();
        mutex_->unlock();
        throw;
    }
    contents_->space.begin(*transaction_);
    owner_ = std::this_thread::get_id();
    by_task_ = by_task;
    number_ = number;
    spoiled_ = false;
}

/// Those who hold what the transaction has made learn that it is gone.
void session::forget_made() {
    const std::lock_guard guard(holds_mutex_);
    contents_->space.made().for_each([this](const void* made, std::size_t) {
        if (const auto found = holds_.find(made); found != holds_.end()) {
            found->second->is_gone = true;
            holds_.erase(found);
        }
    });
    ++aborts_;
}

void session::abort() {
    forget_made();
    transaction_->abort();
    all_.reset();
}

/// Where it throws, the heap is as at the begin.
void session::commit_transaction(bool durable) {
    try {
        transaction_->commit();
        if (all_ == nullptr) {
            return;
        }
        if (durable) {
            all_->commit();
        } else {
            static_cast<void>(all_->commit_later());
        }
        all_.reset();
    } catch (...) {
        abort();
        throw;
    }
}

void session::end(bool commit, bool durable) {
    expect_writer();
    if (!is_owner()) {
        refuse(errc::invalid_argument, path_, "transaction", "none that this thread has begun",
               "the thread that began it");
    }
    struct ending {
        session& of;
        ~ending() {
            of.contents_->space.end();
            of.transaction_.reset();
            of.all_.reset();
            of.number_ = 0;
            of.by_task_ = false;
            of.owner_ = std::thread::id{};
            of.mutex_->unlock();
        }
    };
    const bool spoiled = std::exchange(spoiled_, false);
    {
        const ending guard{*this};
        if (!commit || spoiled) {
            abort();
        } else {
            commit_transaction(durable);
        }
    }
    if (commit && spoiled) {
        refuse(errc::invalid_argument, path_, "transaction", "one in which a change has failed", "changes that succeed",
               "all of it was taken back");
    }
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
    if (transaction_) {
        refuse(errc::invalid_argument, path_, "commit", "an open transaction", "none");
    }
    sweep_if_needed();
    manager_->commit();
}

shrink_report session::shrink(std::uint64_t target) {
    expect_writer();
    if (transaction_) {
        refuse(errc::invalid_argument, path_, "shrink", "an open transaction", "none");
    }
    sweep_if_needed();
    return manager_->shrink({.target = target, .progress = {}});
}

void session::snapshot(const std::string& destination) {
    if (!read_only_) {
        expect_writer();
        if (transaction_) {
            refuse(errc::invalid_argument, path_, "snapshot", "an open transaction", "none");
        }
        sweep_if_needed();
    }
    heap().snapshot(destination);
}

std::uint64_t session::refresh() {
    expect_open();
    if (is_child_) {
        expect_writer();
    }
    let_waiting_threads_end();
    const refresh_report done = manager_->refresh();
    if (done.commits != 0) {
        const std::lock_guard guard(holds_mutex_);
        std::erase_if(holds_, [](const auto& held) {
            held.second->is_gone = !held.second->is_array;
            return held.second->is_gone;
        });
        ++aborts_;
        root_ = manager_->find<values::root>(values::root_name).first;
    }
    return done.version;
}

std::uint64_t session::version() { return to_read().version(); }

bool session::wait_for_change(std::chrono::milliseconds longest) {
    {
        const std::lock_guard guard(*mutex_);
        expect_open();
        const std::lock_guard count(waiting_mutex_);
        ++waiting_;
    }
    const bool is_there = manager_->wait_for_change(longest);
    const std::lock_guard count(waiting_mutex_);
    --waiting_;
    nobody_waits_.notify_all();
    return is_there;
}

void session::sweep_if_needed() {
    {
        const std::lock_guard guard(holds_mutex_);
        if (!was_let_go_) {
            return;
        }
        was_let_go_ = false;
    }
    if (contents_->space.object_of<values::sequence>(root_->detached)->size != 0) {
        sweep(false);
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
    if (transaction_) {
        refuse(errc::invalid_argument, path_, "close", "an open transaction", "none");
    }
    if (!read_only_ && commit) {
        sweep_if_needed();
        if (manager_->durability() == durability::commit) {
            manager_->commit();
        }
    }
    std::vector<std::string> in_use = find_arrays_in_use();
    bool unmaps = false;
    {
        const std::lock_guard guard(holds_mutex_);  // another thread may let go of the last array: one of them unmaps
        closed_ = true;
        unmaps = arrays_held_ == 0;
        arrays_in_use_ = std::move(in_use);
    }
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

std::uint64_t session::arrays_held() const {
    const std::lock_guard guard(holds_mutex_);
    return arrays_held_;
}

std::vector<std::string> session::arrays_in_use() const {
    const std::lock_guard guard(holds_mutex_);
    return arrays_held_ == 0 ? std::vector<std::string>() : arrays_in_use_;
}

/// Where the arrays lie that Python holds; those that were removed from the heap have no place.
std::vector<std::string> session::find_arrays_in_use() {
    std::unordered_set<const void*> wanted;
    {
        const std::lock_guard guard(holds_mutex_);
        for (const auto& [object, held] : holds_) {
            if (held->is_array) {
                wanted.insert(object);
            }
        }
    }
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
    mutex_ = std::make_unique<std::recursive_mutex>();
    is_child_ = true;
    if (transaction_) {
        contents_->space.end();
        number_ = 0;
        owner_ = std::thread::id{};
    }
}

std::shared_ptr<hold> session::hold_object(void* object, bool is_array) {
    const std::lock_guard guard(holds_mutex_);
    std::shared_ptr<hold>& found = holds_[object];
    if (found == nullptr) {
        found = std::make_shared<hold>();
        found->object = object;
        found->is_array = is_array;
    }
    ++found->holders;
    arrays_held_ += is_array ? 1 : 0;
    return found;
}

void session::let_go(const std::shared_ptr<hold>& of) noexcept {
    bool last_of_closed = false;
    {
        const std::lock_guard guard(holds_mutex_);
        --of->holders;
        if (of->holders == 0) {
            if (!of->is_gone) {
                holds_.erase(of->object);
            }
            was_let_go_ = true;
        }
        if (of->is_array) {
            --arrays_held_;
            last_of_closed = arrays_held_ == 0 && closed_ && !is_child_;
        }
    }
    if (last_of_closed) {
        try {
            unmap();
        } catch (const std::exception&) {  // nothing of it was to be kept
        }
    }
}

bool session::is_held(const void* object) const {
    const std::lock_guard guard(holds_mutex_);
    return holds_.contains(object);
}

}  // namespace holdfast::python
