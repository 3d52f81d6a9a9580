#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include <holdfast/detail/store_in_heap.h>

#include "store/check.hpp"
#include "store/copy.hpp"
#include "store/halves_of_commit.hpp"
#include "store/lmdb_api.hpp"

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

struct named_code {
    int code;
    const char* text;
};
constexpr std::array codes = {
    named_code{MDB_SUCCESS, "Successful return: 0"},
    named_code{MDB_KEYEXIST, "MDB_KEYEXIST: the key, or the pair, is there already"},
    named_code{MDB_NOTFOUND, "MDB_NOTFOUND: No matching key/data pair found"},
    named_code{MDB_PAGE_NOTFOUND, "MDB_PAGE_NOTFOUND: a page is asked for that the store does not have"},
    named_code{MDB_CORRUPTED, "MDB_CORRUPTED: a page is damaged, or is not what it should be"},
    named_code{MDB_PANIC, "MDB_PANIC: a sync failed, or this is a child of fork(); close the store and open it again"},
    named_code{MDB_VERSION_MISMATCH,
               "MDB_VERSION_MISMATCH: the store has a version that this library does not read, or lies in a heap"},
    named_code{MDB_INVALID, "MDB_INVALID: the file is no store of Holdfast"},
    named_code{MDB_MAP_FULL, "MDB_MAP_FULL: the store has the size that mdb_env_set_mapsize allows"},
    named_code{MDB_DBS_FULL, "MDB_DBS_FULL: mdb_env_set_maxdbs allows no further database"},
    named_code{MDB_READERS_FULL, "MDB_READERS_FULL: mdb_env_set_maxreaders allows no further reader"},
    named_code{MDB_TLS_FULL, "MDB_TLS_FULL: too many thread-local keys"},
    named_code{MDB_TXN_FULL, "MDB_TXN_FULL: the transaction has too many pages"},
    named_code{MDB_CURSOR_FULL, "MDB_CURSOR_FULL: a tree is too deep"},
    named_code{MDB_PAGE_FULL, "MDB_PAGE_FULL: a page has no room"},
    named_code{MDB_MAP_RESIZED, "MDB_MAP_RESIZED: the store grew beyond this process's addresses"},
    named_code{MDB_INCOMPATIBLE, "MDB_INCOMPATIBLE: the operation does not go with the database or its flags"},
    named_code{MDB_BAD_RSLOT, "MDB_BAD_RSLOT: the thread reads in another transaction already"},
    named_code{MDB_BAD_TXN, "MDB_BAD_TXN: the transaction must abort, has a child, or has ended"},
    named_code{MDB_BAD_VALSIZE, "MDB_BAD_VALSIZE: a key, a value or a name has a size that is not allowed"},
    named_code{MDB_BAD_DBI, "MDB_BAD_DBI: the database's handle was closed or changed"},
};

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
    for (const named_code& one : codes) {
        if (one.code == err) {
            return const_cast<char*>(one.text);
        }
    }
    return std::strerror(err);
}

int mdb_env_create(MDB_env** env) {
    return guarded([&] {
        *env = of(std::make_unique<environment>().release());
        return status::ok;
    });
}

int mdb_env_open(MDB_env* env, const char* path, unsigned int flags, mdb_mode_t mode) {
    return guarded([&] { return of(env)->open(path, flags, mode); });
}

void mdb_env_close(MDB_env* env) { const std::unique_ptr<environment> closed(of(env)); }

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
             .me_numreaders = of(env)->store().shared().header().reader_count.load()};
    return MDB_SUCCESS;
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
    *fd = of(env)->store().file().number();
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
    const shared_state& shared = of(env)->store().shared();
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
    if (of(env)->store().shared().is_of_parent()) {
        return MDB_PANIC;
    }
    const unsigned cleared = of(env)->store().shared().clear_dead();
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
        return status::ok;
    });
}

int hf_lmdb_set_maxkeysize(MDB_env* env, unsigned int bytes) {
    return env == nullptr ? EINVAL : code_of(of(env)->set_max_key(bytes));
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
                                               : guarded([&] { return halves_of_commit::prepare(*of(txn), *commit); });
}

int hf_lmdb_settle(MDB_txn* txn, int of_heap) {
    return txn == nullptr ? EINVAL
                          : guarded([&] { return halves_of_commit::settle(*of(txn), static_cast<status>(of_heap)); });
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
    return guarded([&] { return of(env)->store().make_accepted_durable(); });
}

void hf_lmdb_after_heap_commit(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().keep_accepted();
    }
}

void hf_lmdb_heap_commit_failed(MDB_env* env) {
    if (env != nullptr && of(env)->is_open() && of(env)->is_in_heap()) {
        of(env)->store().keep_both();
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
