// An open store, as LMDB's MDB_env.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/engine.hpp"
#include "store/order.hpp"

namespace holdfast::store_engine {

inline constexpr unsigned default_max_key = 511;
inline constexpr unsigned default_readers = 126;
/// What is said at least of a store that no process gave a size.
inline constexpr std::size_t unlimited_map_size = std::size_t{1} << 34U;

/// Handle 0 is the list of free pages, for readers (free_list_view.hpp), 1 the main database.
inline constexpr MDB_dbi free_database = 0;
inline constexpr MDB_dbi main_database = 1;
inline constexpr MDB_dbi first_named = 2;

class transaction;
struct environment_place;

struct database_handle {
    std::string name;
    bool open = false;
    bool pending = false;        ///< of the transaction that opened it, until that commits
    std::uint32_t sequence = 0;  ///< of uses of this handle's number
    std::uint16_t flags = 0;
    MDB_cmp_func* compare = nullptr;
    MDB_cmp_func* compare_values = nullptr;
    void* relocation_context = nullptr;
};

struct heap_place {
    std::uint64_t accepted = 0;  ///< the last commit that counts
    std::array<std::uint8_t, 16> identity{};
    bool keeps_at_once = false;  ///< what the heap accepts is durable
    /// ok: the heap has the commit; panic: that is not known; all else: it has not.
    int (*accept)(void* context, std::uint64_t commit) = nullptr;
    void* context = nullptr;
};

/// Told of write transactions.
struct writers_listener {
    void* (*begin)(void* context) = nullptr;
    void (*end)(void* context, void* begun) = nullptr;
    void* context = nullptr;
};
/// The time of one.
class announced_write {
public:
    announced_write() = default;
    announced_write(const announced_write&) = delete;
    announced_write& operator=(const announced_write&) = delete;
    ~announced_write() {
        if (to_.end != nullptr) {
            to_.end(to_.context, begun_);
        }
    }
    void begin(const writers_listener& to) {
        if (to.begin != nullptr) {
            begun_ = to.begin(to.context);
            to_ = to;
        }
    }

private:
    writers_listener to_;
    void* begun_ = nullptr;
};

class environment {
public:
    explicit environment(persist::storage& storage) : storage_(storage) {}
    environment(const environment&) = delete;
    environment& operator=(const environment&) = delete;
    ~environment();
    friend void leave_to_parent(environment& env) noexcept;

    [[nodiscard]] status open(const char* path, unsigned flags, mode_t mode);
    [[nodiscard]] status open_in_heap(const char* path, unsigned flags, mode_t mode, const heap_place& place);
    [[nodiscard]] bool is_in_heap() const noexcept { return in_heap_; }
    [[nodiscard]] status ask_heap(std::uint64_t commit) const {
        return static_cast<status>(place_.accept(place_.context, commit));
    }
    void announce_writers(const writers_listener& to) noexcept { writers_ = to; }
    [[nodiscard]] const writers_listener& writers() const noexcept { return writers_; }
    [[nodiscard]] bool is_open() const noexcept { return open_; }
    [[nodiscard]] engine& store() noexcept { return store_; }

    [[nodiscard]] unsigned flags() const noexcept { return flags_; }
    [[nodiscard]] bool has(unsigned flag) const noexcept { return (flags_ & flag) != 0; }
    [[nodiscard]] status set_flags(unsigned flags, bool on) noexcept;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    [[nodiscard]] status set_map_size(std::size_t bytes) noexcept;
    /// Of an open one: at least what the store has.
    [[nodiscard]] std::size_t map_size() noexcept;
    [[nodiscard]] status set_max_readers(unsigned readers) noexcept;
    [[nodiscard]] unsigned max_readers() const noexcept { return max_readers_ != 0 ? max_readers_ : default_readers; }
    [[nodiscard]] status set_max_databases(MDB_dbi count) noexcept;
    [[nodiscard]] status set_max_key(unsigned bytes) noexcept;
    [[nodiscard]] unsigned max_key_size() const noexcept { return max_key_; }

    /// From a thread's first read transaction to its end.
    [[nodiscard]] status thread_slot(reader_slot*& slot) noexcept;

    // There are never more handles than open() made room for.
    [[nodiscard]] MDB_dbi handle_count() const noexcept { return handle_count_.load(std::memory_order_acquire); }
    [[nodiscard]] database_handle& handle(MDB_dbi number) noexcept { return handles_[number]; }
    [[nodiscard]] std::mutex& handle_mutex() noexcept { return handle_mutex_; }
    [[nodiscard]] std::size_t handle_capacity() const noexcept { return handles_.size(); }
    /// Under the mutex: the handle of a name, or a free one, which gets the name. databases_full: there is none.
    [[nodiscard]] status find_handle(const std::string& name, MDB_dbi& number, bool& is_new);
    void close_handle(MDB_dbi number) noexcept;

    void set_place(environment_place& place) noexcept { place_of_this_ = &place; }
    [[nodiscard]] environment_place* place() const noexcept { return place_of_this_; }
    /// Changes when it is closed, and stays to be read.
    [[nodiscard]] const std::atomic<std::uint64_t>& closes() const noexcept;
    /// The outermost write transaction.
    [[nodiscard]] transaction* writer() const noexcept { return writer_.load(); }
    [[nodiscard]] bool writes_in_this_thread() const noexcept { return writing_thread_ == std::this_thread::get_id(); }
    void set_writer(transaction& one) noexcept {
        writing_thread_ = std::this_thread::get_id();
        writer_.store(&one);
    }
    /// May close the environment.
    void end_writer() noexcept;
    /// Closes the environment when the writer ends. False: it has ended.
    [[nodiscard]] bool leave_to_writer() noexcept {
        closing_.store(true);
        return writer_.load() != nullptr || !closing_.exchange(false);
    }

    void* user_context = nullptr;
    bool emulates_memory = false;  ///< of the next open(): the file counts as persistent memory
    MDB_assert_func* assertion = nullptr;

private:
    void update_sync() noexcept;
    [[nodiscard]] status open_store(engine_options& options, mode_t mode);

    persist::storage& storage_;
    engine store_;
    std::string path_;
    unsigned flags_ = 0;
    std::size_t map_size_ = 0;
    unsigned max_readers_ = 0;
    MDB_dbi max_databases_ = 0;
    unsigned max_key_ = default_max_key;
    bool open_ = false;
    bool tried_ = false;
    bool in_heap_ = false;
    heap_place place_;
    writers_listener writers_;
    pthread_key_t thread_key_{};
    bool has_thread_key_ = false;
    std::vector<database_handle> handles_;
    std::atomic<MDB_dbi> handle_count_{first_named};
    std::mutex handle_mutex_;
    environment_place* place_of_this_ = nullptr;
    std::atomic<transaction*> writer_{nullptr};
    std::thread::id writing_thread_;
    std::atomic<bool> closing_{false};  ///< by the writer's end
};

/// In a child of fork, in the place of the destructor: other threads of the parent may have been changing it.
void leave_to_parent(environment& env) noexcept;

}  // namespace holdfast::store_engine
