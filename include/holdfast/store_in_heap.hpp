// holdfast::heap_store: a store that lies in a heap, and whose changes count together with other changes of the heap.
//
//     holdfast::heap_store shop(heap, "shop");
//     heap.transact([&](holdfast::transaction& tx) {
//         tx.open(account).balance -= 10;
//         shop.write(tx).put("sold", "1");
//     });                                      // both are there, or neither
//
// Views, and transactions of the store alone, are as in holdfast::store. A commit promises what the heap's durability
// does: in `atomic` it survives a crash when it has returned. In `commit` what transact() does to heap and stores is
// durable when it has returned; all else is with the heap's next commit or transact(), to which a crash leads store and
// heap back, and which waits for write transactions of other threads, two seconds at most. The store's file lies
// in the heap's directory; snapshots and copies have it, and only the heap's writer has it open. Programs link the
// libraries holdfast and lmdb.
//
// The heap's named object holdfast.store.NAME, which programs must not change, says what of the store counts.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_participants.hpp>
#include <holdfast/detail/store_in_heap.h>
#include <holdfast/manager.hpp>
#include <holdfast/store.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast {

namespace detail {

struct store_place {
    store_place(std::uint64_t of_file, const std::array<std::uint64_t, 2>& of_store)
        : file(of_file), identity{of_store[0], of_store[1]} {}
    std::uint64_t accepted = 0;  ///< the last commit of the store that counts
    std::uint64_t file;
    std::uint64_t identity[2];
};

[[nodiscard]] inline std::string store_object(const std::string& name) { return "holdfast.store." + name; }

[[nodiscard]] inline std::map<std::string, const store_place*> store_places(const manager& heap) {
    const std::string prefix = store_object({});
    std::map<std::string, const store_place*> places;
    for (auto each = heap.named_begin(); each != heap.named_end(); ++each) {
        if (each->name().starts_with(prefix) && each->is_type<store_place>()) {
            places.emplace(each->name().substr(prefix.size()), static_cast<const store_place*>(each->value()));
        }
    }
    return places;
}

/// Does nothing where an object of such a name has another type: it may lead to a file, too.
inline void remove_unnamed_store_files(manager& heap) {
    std::vector<std::uint64_t> named;
    for (const auto& [name, place] : store_places(heap)) {
        named.push_back(place->file);
    }
    const std::string prefix = store_object({});
    const auto leads_to_a_store = [&](const object_info& one) { return one.name().starts_with(prefix); };
    if (std::count_if(heap.named_begin(), heap.named_end(), leads_to_a_store) != std::ssize(named)) {
        return;
    }
    participant_access::remove_unnamed_files(heap, named);
}

class hosted_store : public heap_participant {
public:
    hosted_store(manager& heap, manager_core& core, const std::string& name, const store_options& options)
        : core_(core), read_only_(heap.read_only()), env_(store_detail::make_environment(options)) {
        place_ = heap.find<store_place>(store_object(name)).first;
        if (place_ != nullptr) {
            open(heap, place_->file, {place_->identity[0], place_->identity[1]}, false);
        } else if (read_only_) {
            throw store_error(ENOENT);
        } else {
            make(heap, name);
        }
    }
    [[nodiscard]] const std::shared_ptr<MDB_env>& env() const noexcept { return env_; }
    [[nodiscard]] manager_core& core() const noexcept { return core_; }
    [[nodiscard]] std::uint64_t& word() const noexcept { return place_->accepted; }
    /// As durable as the heap's transaction that has stored the word.
    void persist_word() const noexcept {
        participant_access::persist(core_, &place_->accepted, sizeof(place_->accepted));
    }

    bool try_hold_writers() noexcept override { return hf_lmdb_try_hold_writers(env_.get()) != EBUSY; }
    void release_writers() noexcept override { hf_lmdb_release_writers(env_.get()); }
    const char* before_commit() noexcept override {
        const int outcome = read_only_ ? MDB_SUCCESS : hf_lmdb_before_heap_commit(env_.get());
        return outcome == MDB_SUCCESS ? nullptr : mdb_strerror(outcome);
    }
    void after_commit() noexcept override { hf_lmdb_after_heap_commit(env_.get()); }
    void commit_failed() noexcept override { hf_lmdb_heap_commit_failed(env_.get()); }
    [[nodiscard]] bool is_in_use() const noexcept override { return env_.use_count() > 1; }
    void leave() noexcept override {
        left_.store(true);
        hf_lmdb_leave_heap(env_.get());
    }

private:
    using identity = std::array<std::uint64_t, 2>;

    void make(manager& heap, const std::string& name) {
        identity own{};
        if (::getrandom(own.data(), sizeof(own), 0) != static_cast<ssize_t>(sizeof(own))) {
            throw store_error(errno);
        }
        remove_unnamed_store_files(heap);
        const std::uint64_t number = participant_access::unused_file(heap);
        try {
            open(heap, number, own, true);
            place_ = heap.construct<store_place>(store_object(name))(number, own);
        } catch (...) {
            env_.reset();
            participant_access::remove_file(heap, number);
            throw;
        }
    }
    void open(manager& heap, std::uint64_t number, const identity& own, bool is_new) {
        const std::string domain = heap.domain();
        const bool in_memory = heap.durability() == durability::commit;
        const bool without_sync = in_memory || domain == "page-cache";
        if (domain == "emulated") {
            store_detail::check(hf_lmdb_emulate_persistent_memory(env_.get()));
        }
        hf_lmdb_heap place{};
        place.accepted = is_new ? 0 : place_->accepted;
        std::memcpy(place.identity, own.data(), sizeof(place.identity));
        place.keeps_at_once = in_memory ? 0 : 1;
        place.accept = accept;
        place.context = this;
        const participant_access::opened_file file = participant_access::open_file(heap, number, is_new);
        const unsigned flags = (read_only_ ? unsigned{MDB_RDONLY} : 0U) | (without_sync ? unsigned{MDB_NOSYNC} : 0U);
        const int outcome = hf_lmdb_open_in_heap(env_.get(), file.path.c_str(), flags, 0664, &place);
        ::close(file.descriptor);
        store_detail::check(outcome);
        hf_lmdb_announce_writers(env_.get(), begin_write, end_write, this);
    }
    static void* begin_write(void* context) {
        const auto& self = *static_cast<const hosted_store*>(context);
        return self.left_.load() ? nullptr : participant_access::begin_change(self.core_);
    }
    static void end_write(void* context, void* begun) {
        const auto& self = *static_cast<const hosted_store*>(context);
        if (!self.left_.load()) {
            participant_access::end_change(self.core_, begun);
        }
    }
    static int accept(void* context, std::uint64_t commit) {
        const auto& self = *static_cast<const hosted_store*>(context);
        if (self.left_.load()) {
            return EINVAL;
        }
        int error = 0;
        switch (participant_access::set_word(self.core_, self.word(), commit, error)) {
            case transaction_end::carried_out: self.persist_word(); return MDB_SUCCESS;
            case transaction_end::dropped: return error;
            case transaction_end::unknown: return MDB_PANIC;
        }
        return MDB_PANIC;
    }

    manager_core& core_;
    bool read_only_;
    std::atomic<bool> left_{false};
    std::shared_ptr<MDB_env> env_;
    store_place* place_ = nullptr;
};

class joint_changes : public transaction_participant, public store_changes {
public:
    /// `around`: of the part around this one, or null.
    explicit joint_changes(std::shared_ptr<hosted_store> host, const joint_changes* around = nullptr)
        : store_changes(host->env().get(), around == nullptr ? nullptr : around->transaction_.get()),
          host_(std::move(host)) {}
    [[nodiscard]] word prepare() override {
        std::uint64_t commit = 0;
        store_detail::check(hf_lmdb_prepare(transaction_.get(), &commit));
        prepared_ = commit != 0;
        return prepared_ ? word{&host_->word(), commit} : word{};
    }
    void join() override {
        writes_.reset();
        store_detail::check(mdb_txn_commit(transaction_.release()));
    }
    void accept() noexcept override {
        if (prepared_) {
            hf_lmdb_accept_prepared(transaction_.get());
        }
    }
    void end(transaction_end how) noexcept override {
        writes_.reset();  // cursors of ranges end with it
        if (prepared_) {
            if (how == transaction_end::carried_out) {
                host_->persist_word();
            }
            // A failure is known to the store, which takes no further changes then.
            static_cast<void>(hf_lmdb_end_prepared(transaction_.get(), how == transaction_end::carried_out ? MDB_SUCCESS
                                                                       : how == transaction_end::unknown   ? MDB_PANIC
                                                                                                         : ECANCELED));
        }
        transaction_.reset();
    }

private:
    std::shared_ptr<hosted_store> host_;
    bool prepared_ = false;
};

}  // namespace detail

/// Several may be open for one store; the options of the first count, of which `durable`, `read_only` and `mode` follow
/// from the heap. Views end before the heap is closed. Thread safety: as holdfast::store.
class heap_store : public store {
public:
    /// Opens or makes the store. Throws error of the heap, and store_error: ENOENT where there is none in a heap that
    /// is open read-only, MDB_CORRUPTED where it lacks what the heap has accepted.
    heap_store(manager& heap, const std::string& name, const store_options& options = {})
        : heap_store(std::static_pointer_cast<detail::hosted_store>(
              detail::participant_access::find_or_make(heap, name, [&](detail::manager_core& core) {
                  return std::make_shared<detail::hosted_store>(heap, core, name, options);
              }))) {}

    using store::write;
    /// Changes of the store that count if and only if the heap's transaction does, are as durable when it returns, and
    /// end with it, in durability `commit` with its transact(); one object for each transaction. Those of a transact()
    /// within another one see what that one has changed, which waits meanwhile, and are dropped with it alone. From the
    /// first call on other writers of the store wait, as it has for them: threads that write several stores in a
    /// transaction must all begin with the same one. Where the store has no space, or no memory, the transaction throws
    /// store_error at its end, and nothing of it is left. Throws store_error(EINVAL) for a transaction of another heap,
    /// and error(invalid_argument) for one within another one and for that of a transact() around another one.
    [[nodiscard]] store_changes& write(transaction& in) {
        if (!detail::participant_access::belongs_to(in, host_->core())) {
            throw store_error(EINVAL);
        }
        if (const auto known = detail::participant_access::find(in, host_.get())) {
            return static_cast<detail::joint_changes&>(*known);
        }
        const auto around = detail::participant_access::find_around(in, host_.get());
        auto made =
            std::make_shared<detail::joint_changes>(host_, static_cast<const detail::joint_changes*>(around.get()));
        store_changes& changes = *made;
        detail::participant_access::add(in, host_.get(), std::move(made));
        return changes;
    }

private:
    explicit heap_store(std::shared_ptr<detail::hosted_store> host) : store(host->env()), host_(std::move(host)) {}

    std::shared_ptr<detail::hosted_store> host_;
};

[[nodiscard]] inline std::vector<std::string> stores_of(const manager& heap) {
    std::vector<std::string> names;
    for (const auto& [name, place] : detail::store_places(heap)) {
        names.push_back(name);
    }
    return names;
}

/// Removes the store, also where its file is lost or damaged; false where there is none. In `commit` it goes, with its
/// file, with the heap's next commit, else when the call returns. Views and transactions of the store must have ended.
/// Throws store_error(EBUSY) where the program has a heap_store for it, and error of the heap.
inline bool remove_store(manager& heap, const std::string& name) {
    bool was_there = false;
    const bool removed = detail::participant_access::remove(heap, name, [&] {
        detail::remove_unnamed_store_files(heap);
        const std::string object = detail::store_object(name);
        const detail::store_place* const place = heap.find<detail::store_place>(object).first;
        if (place != nullptr) {
            const std::uint64_t file = place->file;
            was_there = heap.destroy<detail::store_place>(object);
            detail::participant_access::remove_named_file(heap, file);
        }
    });
    if (!removed) {
        throw store_error(EBUSY);
    }
    return was_there;
}

}  // namespace holdfast
