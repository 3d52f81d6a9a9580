// LMDB's interface: transactions, databases, entries, cursors.
#include "store/lmdb_api.hpp"

using namespace holdfast::store_engine;  // NOLINT(google-build-using-namespace): the functions below are C's

namespace holdfast::store_engine {

steady_text::steady_text(const transaction& in, const MDB_val& value)
    : text_(static_cast<const char*>(value.mv_data), value.mv_size) {
    if (text_.size() <= max_node && in.env().store().pages().file().has_address(text_.data())) {
        copy_ = text_;
        text_ = copy_;
    }
}

}  // namespace holdfast::store_engine

namespace {

constexpr unsigned put_flags = MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_RESERVE | MDB_APPEND | MDB_APPENDDUP;

// What a write returned in `data`, where its value was copied first: only a put that finds another one sets it.
status put_with(cursor& at, const MDB_val& key, MDB_val* data, unsigned flags) {
    const transaction& in = *at.in();
    const steady_text steady_key(in, key);
    if ((flags & (MDB_MULTIPLE | MDB_RESERVE)) != 0) {
        return at.put(steady_key.text(), data, flags);
    }
    const steady_text steady_value(in, *data);
    MDB_val value = to_value(steady_value.text());
    const status outcome = at.put(steady_key.text(), &value, flags);
    if (outcome == status::key_exists && (flags & MDB_NOOVERWRITE) != 0) {
        *data = value;
    }
    return outcome;
}

// A reader's look for a key, without all that a cursor has.
status get_plain(transaction& in, database_state& state, std::string_view key, MDB_val& data) {
    tree_cursor at;
    at.attach(in.pages(), state.record, state.keys);
    bool exact = false;
    HF_STORE_TRY(at.seek(key, exact));
    if (!exact) {
        return status::not_found;
    }
    std::string_view value = at.value();
    if ((at.flags() & node_is_long) != 0) {
        const long_value where = long_value_from(value);
        const page_header* run = nullptr;
        HF_STORE_TRY(in.pages().get(where.page, run));
        if (run->block.kind != page_kind::run || run->birth > at.birth() ||
            where.size > run->run_pages * page_size - run_header_size) {
            return status::corrupted;
        }
        value = {reinterpret_cast<const char*>(run) + run_header_size, where.size};
    }
    data = to_value(value);
    return status::ok;
}

}  // namespace

extern "C" {

int mdb_txn_begin(MDB_env* env, MDB_txn* parent, unsigned int flags, MDB_txn** txn) {
    if (env == nullptr || txn == nullptr || !of(env)->is_open()) {
        return EINVAL;
    }
    return guarded([&] {
        std::unique_ptr<transaction> made;
        HF_STORE_TRY(transaction::begin(*of(env), of(parent), flags, made));
        *txn = of(made.release());
        return status::ok;
    });
}

MDB_env* mdb_txn_env(MDB_txn* txn) { return txn == nullptr || of(txn)->is_orphan() ? nullptr : of(&of(txn)->env()); }

size_t mdb_txn_id(MDB_txn* txn) { return txn == nullptr ? 0 : of(txn)->id(); }

int mdb_txn_commit(MDB_txn* txn) {
    if (txn == nullptr) {
        return EINVAL;
    }
    const std::unique_ptr<transaction> ended(of(txn));
    return guarded([&] { return ended->commit(); });
}

void mdb_txn_abort(MDB_txn* txn) { const std::unique_ptr<transaction> ended(of(txn)); }

void mdb_txn_reset(MDB_txn* txn) {
    if (txn != nullptr) {
        of(txn)->reset();
    }
}

int mdb_txn_renew(MDB_txn* txn) {
    return txn == nullptr ? EINVAL : guarded([&] { return of(txn)->renew(); });
}

int mdb_dbi_open(MDB_txn* txn, const char* name, unsigned int flags, MDB_dbi* dbi) {
    if (txn == nullptr || dbi == nullptr) {
        return EINVAL;
    }
    return guarded([&] { return of(txn)->open_database(name, flags, *dbi); });
}

int mdb_dbi_flags(MDB_txn* txn, MDB_dbi dbi, unsigned int* flags) {
    if (txn == nullptr || flags == nullptr || dbi == free_database) {
        return EINVAL;
    }
    return guarded([&] {
        database_state* state = nullptr;
        HF_STORE_TRY(of(txn)->database(dbi, state));
        *flags = state->record.flags;
        return status::ok;
    });
}

void mdb_dbi_close(MDB_env* env, MDB_dbi dbi) {
    if (env != nullptr && of(env)->is_open()) {
        const std::lock_guard guard(of(env)->handle_mutex());
        of(env)->close_handle(dbi);
    }
}

int mdb_drop(MDB_txn* txn, MDB_dbi dbi, int del) {
    if (txn == nullptr || (del != 0 && del != 1)) {
        return EINVAL;
    }
    return guarded_change(*of(txn), [&] { return of(txn)->drop(dbi, del == 1); });
}

int mdb_set_compare(MDB_txn* txn, MDB_dbi dbi, MDB_cmp_func* cmp) {
    return txn == nullptr ? EINVAL : guarded([&] { return of(txn)->set_order(dbi, cmp, false); });
}

int mdb_set_dupsort(MDB_txn* txn, MDB_dbi dbi, MDB_cmp_func* cmp) {
    return txn == nullptr ? EINVAL : guarded([&] { return of(txn)->set_order(dbi, cmp, true); });
}

// Values never move while a map is open.
int mdb_set_relfunc(MDB_txn* txn, MDB_dbi dbi, [[maybe_unused]] MDB_rel_func* rel) {
    return mdb_set_relctx(txn, dbi, nullptr);
}

int mdb_set_relctx(MDB_txn* txn, MDB_dbi dbi, void* ctx) {
    if (txn == nullptr) {
        return EINVAL;
    }
    return guarded([&] {
        database_state* state = nullptr;
        HF_STORE_TRY(of(txn)->database(dbi, state));
        of(txn)->env().handle(dbi).relocation_context = ctx;
        return status::ok;
    });
}

int mdb_get(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data) {
    if (txn == nullptr || key == nullptr || data == nullptr || dbi == free_database) {
        return EINVAL;
    }
    return guarded([&] {
        HF_STORE_TRY(of(txn)->check_usable());
        database_state* state = nullptr;
        HF_STORE_TRY(of(txn)->database(dbi, state));
        if (key->mv_size == 0) {
            return status::bad_value_size;
        }
        const std::string_view wanted(static_cast<const char*>(key->mv_data), key->mv_size);
        if ((state->record.flags & MDB_DUPSORT) == 0) {
            return get_plain(*of(txn), *state, wanted, *data);
        }
        cursor at(*of(txn), dbi);
        HF_STORE_TRY(at.bind());
        return at.get(key, data, MDB_SET);
    });
}

int mdb_put(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data, unsigned int flags) {
    if (txn == nullptr || key == nullptr || data == nullptr || (flags & ~put_flags) != 0 || dbi == free_database) {
        return EINVAL;
    }
    return guarded_change(*of(txn), [&] {
        HF_STORE_TRY(of(txn)->check_writable());
        cursor at(*of(txn), dbi);
        HF_STORE_TRY(at.bind());
        return put_with(at, *key, data, flags);
    });
}

int mdb_del(MDB_txn* txn, MDB_dbi dbi, MDB_val* key, MDB_val* data) {
    if (txn == nullptr || key == nullptr || dbi == free_database) {
        return EINVAL;
    }
    return guarded_change(*of(txn), [&] {
        HF_STORE_TRY(of(txn)->check_writable());
        cursor at(*of(txn), dbi);
        HF_STORE_TRY(at.bind());
        const bool by_value = data != nullptr && (at.state().record.flags & MDB_DUPSORT) != 0;
        const std::string_view wanted(static_cast<const char*>(key->mv_data), key->mv_size);
        std::string_view value;
        if (by_value) {
            value = {static_cast<const char*>(data->mv_data), data->mv_size};
        }
        HF_STORE_TRY(at.find(wanted, by_value ? &value : nullptr));
        return at.remove(!by_value);
    });
}

int mdb_cursor_open(MDB_txn* txn, MDB_dbi dbi, MDB_cursor** made) {
    if (txn == nullptr || made == nullptr || (dbi == free_database && !of(txn)->read_only())) {
        return EINVAL;
    }
    return guarded([&] {
        HF_STORE_TRY(of(txn)->check_usable());
        auto at = std::make_unique<cursor>(*of(txn), dbi);
        HF_STORE_TRY(at->bind());
        of(txn)->track(*at);
        *made = of(at.release());
        return status::ok;
    });
}

void mdb_cursor_close(MDB_cursor* closing) {
    const std::unique_ptr<cursor> closed(of(closing));
    if (closed != nullptr && closed->in() != nullptr) {
        closed->in()->forget(*closed);
    }
}

int mdb_cursor_renew(MDB_txn* txn, MDB_cursor* at) {
    if (txn == nullptr || at == nullptr || !of(txn)->read_only()) {
        return EINVAL;
    }
    return guarded([&] {
        HF_STORE_TRY(of(txn)->check_usable());
        if (of(at)->in() != nullptr) {
            of(at)->in()->forget(*of(at));
            of(at)->detach();
        }
        HF_STORE_TRY(of(at)->renew(*of(txn)));
        of(txn)->track(*of(at));
        return status::ok;
    });
}

MDB_txn* mdb_cursor_txn(MDB_cursor* at) { return at == nullptr ? nullptr : of(of(at)->in()); }

MDB_dbi mdb_cursor_dbi(MDB_cursor* at) { return of(at)->number(); }

int mdb_cursor_get(MDB_cursor* at, MDB_val* key, MDB_val* data, MDB_cursor_op op) {
    if (at == nullptr || of(at)->in() == nullptr) {
        return EINVAL;
    }
    return guarded([&] { return of(at)->get(key, data, op); });
}

int mdb_cursor_put(MDB_cursor* at, MDB_val* key, MDB_val* data, unsigned int flags) {
    if (at == nullptr || key == nullptr || data == nullptr || of(at)->in() == nullptr) {
        return EINVAL;
    }
    return guarded_change(*of(at)->in(), [&] {
        HF_STORE_TRY(of(at)->in()->check_writable());
        return put_with(*of(at), *key, data, flags);
    });
}

int mdb_cursor_del(MDB_cursor* at, unsigned int flags) {
    if (at == nullptr || of(at)->in() == nullptr || (flags & ~static_cast<unsigned>(MDB_NODUPDATA)) != 0) {
        return EINVAL;
    }
    return guarded_change(*of(at)->in(), [&] { return of(at)->remove((flags & MDB_NODUPDATA) != 0); });
}

int mdb_cursor_count(MDB_cursor* at, size_t* countp) {
    if (at == nullptr || countp == nullptr || of(at)->in() == nullptr) {
        return EINVAL;
    }
    return guarded([&] { return of(at)->count(*countp); });
}

int mdb_cmp(MDB_txn* txn, MDB_dbi dbi, const MDB_val* a, const MDB_val* b) {
    database_state* state = nullptr;
    if (guarded([&] { return of(txn)->database(dbi, state); }) != MDB_SUCCESS) {
        return 0;
    }
    return compare(state->keys, {static_cast<const char*>(a->mv_data), a->mv_size},
                   {static_cast<const char*>(b->mv_data), b->mv_size});
}

int mdb_dcmp(MDB_txn* txn, MDB_dbi dbi, const MDB_val* a, const MDB_val* b) {
    database_state* state = nullptr;
    if (guarded([&] { return of(txn)->database(dbi, state); }) != MDB_SUCCESS) {
        return 0;
    }
    return compare(state->values, {static_cast<const char*>(a->mv_data), a->mv_size},
                   {static_cast<const char*>(b->mv_data), b->mv_size});
}

}  // extern "C"
