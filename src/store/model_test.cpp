// The store against a model: for each database an ordered multimap, copied at each nested transaction and for each
// reader. Programs are random, from a fixed seed: writes of all kinds, cursors held across writes, nested transactions
// that commit or abort, readers that stay, environments that are closed and opened.
//
// HOLDFAST_STORE_OPERATIONS says how many operations a database gets.
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "store/order.hpp"
#include "store/page_format.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

struct by_order {
    order how;
    bool operator()(const std::string& a, const std::string& b) const { return compare(how, a, b) < 0; }
};
using value_set = std::map<std::string, bool, by_order>;
using model_map = std::map<std::string, value_set, by_order>;

struct kind_of_database {
    const char* name;
    unsigned flags;
    bool long_keys = false;  ///< some keys lie in runs of pages, and many share long beginnings
    MDB_cmp_func* compare = nullptr;
};

int downward(const MDB_val* a, const MDB_val* b) { return compare_bytes(as_view(*b), as_view(*a)); }

constexpr kind_of_database kinds[] = {
    {"plain", 0},
    {"reversed", MDB_REVERSEKEY},
    {"integers", MDB_INTEGERKEY},
    {"many", MDB_DUPSORT},
    {"many_reversed", MDB_DUPSORT | MDB_REVERSEDUP},
    {"packed", MDB_DUPSORT | MDB_DUPFIXED},
    {"packed_integers", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_INTEGERKEY},
    {"long_keys", 0, true},
    {"long_keys_reversed", MDB_REVERSEKEY, true},
    {"long_keys_downward", 0, true, downward},
    {"long_keys_many", MDB_DUPSORT, true},
    {"long_keys_packed", MDB_DUPSORT | MDB_DUPFIXED, true},
};

unsigned operations() {
    const char* text = std::getenv("HOLDFAST_STORE_OPERATIONS");
    return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 12000;
}

class program {
public:
    program(const kind_of_database& kind, std::uint64_t seed) : kind_(kind), random_(seed) {}
    void run();

private:
    // A cursor and where the model says that it stands.
    struct held_cursor {
        MDB_cursor* cursor = nullptr;
        bool placed = false;
        bool gone = false;  // what it stood on was removed
        std::string key;
        std::string value;
    };
    struct reader {
        MDB_txn* txn;
        model_map model;
    };

    [[nodiscard]] bool many() const { return (kind_.flags & MDB_DUPSORT) != 0; }
    [[nodiscard]] unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
    [[nodiscard]] std::string random_key();
    [[nodiscard]] std::string random_long_key();
    [[nodiscard]] std::string random_value();
    [[nodiscard]] model_map empty_model() const {
        return model_map(by_order{order_of_keys(kind_.flags, kind_.compare)});
    }
    [[nodiscard]] value_set empty_values() const {
        return value_set(by_order{many() ? order_of_values(kind_.flags, nullptr) : order{}});
    }
    void one_transaction();
    void operate(MDB_txn* in, model_map& model, unsigned depth);
    void nest(MDB_txn* in, model_map& model, unsigned depth);
    void put_one(MDB_txn* in, model_map& model);
    void put_expected(model_map& model, const std::string& key, const std::string& value, unsigned flags, int outcome,
                      const MDB_val& found);
    void delete_one(MDB_txn* in, model_map& model);
    void get_one(MDB_txn* in, const model_map& model);
    void move_cursor(const model_map& model);
    void delete_at_cursor(model_map& model);
    void removed(const std::string& key, const std::string* value);
    void inserted();
    void compare_all(MDB_txn* in, const model_map& model);
    void expect_at(held_cursor& at, int outcome, const MDB_val& key, const MDB_val& data, bool found,
                   const std::string& wanted_key, const std::string& wanted_value);
    void tend_readers();
    void reopen();

    kind_of_database kind_;
    std::mt19937_64 random_;
    store_directory directory_;
    std::unique_ptr<test_environment> env_;
    MDB_dbi database_ = 0;
    model_map committed_ = empty_model();
    std::vector<held_cursor> cursors_;
    std::vector<reader> readers_;
    unsigned done_ = 0;
};

std::string program::random_key() {
    if ((kind_.flags & MDB_INTEGERKEY) != 0) {
        const std::uint64_t number = below(4) == 0 ? random_() : below(300);
        return {reinterpret_cast<const char*>(&number), sizeof(number)};
    }
    if (kind_.long_keys && below(2) == 0) {
        return random_long_key();
    }
    std::string key = std::to_string(below(many() ? 120 : 2000));
    if (below(8) == 0) {
        key += std::string(below(400), 'k');
    }
    return key;
}

// Around each size at which something changes: that of a head, of a separator in a page, of a key in a page.
std::string program::random_long_key() {
    constexpr unsigned sizes[] = {1, 44, 46, 508, 511, 1974, 1977, 2500, 9000};
    const unsigned size = below(30) == 0 ? 65530 : sizes[below(9)];
    std::string key(size, 'k');
    if (below(4) == 0) {
        key[below(size)] = 'l';
    }
    key += std::to_string(below(60));
    if (below(60) == 0) {
        key.resize(max_long_key - below(10), 'k');
    }
    return key;
}

std::string program::random_value() {
    if ((kind_.flags & MDB_DUPFIXED) != 0) {
        const std::uint64_t number = below(8) == 0 ? random_() : below(2000);
        return {reinterpret_cast<const char*>(&number), sizeof(number)};
    }
    if (many()) {
        return std::to_string(below(3000)) + std::string(below(10) == 0 ? below(480) : below(20), 'v');
    }
    constexpr unsigned sizes[] = {0, 10, 100, 100, 100, 1000, 2030, 6000, 30000};
    return std::string(below(sizes[below(9)] + 1), static_cast<char>('a' + below(26)));
}

void program::removed(const std::string& key, const std::string* value) {
    for (held_cursor& at : cursors_) {
        at.gone = at.gone || (at.placed && at.key == key && (value == nullptr || !many() || at.value == *value));
    }
}

// Between what was removed and what stood behind it something may be now: what `next` means then is not specified.
void program::inserted() {
    for (held_cursor& at : cursors_) {
        if (at.gone) {
            at.placed = false;
        }
    }
}

void program::put_one(MDB_txn* in, model_map& model) {
    constexpr unsigned choices[] = {0, 0, 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_APPEND, MDB_APPENDDUP, MDB_RESERVE};
    unsigned flags = choices[below(9)];
    if (many() && flags == MDB_RESERVE) {
        flags = 0;
    }
    const std::string key = random_key();
    const std::string value = random_value();
    MDB_val k = as_val(key);
    MDB_val v = as_val(value);
    int outcome = 0;
    held_cursor* by =
        !cursors_.empty() && below(2) == 0 ? &cursors_[below(static_cast<unsigned>(cursors_.size()))] : nullptr;
    outcome = by != nullptr ? mdb_cursor_put(by->cursor, &k, &v, flags) : mdb_put(in, database_, &k, &v, flags);
    if (outcome == 0 && flags == MDB_RESERVE) {
        ASSERT_EQ(v.mv_size, value.size());
        std::copy(value.begin(), value.end(), static_cast<char*>(v.mv_data));
    }
    put_expected(model, key, value, flags, outcome, v);
    if (by != nullptr) {
        by->placed = outcome == 0;
        by->gone = false;
        by->key = key;
        by->value = value;
    }
}

void program::put_expected(model_map& model, const std::string& key, const std::string& value, unsigned flags,
                           int outcome, const MDB_val& found) {
    const auto at = model.find(key);
    const bool exists = at != model.end();
    if (flags == MDB_APPEND && !model.empty() &&
        !by_order{order_of_keys(kind_.flags, kind_.compare)}(model.rbegin()->first, key)) {
        ASSERT_EQ(outcome, MDB_KEYEXIST);
        return;
    }
    if (flags == MDB_NOOVERWRITE && exists) {
        ASSERT_EQ(outcome, MDB_KEYEXIST);
        ASSERT_EQ(as_view(found), at->second.begin()->first);
        return;
    }
    if (many() && exists && flags == MDB_NODUPDATA && at->second.contains(value)) {
        ASSERT_EQ(outcome, MDB_KEYEXIST);
        return;
    }
    if (many() && exists && flags == MDB_APPENDDUP) {
        const std::string& last = at->second.rbegin()->first;
        const int difference = compare(order_of_values(kind_.flags, nullptr), value, last);
        if (difference <= 0) {
            ASSERT_EQ(outcome, MDB_KEYEXIST);
            return;
        }
    }
    ASSERT_EQ(outcome, 0) << key << " flags " << flags;
    inserted();
    value_set& values = model.emplace(key, empty_values()).first->second;
    if (!many()) {
        values.clear();
        for (held_cursor& cursor : cursors_) {
            if (cursor.placed && cursor.key == key) {
                cursor.value = value;
            }
        }
    }
    values[value] = true;
}

void program::delete_one(MDB_txn* in, model_map& model) {
    std::string key = random_key();
    if (!model.empty() && below(2) == 0) {
        const auto at = model.lower_bound(key);
        key = at == model.end() ? model.begin()->first : at->first;
    }
    const auto at = model.find(key);
    if (many() && below(3) != 0) {
        std::string value = random_value();
        if (at != model.end() && below(2) == 0) {
            const auto near = at->second.lower_bound(value);
            value = near == at->second.end() ? at->second.begin()->first : near->first;
        }
        const bool exists = at != model.end() && at->second.contains(value);
        ASSERT_EQ(del(in, database_, key, value), exists ? 0 : MDB_NOTFOUND);
        if (exists) {
            removed(key, &value);
            at->second.erase(value);
            if (at->second.empty()) {
                model.erase(at);
            }
        }
        return;
    }
    ASSERT_EQ(del(in, database_, key), at != model.end() ? 0 : MDB_NOTFOUND);
    if (at != model.end()) {
        removed(key, nullptr);
        model.erase(at);
    }
}

void program::get_one(MDB_txn* in, const model_map& model) {
    const std::string key = random_key();
    const auto at = model.find(key);
    ASSERT_EQ(get(in, database_, key), at == model.end() ? "error -30798" : at->second.begin()->first);
}

void program::expect_at(held_cursor& at, int outcome, const MDB_val& key, const MDB_val& data, bool found,
                        const std::string& wanted_key, const std::string& wanted_value) {
    ASSERT_EQ(outcome, found ? 0 : MDB_NOTFOUND);
    if (found) {
        ASSERT_EQ(as_view(key), wanted_key);
        ASSERT_EQ(as_view(data), wanted_value);
        at.key = wanted_key;
        at.value = wanted_value;
        at.placed = true;
        at.gone = false;
    } else {
        at.placed = false;  // where it stands then is told by other tests
    }
}

void program::move_cursor(const model_map& model) {
    held_cursor& at = cursors_[below(static_cast<unsigned>(cursors_.size()))];
    MDB_val key{};
    MDB_val data{};
    if (!at.placed || below(6) == 0) {
        const std::string wanted = random_key();
        key = as_val(wanted);
        const auto near = model.lower_bound(wanted);
        const int outcome = mdb_cursor_get(at.cursor, &key, &data, MDB_SET_RANGE);
        const bool found = near != model.end();
        expect_at(at, outcome, key, data, found, found ? near->first : "", found ? near->second.begin()->first : "");
        return;
    }
    const auto here = model.find(at.key);
    if (below(2) == 0) {
        const int outcome = mdb_cursor_get(at.cursor, &key, &data, MDB_NEXT);
        if (here != model.end() && many()) {
            const auto value = here->second.upper_bound(at.value);
            if (value != here->second.end()) {
                expect_at(at, outcome, key, data, true, here->first, value->first);
                return;
            }
        }
        const auto next = model.upper_bound(at.key);
        const bool found = next != model.end();
        expect_at(at, outcome, key, data, found, found ? next->first : "", found ? next->second.begin()->first : "");
        return;
    }
    const int outcome = mdb_cursor_get(at.cursor, &key, &data, MDB_PREV);
    if (here != model.end() && many()) {
        const auto value = here->second.lower_bound(at.value);
        if (value != here->second.begin()) {
            expect_at(at, outcome, key, data, true, here->first, std::prev(value)->first);
            return;
        }
    }
    const auto behind = model.lower_bound(at.key);
    const bool found = behind != model.begin();
    expect_at(at, outcome, key, data, found, found ? std::prev(behind)->first : "",
              found ? std::prev(behind)->second.rbegin()->first : "");
}

void program::delete_at_cursor(model_map& model) {
    held_cursor& at = cursors_[below(static_cast<unsigned>(cursors_.size()))];
    if (!at.placed || at.gone) {
        return;
    }
    const bool all = many() && below(4) == 0;
    const std::string key = at.key;
    const std::string value = at.value;
    const auto here = model.find(key);
    ASSERT_NE(here, model.end());
    if (many()) {
        std::size_t count = 0;
        ASSERT_EQ(mdb_cursor_count(at.cursor, &count), 0);
        ASSERT_EQ(count, here->second.size());
    }
    ASSERT_EQ(mdb_cursor_del(at.cursor, all ? MDB_NODUPDATA : 0), 0);
    if (all || !many()) {
        removed(key, nullptr);
        model.erase(here);
        return;
    }
    removed(key, &value);
    here->second.erase(value);
    if (here->second.empty()) {
        model.erase(here);
    }
}

void program::operate(MDB_txn* in, model_map& model, unsigned depth) {
    const unsigned count = 1 + below(depth == 0 ? 150 : 30);
    for (unsigned i = 0; i < count && !testing::Test::HasFatalFailure(); ++i, ++done_) {
        switch (below(12)) {
            case 0:
            case 1:
            case 2:
            case 3: put_one(in, model); break;
            case 4:
            case 5: delete_one(in, model); break;
            case 6: get_one(in, model); break;
            case 7:
            case 8:
            case 9:
                if (!cursors_.empty()) {
                    move_cursor(model);
                }
                break;
            case 10:
                if (!cursors_.empty()) {
                    delete_at_cursor(model);
                }
                break;
            default:
                if (cursors_.size() < 5) {
                    held_cursor at;
                    ASSERT_EQ(mdb_cursor_open(in, database_, &at.cursor), 0);
                    cursors_.push_back(at);
                } else if (depth < 3 && below(3) == 0) {
                    nest(in, model, depth);
                }
        }
    }
}

void program::nest(MDB_txn* in, model_map& model, unsigned depth) {
    MDB_txn* inner = env_->begin(0, in);
    std::vector<held_cursor> outer_cursors;
    outer_cursors.swap(cursors_);
    model_map copy = model;
    operate(inner, copy, depth + 1);
    if (below(2) == 0) {
        ASSERT_EQ(mdb_txn_commit(inner), 0);
        // Cursors of the outer transaction are on entries that may be gone, or have others beside them.
        for (held_cursor& at : outer_cursors) {
            const auto here = copy.find(at.key);
            at.placed = at.placed && !at.gone && here != copy.end() && here->second.contains(at.value);
        }
        model = std::move(copy);
    } else {
        mdb_txn_abort(inner);
    }
    cursors_ = std::move(outer_cursors);
}

void program::compare_all(MDB_txn* in, const model_map& model) {
    MDB_cursor* all = nullptr;
    ASSERT_EQ(mdb_cursor_open(in, database_, &all), 0);
    MDB_val key{};
    MDB_val data{};
    std::size_t entries = 0;
    for (const auto& [wanted, values] : model) {
        for (const auto& value : values) {
            ASSERT_EQ(mdb_cursor_get(all, &key, &data, MDB_NEXT), 0);
            ASSERT_EQ(as_view(key), wanted);
            ASSERT_EQ(as_view(data), value.first);
            ++entries;
        }
    }
    ASSERT_EQ(mdb_cursor_get(all, &key, &data, MDB_NEXT), MDB_NOTFOUND);
    mdb_cursor_close(all);
    MDB_stat sums{};
    ASSERT_EQ(mdb_stat(in, database_, &sums), 0);
    ASSERT_EQ(sums.ms_entries, entries);
}

void program::tend_readers() {
    if (readers_.size() < 4 && below(4) == 0) {
        readers_.push_back({env_->begin(MDB_RDONLY), committed_});
    }
    if (!readers_.empty() && below(6) == 0) {
        const std::size_t which = below(static_cast<unsigned>(readers_.size()));
        compare_all(readers_[which].txn, readers_[which].model);
        mdb_txn_abort(readers_[which].txn);
        readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(which));
    }
}

void program::reopen() {
    for (const reader& one : readers_) {
        compare_all(one.txn, one.model);
        mdb_txn_abort(one.txn);
    }
    readers_.clear();
    env_.reset();
    env_ = std::make_unique<test_environment>(directory_.path(), MDB_NOTLS | MDB_NOSYNC, 8, 0,
                                              kind_.long_keys ? max_long_key : 0);
    ASSERT_EQ(env_->opened(), 0);
    database_ = env_->open(kind_.name, kind_.flags | MDB_CREATE);
    if (kind_.compare != nullptr) {
        MDB_txn* in = env_->begin();
        ASSERT_EQ(mdb_set_compare(in, database_, kind_.compare), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
}

void program::one_transaction() {
    MDB_txn* in = env_->begin();
    model_map model = committed_;
    operate(in, model, 0);
    cursors_.clear();  // the transaction closes them
    if (below(5) == 0) {
        mdb_txn_abort(in);
        return;
    }
    if (below(40) == 0) {
        ASSERT_EQ(mdb_drop(in, database_, 0), 0);
        model.clear();
    }
    ASSERT_EQ(mdb_txn_commit(in), 0);
    committed_ = std::move(model);
}

void program::run() {
    reopen();
    for (unsigned round = 1; done_ < operations() && !testing::Test::HasFatalFailure(); ++round) {
        one_transaction();
        tend_readers();
        if (round % 16 == 0) {
            ASSERT_EQ(hf_lmdb_check(env_->get(), nullptr), 0);
        }
        if (round % 64 == 0) {
            reopen();
        }
    }
    reopen();
    MDB_txn* last = env_->begin(MDB_RDONLY);
    compare_all(last, committed_);
    mdb_txn_abort(last);
    readers_.clear();
    ASSERT_EQ(hf_lmdb_check(env_->get(), nullptr), 0);
}

class store_model_test : public testing::TestWithParam<kind_of_database> {};

TEST_P(store_model_test, agrees_with_an_ordered_multimap) {
    for (std::uint64_t seed = 1; seed <= 3 && !HasFatalFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        program(GetParam(), seed).run();
    }
}

INSTANTIATE_TEST_SUITE_P(databases, store_model_test, testing::ValuesIn(kinds),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace holdfast::store_engine
