#include "store/crash_world.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/random_program.hpp"

namespace holdfast::test {
namespace {

constexpr const char* number_key = "number";
constexpr const char* sum_key = "sum";

struct change {
    bool duplicate;
    bool removes;
    std::string key;
    std::string data;
};

constexpr unsigned longest_key = 65536;

/// Of a library that takes long keys, some are: they begin alike.
std::string key_text(const lmdb_library& library, std::uint64_t number) {
    const bool is_long = library.set_maxkeysize != nullptr && number % 9 == 0;
    return fmt::format("{}key {}", std::string(is_long ? 1900 + number * 13 : 0, 'k'), number);
}

/// What transaction n does.
std::vector<change> changes_of(const lmdb_library& library, std::uint64_t seed, std::uint64_t number) {
    random_words random(seed ^ random_words::mix(number));
    std::vector<change> changes(1 + random.below(12));
    for (change& one : changes) {
        one.duplicate = random.below(3) == 0;
        one.removes = random.below(10) < 3;
        if (one.duplicate) {
            one.key = fmt::format("dup {}", random.below(12));
            one.data = fmt::format("{:08}", random.below(400));
        } else {
            one.key = key_text(library, random.below(500));
            const std::size_t size = random.below(25) == 0 ? random.below(9000) : random.below(120);
            one.data = fmt::format("{} {}", number, std::string(size, static_cast<char>('a' + number % 26)));
        }
    }
    return changes;
}

std::uint64_t sum_of(std::string_view key, std::string_view data) {
    const std::uint64_t both = std::hash<std::string_view>{}(key)*31 + std::hash<std::string_view>{}(data);
    return random_words::mix(both);
}

void raise(std::atomic<std::uint64_t>& greatest, std::uint64_t value) {
    for (std::uint64_t seen = greatest; seen < value && !greatest.compare_exchange_weak(seen, value);) {
    }
}

/// An environment with its two databases. Calls that fail throw their code.
class opened_store {
public:
    explicit opened_store(const crash_plan& plan) : mdb_(*plan.library) {
        check(mdb_.env_create(&environment_));
        try {
            check(mdb_.env_set_maxdbs(environment_, 4));
            check(mdb_.set_maxkeysize != nullptr ? mdb_.set_maxkeysize(environment_, longest_key) : 0);
            check(mdb_.env_set_mapsize(environment_, plan.map_size));
            check(plan.on_memory ? mdb_.emulate_persistent_memory(environment_) : 0);
            check(mdb_.env_open(environment_, plan.directory.c_str(), plan.flags | MDB_NOTLS, 0600));
        } catch (...) {
            mdb_.env_close(environment_);
            throw;
        }
    }
    opened_store(const opened_store&) = delete;
    opened_store& operator=(const opened_store&) = delete;
    ~opened_store() { mdb_.env_close(environment_); }

    static void check(int code) {
        if (code != 0) {
            throw code;
        }
    }
    [[nodiscard]] MDB_txn* begin(unsigned flags = 0, MDB_txn* parent = nullptr) const {
        MDB_txn* made = nullptr;
        check(mdb_.txn_begin(environment_, parent, flags, &made));
        return made;
    }
    void open_databases(MDB_txn* transaction, unsigned flags) {
        check(mdb_.dbi_open(transaction, "plain", flags, &plain));
        check(mdb_.dbi_open(transaction, "duplicates", flags | MDB_DUPSORT, &duplicates));
    }
    [[nodiscard]] std::uint64_t number(MDB_txn* transaction, const char* name) const {
        MDB_val key = value_of(name);
        MDB_val data{};
        const int code = mdb_.get(transaction, plain, &key, &data);
        if (code == MDB_NOTFOUND) {
            return 0;
        }
        check(code);
        std::uint64_t value = 0;
        std::memcpy(&value, data.mv_data, std::min(sizeof(value), data.mv_size));
        return value;
    }
    void set_number(MDB_txn* transaction, const char* name, std::uint64_t value) const {
        MDB_val key = value_of(name);
        MDB_val data{sizeof(value), &value};
        check(mdb_.put(transaction, plain, &key, &data, 0));
    }
    /// Does the change; returns how the sum of all items changes.
    std::uint64_t apply(MDB_txn* transaction, const change& made) const {
        MDB_val key = value_of(made.key);
        MDB_val data = value_of(made.data);
        if (made.duplicate) {
            const int code = made.removes ? mdb_.del(transaction, duplicates, &key, &data)
                                          : mdb_.put(transaction, duplicates, &key, &data, MDB_NODUPDATA);
            if (code == MDB_NOTFOUND || code == MDB_KEYEXIST) {
                return 0;
            }
            check(code);
            return sum_of(made.key, made.data);
        }
        std::uint64_t difference = 0;
        MDB_val before{};
        const int code = mdb_.get(transaction, plain, &key, &before);
        if (code == 0) {
            difference = sum_of(made.key, bytes_of(before));
        } else if (code != MDB_NOTFOUND) {
            throw code;
        }
        if (!made.removes) {
            check(mdb_.put(transaction, plain, &key, &data, 0));
            difference ^= sum_of(made.key, made.data);
        } else if (code == 0) {
            check(mdb_.del(transaction, plain, &key, nullptr));
        }
        return difference;
    }
    void read_all(MDB_txn* transaction, MDB_dbi database,
                  const std::function<void(std::string_view, std::string_view)>& item) const {
        MDB_cursor* cursor = nullptr;
        check(mdb_.cursor_open(transaction, database, &cursor));
        MDB_val key{};
        MDB_val data{};
        int code = 0;
        while ((code = mdb_.cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
            item(bytes_of(key), bytes_of(data));
        }
        mdb_.cursor_close(cursor);
        if (code != MDB_NOTFOUND) {
            throw code;
        }
    }
    [[nodiscard]] const lmdb_library& library() const { return mdb_; }

    MDB_dbi plain = 0;
    MDB_dbi duplicates = 0;

private:
    const lmdb_library& mdb_;
    MDB_env* environment_ = nullptr;
};

bool is_no_space(int code) { return code == ENOSPC || code == MDB_MAP_FULL || code == EDQUOT; }

/// One transaction. Throws the code of what failed; the transaction is aborted then.
void write_one(opened_store& store, const crash_plan& plan, crash_oracle& oracle, random_words& random) {
    const lmdb_library& mdb = store.library();
    MDB_txn* transaction = store.begin();
    try {
        store.open_databases(transaction, MDB_CREATE);
        const std::uint64_t number = store.number(transaction, number_key) + 1;
        raise(oracle.started, number);
        std::uint64_t sum = store.number(transaction, sum_key);
        if ((plan.flags & MDB_WRITEMAP) == 0 && random.below(4) == 0) {
            MDB_txn* const child = store.begin(0, transaction);
            for (const change& one : changes_of(mdb, random.next(), number)) {
                store.apply(child, one);  // what the abort takes back
            }
            mdb.txn_abort(child);
        }
        for (const change& one : changes_of(mdb, plan.seed, number)) {
            sum ^= store.apply(transaction, one);
        }
        store.set_number(transaction, number_key, number);
        store.set_number(transaction, sum_key, sum);
        if (random.below(10) == 0) {
            mdb.txn_abort(transaction);
            return;
        }
        const int code = mdb.txn_commit(std::exchange(transaction, nullptr));
        opened_store::check(code);
        if (plan.acknowledges) {
            raise(oracle.acknowledged, number);
        }
        ++oracle.commits;
    } catch (int) {
        if (transaction != nullptr) {
            mdb.txn_abort(transaction);
        }
        throw;
    }
}

void read_one(opened_store& store, crash_oracle& oracle) {
    const std::uint64_t before = oracle.acknowledged;
    MDB_txn* const transaction = store.begin(MDB_RDONLY);
    try {
        if (store.plain == 0) {
            store.open_databases(transaction, 0);
        }
        const std::uint64_t number = store.number(transaction, number_key);
        std::uint64_t sum = store.number(transaction, sum_key);
        const auto add = [&](std::string_view key, std::string_view data) {
            if (key != number_key && key != sum_key) {
                sum ^= sum_of(key, data);
            }
        };
        store.read_all(transaction, store.plain, add);
        store.read_all(transaction, store.duplicates, add);
        if (number < before) {
            oracle.report(fmt::format("a reader saw {} when {} was acknowledged", number, before));
        }
        if (sum != 0) {
            oracle.report(fmt::format("a reader saw {}, and not its items alone", number));
        }
        ++oracle.reads;
    } catch (int) {
        store.library().txn_abort(transaction);
        store.plain = 0;
        throw;
    }
    // Not an abort, which would close the handles.
    opened_store::check(store.library().txn_commit(transaction));
}

int run(const crash_plan& plan, crash_oracle& oracle, const char* who, const std::function<void(opened_store&)>& work) {
    try {
        opened_store store(plan);
        for (;;) {
            try {
                work(store);
            } catch (int code) {
                if (!plan.full_disk_is_expected || !is_no_space(code)) {
                    throw;
                }
            }
        }
    } catch (int code) {
        if (oracle.stopping == 0) {
            oracle.report(fmt::format("{}: {}", who, error_name(code)));
        }
        return 1;
    }
}

}  // namespace

void crash_oracle::report(const std::string& what) {
    if (faults.fetch_add(1) == 0) {
        const std::size_t size = std::min(what.size(), sizeof(fault) - 1);
        std::memcpy(fault, what.data(), size);
    }
}

int write_transactions(const crash_plan& plan, crash_oracle& oracle, std::uint64_t writer) {
    random_words random(plan.seed + writer * 77777 + oracle.commits);
    return run(plan, oracle, "a writer", [&](opened_store& store) { write_one(store, plan, oracle, random); });
}

int read_transactions(const crash_plan& plan, crash_oracle& oracle) {
    return run(plan, oracle, "a reader", [&](opened_store& store) {
        try {
            read_one(store, oracle);
        } catch (int code) {
            if (code != MDB_NOTFOUND) {  // before the first commit
                throw;
            }
        }
    });
}

void crash_model::advance(const crash_plan& plan, std::uint64_t to) {
    while (version_ < to) {
        for (const change& one : changes_of(*plan.library, seed_, ++version_)) {
            if (one.duplicate) {
                one.removes ? static_cast<void>(duplicates_[one.key].erase(one.data))
                            : static_cast<void>(duplicates_[one.key].insert(one.data));
            } else if (one.removes) {
                plain_.erase(one.key);
            } else {
                plain_[one.key] = one.data;
            }
        }
    }
}

std::string crash_model::examine(const crash_plan& plan, const crash_oracle& oracle) {
    if (oracle.faults != 0) {
        return oracle.fault;
    }
    try {
        opened_store store(plan);
        MDB_txn* const transaction = store.begin();
        try {
            store.open_databases(transaction, MDB_CREATE);
            const std::uint64_t number = store.number(transaction, number_key);
            if (number < oracle.acknowledged || number > oracle.started) {
                store.library().txn_abort(transaction);
                return fmt::format("found transaction {}: {} was acknowledged, {} was begun", number,
                                   oracle.acknowledged.load(), oracle.started.load());
            }
            advance(plan, number);
            std::map<std::string, std::string> plain;
            std::map<std::string, std::set<std::string>> duplicates;
            store.read_all(transaction, store.plain,
                           [&](std::string_view key, std::string_view data) { plain.emplace(key, data); });
            store.read_all(transaction, store.duplicates, [&](std::string_view key, std::string_view data) {
                duplicates[std::string(key)].emplace(data);
            });
            plain.erase(number_key);
            plain.erase(sum_key);
            std::erase_if(duplicates_, [](const auto& one) { return one.second.empty(); });
            store.library().txn_abort(transaction);
            return plain == plain_ && duplicates == duplicates_
                       ? ""
                       : fmt::format("found transaction {}, and not its content", number);
        } catch (int) {
            store.library().txn_abort(transaction);
            throw;
        }
    } catch (int code) {
        return "cannot be examined: " + error_name(code);
    }
}

}  // namespace holdfast::test
