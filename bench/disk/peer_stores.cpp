// Declarations of LMDB, SQLite and RocksDB, from their documentation: their headers are not needed.
#include <stdexcept>
#include <vector>

#include "allocators/allocation_run.hpp"
#include "allocators/shared_library.hpp"
#include "disk/store.hpp"

namespace disk {

namespace {

void check(bool done, const std::string& what) {
    if (!done) {
        throw std::runtime_error(what + " failed");
    }
}

struct lmdb_value {
    std::size_t size;
    void* data;
};

class lmdb_store final : public store {
public:
    explicit lmdb_store(const std::filesystem::path& directory) : library_("liblmdb.so.0", "liblmdb0") {
        const std::filesystem::path place = directory / "lmdb";
        std::filesystem::create_directories(place);
        check(library_.find<int(void**)>("mdb_env_create")(&environment_) == 0, "mdb_env_create");
        check(library_.find<int(void*, std::size_t)>("mdb_env_set_mapsize")(environment_, std::size_t{1} << 30U) == 0,
              "mdb_env_set_mapsize");
        check(library_.find<int(void*, const char*, unsigned, unsigned)>("mdb_env_open")(environment_, place.c_str(), 0,
                                                                                         0600) == 0,
              "mdb_env_open");
        void* transaction = nullptr;
        check(begin_(environment_, nullptr, 0, &transaction) == 0, "mdb_txn_begin");
        check(library_.find<int(void*, const char*, unsigned, unsigned*)>("mdb_dbi_open")(transaction, nullptr, 0,
                                                                                          &database_) == 0,
              "mdb_dbi_open");
        check(commit_(transaction) == 0, "mdb_txn_commit");
    }
    ~lmdb_store() override { library_.find<void(void*)>("mdb_env_close")(environment_); }

    std::string name() const override { return "LMDB"; }
    void put(unsigned /*thread*/, std::uint64_t key, const record& value) override {
        void* transaction = nullptr;
        check(begin_(environment_, nullptr, 0, &transaction) == 0, "mdb_txn_begin");
        record copy = value;
        lmdb_value keyed{sizeof key, &key};
        lmdb_value valued{copy.size(), copy.data()};
        check(put_(transaction, database_, &keyed, &valued, 0) == 0, "mdb_put");
        check(commit_(transaction) == 0, "mdb_txn_commit");
    }

private:
    bench::shared_library library_;
    int (*begin_)(void*, void*, unsigned, void**) = library_.find<int(void*, void*, unsigned, void**)>("mdb_txn_begin");
    int (*put_)(void*, unsigned, lmdb_value*, lmdb_value*,
                unsigned) = library_.find<int(void*, unsigned, lmdb_value*, lmdb_value*, unsigned)>("mdb_put");
    int (*commit_)(void*) = library_.find<int(void*)>("mdb_txn_commit");
    void* environment_ = nullptr;
    unsigned database_ = 0;
};

class sqlite_store final : public store {
public:
    sqlite_store(const std::filesystem::path& directory, unsigned threads)
        : library_("libsqlite3.so.0", "libsqlite3-0"), connections_(threads), statements_(threads) {
        const std::string path = (directory / "records.sqlite").string();
        const auto open = library_.find<int(const char*, void**)>("sqlite3_open");
        const auto wait = library_.find<int(void*, int)>("sqlite3_busy_timeout");
        const auto execute =
            library_.find<int(void*, const char*, int (*)(void*, int, char**, char**), void*, char**)>("sqlite3_exec");
        const auto prepare = library_.find<int(void*, const char*, int, void**, const char**)>("sqlite3_prepare_v2");
        for (unsigned i = 0; i < threads; ++i) {
            check(open(path.c_str(), &connections_[i]) == 0, "sqlite3_open");
            wait(connections_[i], 60'000);
            for (const char* const each :
                 {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                  "CREATE TABLE IF NOT EXISTS records (key INTEGER PRIMARY KEY, value BLOB)"}) {
                check(execute(connections_[i], each, nullptr, nullptr, nullptr) == 0, each);
            }
            check(prepare(connections_[i], "INSERT OR REPLACE INTO records VALUES (?, ?)", -1, &statements_[i],
                          nullptr) == 0,
                  "sqlite3_prepare");
        }
    }
    ~sqlite_store() override {
        for (unsigned i = 0; i < connections_.size(); ++i) {
            library_.find<int(void*)>("sqlite3_finalize")(statements_[i]);
            library_.find<int(void*)>("sqlite3_close")(connections_[i]);
        }
    }

    std::string name() const override { return "SQLite"; }
    void put(unsigned thread, std::uint64_t key, const record& value) override {
        constexpr int done = 101;
        void* const statement = statements_[thread];
        bind_key_(statement, 1, static_cast<long long>(key));
        bind_value_(statement, 2, value.data(), static_cast<int>(value.size()), nullptr);
        check(step_(statement) == done, "sqlite3_step");
        check(reset_(statement) == 0, "sqlite3_reset");
    }

private:
    bench::shared_library library_;
    int (*bind_key_)(void*, int, long long) = library_.find<int(void*, int, long long)>("sqlite3_bind_int64");
    int (*bind_value_)(void*, int, const void*, int, void (*)(void*)) =
        library_.find<int(void*, int, const void*, int, void (*)(void*))>("sqlite3_bind_blob");
    int (*step_)(void*) = library_.find<int(void*)>("sqlite3_step");
    int (*reset_)(void*) = library_.find<int(void*)>("sqlite3_reset");
    std::vector<void*> connections_;
    std::vector<void*> statements_;
};

class rocksdb_store final : public store {
public:
    explicit rocksdb_store(const std::filesystem::path& directory) : library_("librocksdb.so.7.8", "librocksdb7.8") {
        void* const options = library_.find<void*()>("rocksdb_options_create")();
        library_.find<void(void*, unsigned char)>("rocksdb_options_set_create_if_missing")(options, 1);
        char* failure = nullptr;
        database_ = library_.find<void*(const void*, const char*, char**)>("rocksdb_open")(
            options, (directory / "rocksdb").c_str(), &failure);
        check(failure == nullptr, "rocksdb_open");
        writing_ = library_.find<void*()>("rocksdb_writeoptions_create")();
        library_.find<void(void*, unsigned char)>("rocksdb_writeoptions_set_sync")(writing_, 1);
    }
    ~rocksdb_store() override { library_.find<void(void*)>("rocksdb_close")(database_); }

    std::string name() const override { return "RocksDB"; }
    bool scales() const override { return true; }
    void put(unsigned /*thread*/, std::uint64_t key, const record& value) override {
        char* failure = nullptr;
        put_(database_, writing_, reinterpret_cast<const char*>(&key), sizeof key,
             reinterpret_cast<const char*>(value.data()), value.size(), &failure);
        check(failure == nullptr, "rocksdb_put");
    }

private:
    bench::shared_library library_;
    void (*put_)(void*, const void*, const char*, std::size_t, const char*, std::size_t, char**) =
        library_.find<void(void*, const void*, const char*, std::size_t, const char*, std::size_t, char**)>(
            "rocksdb_put");
    void* database_ = nullptr;
    void* writing_ = nullptr;
};

}  // namespace

std::unique_ptr<store> make_lmdb(const std::filesystem::path& directory) {
    return std::make_unique<lmdb_store>(directory);
}
std::unique_ptr<store> make_sqlite(const std::filesystem::path& directory, unsigned threads) {
    return std::make_unique<sqlite_store>(directory, threads);
}
std::unique_ptr<store> make_rocksdb(const std::filesystem::path& directory) {
    return std::make_unique<rocksdb_store>(directory);
}

}  // namespace disk
