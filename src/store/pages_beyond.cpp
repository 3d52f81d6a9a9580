#include "store/pages_beyond.hpp"

#include <cstring>
#include <new>

#include "store/tree.hpp"

namespace holdfast::store_engine {
namespace {

// A page is never older than those below it, so what lies below an old one stays. Leaves that hold no trees are read
// only where they move.
class page_mover {
public:
    page_mover(transaction_pages& pages, const limit_excess::pages& beyond) noexcept : pages_(pages), beyond_(beyond) {}

    [[nodiscard]] status move(tree_record& record, unsigned nested) {
        if (record.root == 0) {
            return status::ok;
        }
        return record.depth > max_depth || nested > most_nested ? status::corrupted
                                                                : move_page(record, record.root, 1, nested);
    }

private:
    // In the values of its leaves: databases, or the values of a key.
    [[nodiscard]] static bool has_trees(const tree_record& record, unsigned nested) noexcept {
        return nested == 0 || (nested < most_nested && (record.flags & MDB_DUPSORT) != 0);
    }
    // The number becomes that of the copy.
    [[nodiscard]] status move_page(const tree_record& record, std::uint64_t& number, unsigned depth, unsigned nested) {
        const bool is_leaf = depth >= record.depth;
        if (is_leaf && number < beyond_.bound && !has_trees(record, nested)) {
            return status::ok;
        }
        const page_header* page = nullptr;
        HF_STORE_TRY(pages_.get(number, page));
        if (page->block.kind == page_kind::run || is_leaf != (page->block.kind != page_kind::branch)) {
            return status::corrupted;
        }
        if (page->birth < beyond_.since) {
            return status::ok;
        }
        if (number >= beyond_.bound) {
            HF_STORE_TRY(own(number));
        }
        const unsigned count = page->block.count;
        for (unsigned i = 0; i < count; ++i) {
            HF_STORE_TRY(is_leaf ? move_tree_at(number, i, nested) : move_child_at(record, number, i, depth, nested));
        }
        return status::ok;
    }

    [[nodiscard]] status move_child_at(const tree_record& record, std::uint64_t& number, unsigned index, unsigned depth,
                                       unsigned nested) {
        const page_header* page = nullptr;
        HF_STORE_TRY(pages_.get(number, page));
        const std::uint64_t before = child_at(page->block, index);
        std::uint64_t child = before;
        HF_STORE_TRY(move_page(record, child, depth + 1, nested));
        if (child != before) {
            HF_STORE_TRY(own(number));
            set_child(pages_.writable(number)->block, index, child);
        }
        return status::ok;
    }

    [[nodiscard]] status move_tree_at(std::uint64_t& number, unsigned index, unsigned nested) {
        const page_header* page = nullptr;
        HF_STORE_TRY(pages_.get(number, page));
        if ((flags_at(page->block, index) & node_is_tree) == 0) {
            return status::ok;
        }
        tree_record record = record_from(value_at(page->block, index));
        const std::uint64_t before = record.root;
        HF_STORE_TRY(move(record, nested + 1));
        if (record.root != before) {
            HF_STORE_TRY(own(number));
            std::memcpy(mutable_value_at(pages_.writable(number)->block, index), &record, sizeof(record));
        }
        return status::ok;
    }

    // map_full: there is no room below.
    [[nodiscard]] status own(std::uint64_t& number) {
        HF_STORE_TRY(pages_.own(number));
        return number < beyond_.bound ? status::ok : status::map_full;
    }

    transaction_pages& pages_;
    limit_excess::pages beyond_;
};

status commit_moves(environment& env, write_state& state) {
    engine& store = env.store();
    if (!env.is_in_heap()) {
        return store.commit(state.changes, state.lock);
    }
    const std::uint64_t number = state.changes.version.transaction;
    HF_STORE_TRY(store.prepare(state.changes));
    const status of_heap = env.ask_heap(number);
    if (of_heap == status::ok) {
        store.commit_prepared();
        return status::ok;
    }
    if (of_heap == status::panic) {
        store.give_up();
        return of_heap;
    }
    HF_STORE_TRY(store.abort_prepared());
    return of_heap;
}

status move_pages(environment& env, const limit_excess::pages& beyond) {
    engine& store = env.store();
    write_state state;
    HF_STORE_TRY(store.begin_write(state.lock, state.changes, lock_mode::tries));
    state.changes.frees_space = true;
    state.changes.stays_within = true;
    status outcome = status::no_memory;
    try {
        transaction_pages pages;
        pages.write(store, state);
        tree_record main = state.changes.version.main;
        outcome = page_mover(pages, beyond).move(main, 0);
        state.changes.version.main = main;
        if (outcome == status::ok && !state.changes.dirty.empty()) {
            outcome = commit_moves(env, state);
        }
    } catch (const std::bad_alloc&) {
        outcome = status::no_memory;
    }
    store.roll_back(state.changes, state.lock);  // of what was not committed
    return outcome;
}

}  // namespace

void move_pages_within_limit(environment& env) noexcept {
    try {
        engine& store = env.store();
        const limit_excess::pages beyond = store.excess().noted();
        if (beyond.bound == 0 || store.pages().shared().is_read()) {
            return;
        }
        const status outcome = move_pages(env, beyond);
        if (outcome == status::ok || (beyond.since == 0 && is_no_room(outcome))) {
            store.excess().end();  // the limit may have been lowered to less than the store has
        }
        if (outcome != status::ok) {
            return;
        }
        // One leads beyond the versions that see the pages, the next one's store ends before them; the list of free
        // pages may lie behind them.
        for (int i = 0; i < 4 && store.pages().last_root().next_page > store.pages().limit_pages(); ++i) {
            if (store.checkpoint_now({.purpose = checkpoint_purpose::shorter}, lock_mode::tries) != status::ok) {
                return;  // later ones do it
            }
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

void move_pages_of_others_within_limit(environment& env) noexcept {
    engine& store = env.store();
    if (env.is_in_heap() || store.pages().reads_metas()) {
        return;  // in a heap: a transaction of the heap may be on
    }
    store.excess().inspect(store.pages(), store.pages().last_root());
    move_pages_within_limit(env);
}

}  // namespace holdfast::store_engine
