#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include <holdfast/detail/store_in_heap.h>

#include "store/check.hpp"
#include "store/copy.hpp"
#include "store/environment_place.hpp"
#include "store/lmdb_api.hpp"
#include "store/two_phase_commit.hpp"

using namespace holdfast::store_engine;  // NOLINT(google-build-using-namespace): the functions below are C's

namespace {

void fill(MDB_stat& stat, const tree_record& record) noexcept {
    stat = {.ms_psize = page_size,
            .ms_depth = record.depth,
            .ms_branch_pages = record.branch_pages,
            .ms_leaf_pages = record.leaf_pages,
            .ms_overflow_pages = record.long_pages,
            .ms_entries = record.entries};
}

// The words of liblmdb, which programs compare and their tests expect.
constexpr std::array texts = {
    "MDB_KEYEXIST: Key/data pair already exists",
    "MDB_NOTFOUND: No matching key/data pair found",
    "MDB_PAGE_NOTFOUND: Requested page not found",
    "MDB_CORRUPTED: Located page was wrong type",
    "MDB_PANIC: Update of meta page failed or environment had fatal error",
    "MDB_VERSION_MISMATCH: Database environment version mismatch",
    "MDB_INVALID: File is not an LMDB file",
    "MDB_MAP_FULL: Environment mapsize limit reached",
    "MDB_DBS_FULL: Environment maxdbs limit reached",
    "MDB_READERS_FULL: Environment maxreaders limit reached",
    "MDB_TLS_FULL: Thread-local storage keys full - too many environments open",
    "MDB_TXN_FULL: Transaction has too many dirty pages - transaction too big",
    "MDB_CURSOR_FULL: Internal error - cursor stack limit reached",
    "MDB_PAGE_FULL: Internal error - page has no more space",
    "MDB_MAP_RESIZED: Database contents grew beyond environment mapsize",
    "MDB_INCOMPATIBLE: Operation and DB incompatible, or DB flags changed",
    "MDB_BAD_RSLOT: Invalid reuse of reader locktable slot",
    "MDB_BAD_TXN: Transaction must abort, has a child, or is invalid",
    "MDB_BAD_VALSIZE: Unsupported size of key/DB name/data, or wrong DUPFIXED size",
    "MDB_BAD_DBI: The specified DBI handle was closed/changed unexpectedly",
};
static_assert(texts.size() == MDB_LAST_ERRCODE - MDB_KEYEXIST + 1);

}  // namespace

extern "C" {

char* mdb_version(int* major, int* minor, int* patch) {
    if (major != nullptr) {
        *major = MDB_VERSION_MAJOR;
    }
    if (minor != nullptr) {
        *minor = MDB_VERSION_MINOR;
    }
    if (patch != nullptr) {
        *patch = MDB_VERSION_PATCH;
    }
    static std::array text = std::to_array(MDB_VERSION_STRING);
    return text.data();
}

char* mdb_strerror(int err) {
    const char* text = "Successful return: 0";
    if (err >= MDB_KEYEXIST && err <= MDB_LAST_ERRCODE) {
        text = texts[static_cast<std::size_t>(err - MDB_KEYEXIST)];
    } else if (err == code_of(status::replaced)) {
        text = "Stale file handle: the data file was replaced while processes have the store open";
    } else if (err == code_of(status::other_medium)) {
        text = "Wrong medium type: who has the store open takes its file for another kind of memory";
    } else if (err != MDB_SUCCESS) {
        return std::strerror(err);
    }
    return const_cast<char*>(text);
}

int mdb_env_create(MDB_env** env) {
    return guarded([&] {
        *env = of(&create_environment());
        return status::ok;
    });
}

int mdb_env_open(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode) {
    return guarded([&] { return of(env)->open(path, flags, mode); });
}

void mdb_env_close(MDB_env* env) {
    if (env != nullptr) {
        close_environment(*of(env));
    }
}

int mdb_env_copy(MDB_env* env, const char* path) { return mdb_env_copy2(env, path, 0); }
int mdb_env_copyfd(MDB_env* env, mdb_filehandle_t fd) { return mdb_env_copyfd2(env, fd, 0); }

int mdb_env_copy2(MDB_env* env, const char* path, unsigned int flags) {
    return guarded([&] {
        return env == nullptr || path == nullptr || (flags & ~static_cast<unsigned>(MDB_CP_COMPACT)) != 0 ||
                       !of(env)->is_open()
                   ? status::invalid_argument
                   : copy_to_path(*of(env), path);
    });
}

int mdb_env_copyfd2(MDB_env* env, mdb_filehandle_t fd, unsigned int flags) {
    return guarded([&] {
        return env == nullptr || (flags & ~static_cast<unsigned>(MDB_CP_COMPACT)) != 0 || !of(env)->is_open()
                   ? status::invalid_argument
                   : copy_to_file(*of(env), fd);
    });
}

int mdb_env_stat(MDB_env* env, MDB_stat* stat) {
    if (env == nullptr || stat == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    fill(*stat, of(env)->store().last_root().main);
    return MDB_SUCCESS;
}

int mdb_env_info(MDB_env* env, MDB_envinfo* stat) {
    if (env == nullptr || stat == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    const root last = of(env)->store().last_root();
    *stat = {.me_mapaddr = nullptr,
             .me_mapsize = of(env)->map_size(),
             .me_last_pgno = last.next_page - 1,
             .me_last_txnid = last.transaction,
             .me_maxreaders = of(env)->max_readers(),
             .me_numreaders = of(env)->store().pages().shared().header().reader_count.load()};
    return MDB_SUCCESS;
}

int hf_lmdb_activity_of(MDB_env* env, hf_lmdb_activity* activity) {
    if (env == nullptr || activity == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    return guarded([&] {
        const shared_state& shared = of(env)->store().pages().shared();
        if (shared.is_of_parent()) {
            return status::invalid_argument;
        }
        std::vector<std::uint64_t> read;
        shared.collect_snapshots(read);
        const shared_header& header = shared.header();
        const std::uint64_t last = of(env)->store().last_root().transaction;
        *activity = {.last_txnid = last,
                     .synced_txnid = header.synced.load(),
                     .oldest_txnid = read.empty() ? last : *std::ranges::min_element(read),
                     .log_bytes = header.log_end.load(),
                     .log_room_bytes = header.log_pages.load() * page_size,
                     .readers = static_cast<unsigned>(read.size())};
        return status::ok;
    });
}

int mdb_env_sync(MDB_env* env, int force) {
    if (env == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    return guarded([&] { return of(env)->store().sync(force != 0); });
}

int mdb_env_set_flags(MDB_env* env, unsigned int flags, int onoff) {
    return code_of(of(env)->set_flags(flags, onoff != 0));
}

int mdb_env_get_flags(MDB_env* env, unsigned int* flags) {
    if (env == nullptr || flags == nullptr) {
        return EINVAL;
    }
    *flags = of(env)->flags();
    return MDB_SUCCESS;
}

int mdb_env_get_path(MDB_env* env, const char** path) {
    if (env == nullptr || path == nullptr) {
        return EINVAL;
    }
    *path = of(env)->path().c_str();
    return MDB_SUCCESS;
}

int mdb_env_get_fd(MDB_env* env, mdb_filehandle_t* fd) {
    if (env == nullptr || fd == nullptr) {
        return EINVAL;
    }
    *fd = of(env)->store().pages().file().number();
    return MDB_SUCCESS;
}

int mdb_env_set_mapsize(MDB_env* env, size_t size) { return code_of(of(env)->set_map_size(size)); }

int mdb_env_set_maxreaders(MDB_env* env, unsigned int readers) { return code_of(of(env)->set_max_readers(readers)); }

int mdb_env_get_maxreaders(MDB_env* env, unsigned int* readers) {
    if (env == nullptr || readers == nullptr) {
        return EINVAL;
    }
    *readers = of(env)->max_readers();
    return MDB_SUCCESS;
}

int mdb_env_set_maxdbs(MDB_env* env, MDB_dbi dbs) { return code_of(of(env)->set_max_databases(dbs)); }

int mdb_env_get_maxkeysize(MDB_env* env) { return static_cast<int>(of(env)->max_key_size()); }

int mdb_env_set_userctx(MDB_env* env, void* ctx) {
    if (env == nullptr) {
        return EINVAL;
    }
    of(env)->user_context = ctx;
    return MDB_SUCCESS;
}

void* mdb_env_get_userctx(MDB_env* env) { return env != nullptr ? of(env)->user_context : nullptr; }

int mdb_env_set_assert(MDB_env* env, MDB_assert_func* func) {
    if (env == nullptr) {
        return EINVAL;
    }
    of(env)->assertion = func;
    return MDB_SUCCESS;
}

int mdb_reader_list(MDB_env* env, MDB_msg_func* func, void* ctx) {
    if (env == nullptr || func == nullptr || !of(env)->is_open()) {
        return -1;
    }
    const shared_state& shared = of(env)->store().pages().shared();
    const unsigned used = shared.header().reader_count.load();
    bool any = false;
    for (unsigned i = 0; i < used; ++i) {
        const reader_slot& slot = shared.slot(i);
        if (slot.process.load() == 0) {
            continue;
        }
        if (!any) {
            any = true;
            if (const int outcome = func("    pid     thread     txnid\n", ctx); outcome < 0) {
                return outcome;
            }
        }
        std::array<char, 96> line{};
        const std::uint64_t transaction = slot.transaction.load();
        const auto thread = static_cast<unsigned long long>(slot.thread.load());
        if (transaction == no_transaction) {
            static_cast<void>(std::snprintf(line.data(), line.size(), "%10d %16llx -\n", slot.pid.load(), thread));
        } else {
            static_cast<void>(std::snprintf(line.data(), line.size(), "%10d %16llx %llu\n", slot.pid.load(), thread,
                                            static_cast<unsigned long long>(transaction)));
        }
        if (const int outcome = func(line.data(), ctx); outcome < 0) {
            return outcome;
        }
    }
    return any ? 0 : func("(no active readers)\n", ctx);
}

int mdb_reader_check(MDB_env* env, int* dead) {
    if (env == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    if (of(env)->store().pages().shared().is_of_parent()) {
        return MDB_PANIC;
    }
    const unsigned cleared = of(env)->store().pages().shared().clear_dead();
    if (dead != nullptr) {
        *dead = static_cast<int>(cleared);
    }
    return MDB_SUCCESS;
}

int mdb_stat(MDB_txn* txn, MDB_dbi dbi, MDB_stat* stat) {
    if (txn == nullptr || stat == nullptr) {
        return EINVAL;
    }
    return guarded([&] {
        HF_STORE_TRY(of(txn)->check_usable());
        database_state* state = nullptr;
        HF_STORE_TRY(of(txn)->database(dbi, state));
        fill(*stat, state->record);
        if (dbi == free_database) {
            const std::uint64_t version = of(txn)->id() - (of(txn)->read_only() ? 0U : 1U);
            HF_STORE_TRY(of(txn)->free_list.load(of(txn)->env().store().pages(), version));
            stat->ms_entries = of(txn)->free_list.entries();
            stat->ms_depth = stat->ms_entries == 0 ? 0 : 1;
            stat->ms_leaf_pages = stat->ms_depth;
        }
        return status::ok;
    });
}

int hf_lmdb_set_maxkeysize(MDB_env* env, unsigned int bytes) {
    return env == nullptr ? EINVAL : code_of(of(env)->set_max_key(bytes));
}

int hf_lmdb_emulate_persistent_memory(MDB_env* env) {
    if (env == nullptr || of(env)->is_open()) {
        return EINVAL;
    }
    of(env)->emulates_memory = true;
    return MDB_SUCCESS;
}

int hf_lmdb_open_in_heap(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode,
                         const hf_lmdb_heap* heap) {
    if (env == nullptr || heap == nullptr || heap->accept == nullptr) {
        return EINVAL;
    }
    return guarded([&] {
        heap_place place{.accepted = heap->accepted,
                         .identity = {},
                         .keeps_at_once = heap->keeps_at_once != 0,
                         .accept = heap->accept,
                         .context = heap->context};
        std::memcpy(place.identity.data(), heap->identity, place.identity.size());
        return of(env)->open_in_heap(path, flags, mode, place);
    });
}

int hf_lmdb_prepare(MDB_txn* txn, uint64_t* commit) {
    return txn == nullptr || commit == nullptr ? EINVAL
                                               : guarded([&] { return two_phase_commit::prepare(*of(txn), *commit); });
}

int hf_lmdb_end_prepared(MDB_txn* txn, int of_heap) {
    return txn == nullptr ? EINVAL
                          : guarded([&] { return two_phase_commit::finish(*of(txn), static_cast<status>(of_heap)); });
}

void hf_lmdb_accept_prepared(MDB_txn* txn) {
    if (txn != nullptr) {
        two_phase_commit::accept(*of(txn));
    }
}

void hf_lmdb_announce_writers(MDB_env* env, void* (*begin)(void* context), void (*end)(void* context, void* begun),
                              void* context) {
    if (env != nullptr && begin != nullptr && end != nullptr) {
        of(env)->announce_writers({begin, end, context});
    }
}

int hf_lmdb_try_hold_writers(MDB_env* env) {
    if (env == nullptr || !of(env)->is_open() || !of(env)->is_in_heap()) {
        return EINVAL;
    }
    return guarded([&] { return of(env)->store().try_hold_writers(); });
}

void hf_lmdb_release_writers(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().release_writers();
    }
}

int hf_lmdb_before_heap_commit(MDB_env* env) {
    if (env == nullptr || !of(env)->is_open() || !of(env)->is_in_heap()) {
        return EINVAL;
    }
    return guarded([&] { return of(env)->store().make_written_durable(); });
}

void hf_lmdb_after_heap_commit(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().keep_accepted();
    }
}

void hf_lmdb_heap_commit_failed(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().keep_old_and_new();
    }
}

void hf_lmdb_leave_heap(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().leave();
    }
}

int hf_lmdb_check(MDB_env* env, size_t* pages) {
    if (env == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    return guarded([&] { return check_store(*of(env), pages); });
}

int hf_lmdb_map(MDB_env* env, int (*visit)(void* context, const hf_lmdb_extent* extent), void* context) {
    if (env == nullptr || visit == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    std::vector<hf_lmdb_extent> all;
    if (const int outcome = guarded([&] { return map_store(*of(env), all); }); outcome != MDB_SUCCESS) {
        return outcome;
    }
    for (const hf_lmdb_extent& one : all) {
        if (const int told = visit(context, &one); told != 0) {
            return told;
        }
    }
    return MDB_SUCCESS;
}

}  // extern "C"
