// Cursors of the model.
#include <cerrno>
#include <iterator>

#include "store/store_model.hpp"

namespace holdfast::test {
outcome store_model::stand_on(cursor& moved, const const_item& item) {
    moved.where = place::on;
    moved.whole_key_deleted = false;
    moved.key = item.first->first;
    moved.data = *item.second;
    outcome made = just(0);
    made.key = moved.key;
    made.data = moved.data;
    return made;
}

bool store_model::find_next(const content& all, const cursor& from, unsigned op, const_item& found) {
    auto key = all.lower_bound(from.key);
    if (key != all.end() && key->first == from.key) {
        const auto data = key->second.upper_bound(from.data);
        if (op != MDB_NEXT_NODUP && !from.whole_key_deleted && data != key->second.end()) {
            found = {key, data};
            return true;
        }
        if (op == MDB_NEXT_DUP) {
            return false;
        }
        ++key;
    }
    if (key == all.end() || op == MDB_NEXT_DUP) {
        return false;
    }
    found = {key, key->second.begin()};
    return true;
}

bool store_model::find_previous(const content& all, const cursor& from, unsigned op, const_item& found) {
    auto key = all.lower_bound(from.key);
    const auto data = key->second.lower_bound(from.data);
    if (op != MDB_PREV_NODUP && data != key->second.begin()) {
        found = {key, std::prev(data)};
        return true;
    }
    if (op == MDB_PREV_DUP || key == all.begin()) {
        return false;
    }
    --key;
    found = {key, std::prev(key->second.end())};
    return true;
}

outcome store_model::cursor_relative(cursor& moved, const content& all, unsigned op) {
    const_item found;
    const bool unset = moved.where == place::unset;
    switch (op) {
        case MDB_GET_CURRENT:
            if (unset) {
                return just(EINVAL);
            }
            if (moved.where == place::deleted) {
                if (!find_next(all, moved, MDB_NEXT, found)) {
                    return {};
                }
                return stand_on(moved, found);
            }
            {
                const auto key = all.find(moved.key);
                return stand_on(moved, {key, key->second.find(moved.data)});
            }
        case MDB_NEXT:
        case MDB_NEXT_NODUP:
        case MDB_NEXT_DUP:
            if (unset ? !all.empty() : moved.where != place::ended && find_next(all, moved, op, found)) {
                return stand_on(moved, unset ? const_item{all.begin(), all.begin()->second.begin()} : found);
            }
            moved.saw_end = true;
            moved.where = op == MDB_NEXT && !unset && moved.where != place::deleted ? place::ended : place::lost;
            return just(MDB_NOTFOUND);
        case MDB_FIRST_DUP:
        case MDB_LAST_DUP: {
            const auto key = all.find(moved.key);
            outcome made =
                stand_on(moved, {key, op == MDB_FIRST_DUP ? key->second.begin() : std::prev(key->second.end())});
            made.key.reset();  // only the data is set
            // After MDB_LAST and MDB_FIRST_DUP, liblmdb 0.9.24 finds no next duplicate.
            moved.where = strict_ || op == MDB_LAST_DUP ? place::on : place::lost;
            return made;
        }
        default:
            if (unset ? !all.empty() : find_previous(all, moved, op, found)) {
                const auto last = all.empty() ? all.end() : std::prev(all.end());
                return stand_on(moved, unset ? const_item{last, std::prev(last->second.end())} : found);
            }
            moved.where = place::lost;
            return just(MDB_NOTFOUND);
    }
}

outcome store_model::cursor_get(const command& called) {
    cursor& moved = cursors_.at(called.cursor);
    const content& all = *seen_by(moved.reader, moved.database);
    auto key = all.end();
    switch (called.flags) {
        case MDB_FIRST: key = all.begin(); break;
        case MDB_LAST: key = all.empty() ? all.end() : std::prev(all.end()); break;
        case MDB_SET:
        case MDB_SET_KEY:
        case MDB_GET_BOTH:
        case MDB_GET_BOTH_RANGE: key = all.find(called.key); break;
        case MDB_SET_RANGE: key = all.lower_bound(called.key); break;
        default: return cursor_relative(moved, all, called.flags);
    }
    if (key == all.end()) {
        moved.where = place::lost;
        return just(MDB_NOTFOUND);
    }
    auto data = key->second.begin();
    if (called.flags == MDB_LAST) {
        data = std::prev(key->second.end());
    } else if (called.flags == MDB_GET_BOTH || called.flags == MDB_GET_BOTH_RANGE) {
        data = called.flags == MDB_GET_BOTH ? key->second.find(called.data) : key->second.lower_bound(called.data);
    }
    if (data == key->second.end()) {
        moved.where = place::lost;
        return just(MDB_NOTFOUND);
    }
    outcome made = stand_on(moved, {key, data});
    moved.saw_end = called.flags != MDB_FIRST && (moved.saw_end || called.flags == MDB_LAST);
    if (called.flags == MDB_SET || called.has_data) {
        made.key.reset();
    }
    return made;
}

outcome store_model::cursor_put(const command& called) {
    cursor& moved = cursors_.at(called.cursor);
    outcome made = put(called);
    moved.saw_end = moved.saw_end || (called.flags & MDB_APPEND) != 0;
    if (made.code == 0) {
        moved.where = place::on;
        moved.whole_key_deleted = false;
        moved.key = called.key;
        moved.data = called.data;
    } else if (moved.reader == 0) {
        moved.where = place::lost;
    }
    return made;
}

outcome store_model::cursor_del(const command& called) {
    cursor& moved = cursors_.at(called.cursor);
    if (moved.reader != 0) {
        return just(EACCES);
    }
    if (moved.where == place::unset) {
        return just(EINVAL);
    }
    content& changed = writable(moved.database);
    const auto here = changed.find(moved.key);
    moved.whole_key_deleted = called.flags != 0 || here->second.size() == 1;
    if (moved.whole_key_deleted) {
        changed.erase(here);
    } else {
        here->second.erase(moved.data);
    }
    // Once a cursor has been at the end, liblmdb 0.9.24 may not find what follows the item that it removes; and
    // after the removal of a key's last duplicate, it may begin with the second item of the next key.
    const bool odd = moved.saw_end || (kind_of(moved.database).sorts_duplicates() && moved.whole_key_deleted);
    moved.where = strict_ || !odd ? place::deleted : place::lost;
    disturb(moved.database, moved.key, called.cursor);
    return just(0);
}

}  // namespace holdfast::test
