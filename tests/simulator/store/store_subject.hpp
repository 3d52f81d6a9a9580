// A store that is open in a test of the simulator.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/detail/store_in_heap.h>

#include "persist/storage.hpp"
#include "store/environment_place.hpp"
#include "store/lmdb_api.hpp"

namespace holdfast::simulator {

using content_of_store = std::map<std::string, std::string>;

class store_subject {
public:
    /// `heap` null: the store lies in none. `on_memory`: its file is persistent memory.
    store_subject(const std::string& path, persist::storage& storage, unsigned flags, const hf_lmdb_heap* heap,
                  bool on_memory = false)
        : env_(store_engine::of(&store_engine::create_environment(storage))) {
        if (on_memory) {
            hf_lmdb_emulate_persistent_memory(env_);
        }
        opened_ = heap != nullptr ? hf_lmdb_open_in_heap(env_, path.c_str(), flags, 0664, heap)
                                  : mdb_env_open(env_, path.c_str(), flags | MDB_NOSUBDIR, 0664);
    }
    store_subject(const store_subject&) = delete;
    store_subject& operator=(const store_subject&) = delete;
    ~store_subject() { mdb_env_close(env_); }

    [[nodiscard]] MDB_env* env() const noexcept { return env_; }
    [[nodiscard]] int opened() const noexcept { return opened_; }

    /// Of the database without a name; nothing where the store is not sound.
    [[nodiscard]] std::optional<content_of_store> content() const {
        MDB_txn* in = nullptr;
        MDB_cursor* at = nullptr;
        if (mdb_txn_begin(env_, nullptr, MDB_RDONLY, &in) != 0) {
            return {};
        }
        content_of_store found;
        int outcome = mdb_cursor_open(in, 1, &at);
        MDB_val key{};
        MDB_val value{};
        while (outcome == 0 && (outcome = mdb_cursor_get(at, &key, &value, MDB_NEXT)) == 0) {
            found.emplace(text_of(key), text_of(value));
        }
        mdb_cursor_close(at);
        mdb_txn_abort(in);
        return outcome == MDB_NOTFOUND && hf_lmdb_check(env_, nullptr) == 0 ? std::optional(found) : std::nullopt;
    }
    /// In a transaction of its own.
    [[nodiscard]] int put(const std::string& key, const std::string& value) const {
        MDB_txn* in = nullptr;
        int outcome = mdb_txn_begin(env_, nullptr, 0, &in);
        if (outcome != 0) {
            return outcome;
        }
        if (outcome = put(in, key, value); outcome != 0) {
            mdb_txn_abort(in);
            return outcome;
        }
        return mdb_txn_commit(in);
    }
    [[nodiscard]] static int put(MDB_txn* in, const std::string& key, const std::string& value) {
        MDB_val k = value_of(key);
        MDB_val v = value_of(value);
        return mdb_put(in, 1, &k, &v, 0);
    }
    [[nodiscard]] static int del(MDB_txn* in, const std::string& key) {
        MDB_val k = value_of(key);
        return mdb_del(in, 1, &k, nullptr);
    }

private:
    static std::string_view text_of(const MDB_val& value) noexcept {
        return {static_cast<const char*>(value.mv_data), value.mv_size};
    }
    static MDB_val value_of(std::string_view text) noexcept { return {text.size(), const_cast<char*>(text.data())}; }

    MDB_env* env_;
    int opened_;
};

}  // namespace holdfast::simulator
