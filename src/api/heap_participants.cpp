#include "api/heap_participants.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "api/transaction_core.hpp"
#include "persist/descriptor.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::detail {

using base::failure;
using base::failure_code;

// --- of heaps ---

std::shared_ptr<heap_participant> heap_participants::find_or_make(const std::string& name, manager_core& heap,
                                                                  const participant_access::maker& make) {
    const base::scoped_lock lock(mutex_);
    const auto found = participants_.find(name);
    if (found != participants_.end()) {
        return found->second;
    }
    std::shared_ptr<heap_participant> made = make(heap);
    participants_.emplace(name, made);
    return made;
}

bool heap_participants::remove(const std::string& name, const std::function<void()>& removal) {
    const base::scoped_lock lock(mutex_);
    if (const auto found = participants_.find(name); found != participants_.end()) {
        if (found->second.use_count() > 1 || found->second->is_in_use()) {
            return false;
        }
        found->second->leave();
        participants_.erase(found);
    }
    removal();
    return true;
}

base::result<void> heap_participants::before_commit(const std::string& path) {
    const base::scoped_lock lock(mutex_);
    return prepare_commit(participants_, path);
}

base::result<void> prepare_commit(const heap_participants::named_participants& participants, const std::string& path) {
    for (const auto& [name, participant] : participants) {
        if (const char* const problem = participant->before_commit(); problem != nullptr) {
            return failure{failure_code::poisoned, path, fmt::format("store {}", name), problem, "a sync", {}, 0};
        }
    }
    return {};
}

std::optional<heap_participants::named_participants> heap_participants::try_all() {
    if (!mutex_.try_lock()) {
        return std::nullopt;
    }
    const std::unique_lock lock(mutex_, std::adopt_lock);
    return participants_;
}

void heap_participants::leave() noexcept {
    const base::scoped_lock lock(mutex_);
    for (const auto& each : participants_) {
        each.second->leave();
    }
    participants_.clear();
}

bool heap_participants::forget_unused() {
    const base::scoped_lock lock(mutex_);
    for (const auto& each : participants_) {
        if (each.second->is_in_use()) {
            return false;
        }
    }
    for (const auto& each : participants_) {
        each.second->leave();
    }
    participants_.clear();
    return true;
}

std::shared_ptr<heap_participant> participant_access::find_or_make(manager& heap, const std::string& name,
                                                                   const maker& make) {
    manager_core& core = manager_access::core(heap);
    if (core.is_shared()) {
        throw_failure({base::failure_code::unsupported, core.path(), "open a store",
                       "a heap that processes share by turns", "one that this process has alone",
                       "a store's files have no versions", 0});
    }
    if (core.engine().read_only()) {
        // A store's files have no versions.
        value_or_throw(core.engine().files().readers().keep_writers_out());
    }
    if (!core.engine().read_only()) {
        value_or_throw(core.engine().files().location().check_process());
    }
    core.plain().refuse_inside("open a store");
    return core.participants().find_or_make(name, core, make);
}

bool participant_access::remove(manager& heap, const std::string& name, const std::function<void()>& removal) {
    manager_core& core = manager_access::core(heap);
    if (core.engine().read_only()) {
        throw_read_only(core.engine(), "remove a store");
    }
    value_or_throw(core.engine().check_process());
    core.plain().refuse_inside("remove a store");
    core.sync_pending();  // what commit_later() left may store into what the removal frees
    return core.participants().remove(name, removal);
}

std::uint64_t participant_access::unused_file(manager& heap) {
    segment::heap_files& files = manager_access::core(heap).engine().files();
    std::uint64_t number = 0;
    for (const std::string& name : value_or_throw(files.storage().list(files.paths().directory()))) {
        if (const auto used = segment::store_number(name)) {
            number = std::max(number, *used + 1);
        }
    }
    return number;
}

participant_access::opened_file participant_access::open_file(manager& heap, std::uint64_t number, bool make) {
    heap::engine& engine = manager_access::core(heap).engine();
    segment::heap_files& files = engine.files();
    const std::string path = segment::store_path(files.paths(), number);
    persist::storage& storage = files.storage();
    const auto mode = engine.read_only() ? persist::access_mode::read_only : persist::access_mode::read_write;
    const auto file = value_or_throw(make ? storage.create(path, "store.create") : storage.open(path, mode));
    if (make) {
        value_or_throw(storage.sync_directory(files.paths().directory(), "store.sync_name"));
    }
    persist::descriptor own(::fcntl(file->native_handle(), F_DUPFD_CLOEXEC, 0));
    if (!own.valid()) {
        throw_failure(base::os_failure(errno, "dup", path));
    }
    std::string link = fmt::format("/proc/self/fd/{}", own.get());
    std::string shown = ::access(link.c_str(), F_OK) == 0 ? std::move(link) : path;
    return {own.release(), std::move(shown)};
}

namespace {

/// A file that stays takes space, and nothing leads to it.
void remove_store_file(segment::heap_files& of, std::uint64_t number) noexcept {
    try {
        static_cast<void>(of.storage().remove(segment::store_path(of.paths(), number), "store.remove").ok());
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace

void participant_access::remove_file(manager& heap, std::uint64_t number) noexcept {
    remove_store_file(manager_access::core(heap).engine().files(), number);
}

void heap_participants::remove_going_files(segment::heap_files& of) noexcept {
    for (const std::uint64_t number : going_files_) {
        remove_store_file(of, number);
    }
    going_files_.clear();
}

void participant_access::remove_named_file(manager& heap, std::uint64_t number) {
    manager_core& core = manager_access::core(heap);
    if (core.engine().durability() == heap::durability_kind::commit) {
        core.participants().going_files().push_back(number);
    } else {
        remove_file(heap, number);
    }
}

void participant_access::remove_unnamed_files(manager& heap, const std::vector<std::uint64_t>& named) {
    manager_core& core = manager_access::core(heap);
    if (core.engine().read_only() || !core.participants().begins()) {
        return;
    }
    segment::heap_files& files = core.engine().files();
    for (const std::string& name : value_or_throw(files.storage().list(files.paths().directory()))) {
        const auto number = segment::store_number(name);
        if (number && std::ranges::find(named, *number) == named.end()) {
            remove_store_file(files, *number);
        }
    }
}

transaction_end participant_access::set_word(manager_core& heap, std::uint64_t& word, std::uint64_t value,
                                             int& error) noexcept {
    error = 0;
    if (heap.plain().is_mine()) {  // an abort of it could not take the store back
        error = EBUSY;
        return transaction_end::dropped;
    }
    try {
        transaction_core one;
        one.begin(heap);
        try {
            one.store(&word, value);
            one.commit();
        } catch (...) {
            one.end();
            throw;
        }
        one.end();
        return transaction_end::carried_out;
    } catch (const holdfast::error& what) {
        error = what.reason() == errc::no_space ? ENOSPC : EIO;
    } catch (const std::bad_alloc&) {
        error = ENOMEM;
    } catch (const std::exception&) {
        error = EIO;
    }
    return heap.is_open() && !heap.engine().check_health() ? transaction_end::unknown : transaction_end::dropped;
}

namespace {

/// Of a thread without a cache.
char change_without_cache;

}  // namespace

void* participant_access::begin_change(manager_core& heap) noexcept {
    slab::change_gate* const changes = heap.is_open() ? heap.engine().changes() : nullptr;
    if (changes == nullptr) {
        return nullptr;
    }
    slab::thread_cache* const entered = changes->enter();
    return entered == nullptr ? static_cast<void*>(&change_without_cache) : entered;
}

void participant_access::end_change(manager_core& heap, void* begun) noexcept {
    if (begun != nullptr && heap.is_open()) {
        heap.engine().changes()->leave_anywhere(
            begun == &change_without_cache ? nullptr : static_cast<slab::thread_cache*>(begun));
    }
}

// In durability `atomic` the records of the transaction are durable: on a disk this would be a sync more.
void participant_access::persist(manager_core& heap, const void* begin, std::uint64_t bytes) noexcept {
    if (heap.is_open() && heap.engine().durability() == heap::durability_kind::collect) {
        heap.engine().persist(begin, bytes);
    }
}

// --- of transactions ---

transaction_participants& transaction_access::participants(transaction_core& of) {
    plain_transactions& plain = of.heap().plain();
    const unsigned part = plain.part();
    if (!of.inner_.empty() || part != of.part_) {
        throw_failure(failure{failure_code::invalid_argument,
                              of.heap().path(),
                              "transaction",
                              "one within another one, or around one",
                              part == 0 ? "a transaction by itself" : "that of the innermost transact()",
                              {},
                              0});
    }
    return part == 0 ? of.participants_ : plain.participants();
}

void transaction_access::commit_with_participants(transaction_core& of, transaction& self) {
    if (of.heap().plain().is_mine()) {  // an abort of it could not take the participants back
        throw_failure(failure{failure_code::invalid_argument,
                              of.heap().path(),
                              "transaction",
                              "one around transact(), with a store's part",
                              "a commit before it or behind it",
                              {},
                              0});
    }
    of.participants_.prepare([&](std::uint64_t& word, std::uint64_t value) { self.store(word, value); });
    try {
        of.commit();
    } catch (...) {
        const bool unknown = of.is_alive() && !of.heap_->engine().check_health();
        of.participants_.note(unknown ? transaction_end::unknown : transaction_end::dropped);
        throw;
    }
    of.participants_.note(transaction_end::carried_out);
}

std::shared_ptr<transaction_participant> participant_access::find(const transaction& in, const void* key) {
    transaction_core& core = transaction_access::core(in);
    return transaction_access::participants(core).find(key, transaction_access::part(core));
}

std::shared_ptr<transaction_participant> participant_access::find_around(const transaction& in, const void* key) {
    return transaction_access::participants(transaction_access::core(in)).find_around(key);
}

void participant_access::add(const transaction& in, const void* key,
                             std::shared_ptr<transaction_participant> participant) {
    transaction_core& core = transaction_access::core(in);
    transaction_access::participants(core).add(key, transaction_access::part(core), std::move(participant));
}

bool participant_access::belongs_to(const transaction& one, const manager_core& heap) {
    return transaction_access::is_of(transaction_access::core(one), heap);
}

}  // namespace holdfast::detail
