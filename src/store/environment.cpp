#include "store/environment.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "store/environment_place.hpp"
#include "store/lmdb_data.hpp"

namespace holdfast::store_engine {
namespace {

constexpr unsigned changeable = MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT;
constexpr unsigned fixed =
    MDB_FIXEDMAP | MDB_NOSUBDIR | MDB_RDONLY | MDB_WRITEMAP | MDB_NOTLS | MDB_NOLOCK | MDB_NORDAHEAD;

/// Whether a store can be at the path, as far as can be seen from outside; ok, too, where nothing is there for a
/// writer. Comes before a lock file is made beside what is no store.
status inspect(const std::string& path, bool read_only) noexcept {
    struct stat information {};
    if (::stat(path.c_str(), &information) != 0) {
        return errno == ENOENT && !read_only ? status::ok : last_error();
    }
    if (!S_ISREG(information.st_mode)) {
        return S_ISDIR(information.st_mode) ? from_errno(EISDIR) : status::invalid_file;
    }
    struct head {
        std::array<char, 8> magic;
        std::uint32_t version;
    };
    const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
        return last_error();
    }
    bool may_be_ours = false;
    for (std::uint64_t page = 0; page < meta_pages; ++page) {
        head found{};
        if (::pread(file.get(), &found, sizeof(found), static_cast<off_t>(page * page_size)) < 0) {
            return last_error();
        }
        if (found.magic == store_magic && found.version == version_in_heap) {
            return status::version_mismatch;  // the store of a heap
        }
        // Zeros: it may be one that was being made.
        may_be_ours = may_be_ours || found.magic == store_magic ||
                      (page == 0 && (found.magic == magic_in_the_making || found.magic == std::array<char, 8>{}));
    }
    return may_be_ours ? status::ok : status::invalid_file;
}

void end_of_thread(void* slot) noexcept { shared_state::give_slot(*static_cast<reader_slot*>(slot)); }

}  // namespace

environment::~environment() {
    if (has_thread_key_) {
        // Slots of living threads, of this environment, which is no more.
        if (void* slot = pthread_getspecific(thread_key_); slot != nullptr) {
            end_of_thread(slot);
        }
        pthread_key_delete(thread_key_);
    }
    store_.close();
}

void leave_to_parent(environment& env) noexcept {
    if (env.has_thread_key_) {
        pthread_key_delete(env.thread_key_);
    }
    env.store_.pages().file().close_in_child();
}

const std::atomic<std::uint64_t>& environment::closes() const noexcept {
    static const std::atomic<std::uint64_t> never{0};
    return place_of_this_ != nullptr ? place_of_this_->closes : never;
}

void environment::end_writer() noexcept {
    writer_.store(nullptr);
    if (closing_.exchange(false)) {
        close_environment(*this);
    }
}

status environment::open(const char* path, unsigned flags, mode_t mode) {
    if (tried_ || (flags & ~(changeable | fixed)) != 0 || path == nullptr) {
        return status::invalid_argument;
    }
    tried_ = true;
    flags_ |= flags;
    path_ = path;
    const bool in_directory = !has(MDB_NOSUBDIR);
    engine_options options;
    options.data_path = in_directory ? path_ + "/data.mdb" : path_;
    options.lock_path = in_directory ? path_ + "/lock.mdb" : path_ + "-lock";
    options.read_only = has(MDB_RDONLY);
    options.no_lock = has(MDB_NOLOCK);
    descriptor copied;
    if (!options.read_only || !is_lmdb_data(options.data_path)) {
        HF_STORE_TRY(inspect(options.data_path, options.read_only));
    } else {
        HF_STORE_TRY(copy_lmdb_data(options.data_path, copied));
        options.data_path = path_of(copied);
        options.no_lock = true;  // no other process has it
    }
    return open_store(options, mode);
}

status environment::open_in_heap(const char* path, unsigned flags, mode_t mode, const heap_place& place) {
    constexpr unsigned allowed = MDB_RDONLY | MDB_NOSYNC | MDB_WRITEMAP | MDB_NORDAHEAD;
    if (tried_ || (flags & ~allowed) != 0 || path == nullptr || place.accept == nullptr) {
        return status::invalid_argument;
    }
    tried_ = true;
    in_heap_ = true;
    place_ = place;
    flags_ |= flags | MDB_NOSUBDIR | MDB_NOTLS;
    path_ = path;
    engine_options options;
    options.data_path = path_;
    options.read_only = has(MDB_RDONLY);
    options.in_heap = true;
    options.accepted = place.accepted;
    options.identity = place.identity;
    store_.set_keeps_at_once(place.keeps_at_once);
    return open_store(options, mode);
}

status environment::open_store(engine_options& options, mode_t mode) {
    options.write_map = has(MDB_WRITEMAP) && !options.read_only;
    options.random = has(MDB_NORDAHEAD);
    options.mode = mode;
    options.storage = &storage_;
    options.emulated = emulates_memory;
    options.limit = map_size_;
    options.reader_limit = max_readers_ != 0 ? max_readers_ : most_readers;
    handles_.resize(std::size_t{first_named} + max_databases_);
    handles_[free_database].open = true;
    handles_[main_database].open = true;
    if (!has(MDB_NOTLS)) {
        if (pthread_key_create(&thread_key_, end_of_thread) != 0) {
            return static_cast<status>(MDB_TLS_FULL);
        }
        has_thread_key_ = true;
    }
    options.no_sync = has(MDB_NOSYNC) || (has(MDB_MAPASYNC) && has(MDB_WRITEMAP));
    HF_STORE_TRY(store_.open(options));
    open_ = true;
    return status::ok;
}

void environment::update_sync() noexcept {
    store_.pages().set_no_sync(has(MDB_NOSYNC) || (has(MDB_MAPASYNC) && has(MDB_WRITEMAP)));
}

status environment::set_flags(unsigned flags, bool on) noexcept {
    if ((flags & ~changeable) != 0 || (in_heap_ && (flags & (MDB_NOSYNC | MDB_MAPASYNC)) != 0)) {
        return status::invalid_argument;  // in a heap, its durability says what is synced
    }
    flags_ = on ? flags_ | flags : flags_ & ~flags;
    update_sync();
    return status::ok;
}

// As in LMDB, 0 takes the size that the store has, and what the store has already stays usable.
status environment::set_map_size(std::size_t bytes) noexcept {
    map_size_ = std::min<std::size_t>(bytes, max_pages * page_size);
    if (open_) {
        store_.pages().set_limit(map_size_);
    }
    return status::ok;
}

std::size_t environment::map_size() noexcept {
    const std::size_t limit = store_.pages().limit();
    const std::size_t used = store_.last_root().next_page * page_size;
    return limit != 0 ? std::max(limit, used) : std::max(unlimited_map_size, 4 * used);
}

status environment::set_max_readers(unsigned readers) noexcept {
    if (open_ || readers < 1) {
        return status::invalid_argument;
    }
    max_readers_ = readers;
    return status::ok;
}

status environment::set_max_databases(MDB_dbi count) noexcept {
    if (open_) {
        return status::invalid_argument;
    }
    max_databases_ = count;
    return status::ok;
}

status environment::set_max_key(unsigned bytes) noexcept {
    if (open_ || bytes < default_max_key || bytes > max_long_key) {
        return status::invalid_argument;
    }
    max_key_ = bytes;
    return status::ok;
}

status environment::thread_slot(reader_slot*& slot) noexcept {
    slot = static_cast<reader_slot*>(pthread_getspecific(thread_key_));
    if (slot != nullptr) {
        return status::ok;
    }
    HF_STORE_TRY(store_.pages().shared().take_slot(slot));
    if (const int error = pthread_setspecific(thread_key_, slot); error != 0) {
        shared_state::give_slot(*slot);
        return from_errno(error);
    }
    return status::ok;
}

status environment::find_handle(const std::string& name, MDB_dbi& number, bool& is_new) {
    const MDB_dbi count = handle_count();
    MDB_dbi unused = count;
    for (MDB_dbi i = first_named; i < count; ++i) {
        if (handles_[i].open && handles_[i].name == name) {
            number = i;
            is_new = false;
            return status::ok;
        }
        if (!handles_[i].open && unused == count) {
            unused = i;
        }
    }
    if (unused >= handles_.size()) {
        return status::databases_full;
    }
    number = unused;
    is_new = true;
    database_handle& handle = handles_[unused];
    const std::uint32_t sequence = handle.sequence + 1;
    handle = database_handle();
    handle.name = name;
    handle.sequence = sequence;
    handle_count_.store(std::max(count, unused + 1), std::memory_order_release);
    return status::ok;
}

void environment::close_handle(MDB_dbi number) noexcept {
    if (number >= first_named && number < handle_count()) {
        handles_[number].open = false;
        ++handles_[number].sequence;
    }
}

}  // namespace holdfast::store_engine
