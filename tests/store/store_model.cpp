// Which command a step means in a state of the model.
#include "store/store_model.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace holdfast::test {
namespace {

std::string filled(std::uint64_t word, std::size_t size) {
    std::string bytes(size, '\0');
    random_words random(word);
    for (char& byte : bytes) {
        byte = static_cast<char>('a' + random.below(7) + (random.below(40) == 0 ? 120 : 0));
    }
    return bytes;
}

std::string integer(std::uint64_t word, std::size_t bytes) { return {reinterpret_cast<const char*>(&word), bytes}; }

std::string key_of(const database_kind& kind, std::uint64_t word) {
    // Few keys where each has many duplicates.
    const std::uint64_t number = random_words::mix(word % (kind.sorts_duplicates() ? 40 : 400));
    if (kind.key_bytes != 0) {
        return integer(number >> (64 - 8 * kind.key_bytes), kind.key_bytes);
    }
    const std::size_t size = number % 13 == 0 ? 1 + (number >> 8U) % 511 : 1 + (number >> 8U) % 20;
    return filled(number % 3 == 0 ? 1 : number, size - size / 2) + filled(number, size / 2);
}

std::string data_of(const database_kind& kind, std::uint64_t word) {
    const std::uint64_t number = random_words::mix(word % 1000);
    if (kind.data_bytes != 0) {
        return integer(number >> (64 - 8 * kind.data_bytes), kind.data_bytes);
    }
    if (kind.sorts_duplicates()) {
        return filled(number, number % 11 == 0 ? 1 + (number >> 8U) % 511 : 1 + (number >> 8U) % 30);
    }
    const std::uint64_t large = word >> 32U;
    const std::size_t size = large % 40 == 0 ? 2000 + large % 30000 : large % 10 == 0 ? large % 3000 : large % 90;
    return filled(word, size);
}

/// One of the bits that are set; none may be.
unsigned draw_bit(unsigned bits, std::uint64_t word) {
    const auto count = static_cast<unsigned>(std::popcount(bits));
    for (std::uint64_t left = count == 0 ? 0 : word % count; left > 0; --left) {
        bits &= bits - 1;
    }
    return bits == 0 ? 0 : static_cast<unsigned>(std::countr_zero(bits));
}

}  // namespace

store_model::store_model(unsigned databases, bool nesting, bool strict)
    : databases_(databases), nesting_(nesting), strict_(strict) {}

command store_model::creation() const {
    command made;
    made.what = action::reopen;
    made.flags = MDB_CREATE;
    for (unsigned database = 0; database < kinds_of_databases; ++database) {
        if ((databases_ >> database & 1U) != 0) {
            made.key += static_cast<char>(database);
        }
    }
    return made;
}

command store_model::resolve(const step& taken) const {
    switch (taken.what) {
        case action::nothing: return {};
        case action::begin:
        case action::commit:
        case action::abort:
        case action::reopen:
        case action::copy:
        case action::misuse_parent: return resolve_transaction(taken);
        case action::read_begin:
        case action::read_reset:
        case action::read_renew:
        case action::read_abort: return resolve_reader(taken);
        case action::put:
        case action::del: return resolve_write(taken);
        case action::empty:
        case action::remove:
        case action::open_database: return resolve_handle(taken);
        case action::get:
        case action::entries:
        case action::scan:
        case action::get_multiple:
        case action::compare: return resolve_read(taken);
        default: return resolve_cursor(taken);
    }
}

bool store_model::idle() const {
    return levels_.empty() && cursors_.empty() &&
           std::all_of(readers_.begin(), readers_.end(),
                       [](const reader_state& one) { return one.state == reading::none; });
}

std::string store_model::existing() const {
    std::string list;
    for (unsigned database = 0; database < kinds_of_databases; ++database) {
        if (committed_[database]) {
            list += static_cast<char>(database);
        }
    }
    return list;
}

command store_model::resolve_transaction(const step& taken) const {
    command made;
    made.what = taken.what;
    bool possible = false;
    switch (taken.what) {
        case action::begin:
            possible = levels_.empty() || (nesting_ && levels_.size() < deepest && taken.words[0] % 3 == 0);
            break;
        case action::reopen:
            possible = idle();
            made.key = existing();
            break;
        case action::copy:
            possible = levels_.empty();
            made.key = existing();
            made.flags = taken.words[0] % 2 == 0 ? MDB_CP_COMPACT : 0;
            break;
        case action::misuse_parent:
            possible = levels_.size() > 1 && handles_ != 0;
            made.database = draw_bit(handles_, taken.words[0]);
            draw_item(taken, made);
            break;
        default: possible = !levels_.empty(); break;
    }
    return possible ? made : command{};
}

command store_model::resolve_reader(const step& taken) const {
    command made;
    made.what = taken.what;
    made.reader = 1 + static_cast<unsigned>(taken.words[0] % readers);
    const reading state = readers_[made.reader].state;
    const bool possible = taken.what == action::read_begin   ? state == reading::none
                          : taken.what == action::read_reset ? state == reading::live
                          : taken.what == action::read_renew ? state == reading::reset
                                                             : state != reading::none;
    return possible ? made : command{};
}

void store_model::draw_item(const step& taken, command& made) const {
    const database_kind& kind = kind_of(made.database);
    made.key = key_of(kind, taken.words[1]);
    made.data = data_of(kind, taken.words[2]);
    made.has_data = true;
    // What is there is drawn as often as chance alone would not.
    const content* const all = seen_by(made.reader, made.database);
    if (all != nullptr && !all->empty() && taken.words[3] % 2 == 0) {
        auto found = all->lower_bound(made.key);
        found = found == all->end() ? all->begin() : found;
        made.key = found->first;
        if (kind.sorts_duplicates() && taken.words[3] % 4 == 0) {
            const auto item = found->second.lower_bound(made.data);
            made.data = item == found->second.end() ? *found->second.begin() : *item;
        }
    }
}

void store_model::draw_put_flags(const step& taken, command& made) const {
    const database_kind& kind = kind_of(made.database);
    const std::uint64_t word = taken.words[4];
    if (kind.sorts_duplicates()) {
        constexpr unsigned flags[] = {
            0, 0, 0, MDB_NODUPDATA, MDB_NODUPDATA, MDB_NOOVERWRITE, MDB_APPEND, MDB_APPENDDUP};
        made.flags = flags[word % std::size(flags)];
    } else {
        constexpr unsigned flags[] = {0, 0, 0, 0, MDB_NOOVERWRITE, MDB_RESERVE, MDB_RESERVE, MDB_APPEND};
        made.flags = flags[word % std::size(flags)];
    }
    switch (word >> 8U & 63U) {
        case 0: made.key.clear(); break;
        case 1:
            if (kind.key_bytes == 0) {
                made.key.assign(512, 'k');
            }
            break;
        case 2:
            if (kind.sorts_duplicates() && kind.data_bytes == 0) {
                made.data.assign(512, 'd');
            }
            break;
        default: break;
    }
}

command store_model::resolve_write(const step& taken) const {
    command made;
    made.what = taken.what;
    if (levels_.empty()) {
        // A write in a transaction that only reads.
        made.reader = 1 + static_cast<unsigned>(taken.words[5] % readers);
        if (readers_[made.reader].state != reading::live) {
            return {};
        }
    }
    const unsigned usable = handles_of(made.reader);
    if (usable == 0) {
        return {};
    }
    made.database = draw_bit(usable, taken.words[0]);
    draw_item(taken, made);
    if (taken.what == action::put) {
        draw_put_flags(taken, made);
    } else {
        made.has_data = kind_of(made.database).sorts_duplicates() ? taken.words[4] % 5 != 0 : taken.words[4] % 2 == 0;
    }
    return made;
}

command store_model::resolve_handle(const step& taken) const {
    command made;
    made.what = taken.what;
    const bool no_readers = std::all_of(readers_.begin(), readers_.end(),
                                        [](const reader_state& one) { return one.state == reading::none; });
    const unsigned wanted = taken.what == action::open_database ? databases_ & ~handles_ : handles_;
    if (wanted == 0 || levels_.empty() || (taken.what != action::empty && levels_.size() > 1)) {
        return {};
    }
    made.database = draw_bit(wanted, taken.words[0]);
    if (taken.what == action::open_database) {
        made.flags = taken.words[1] % 8 == 0 ? 0 : MDB_CREATE;
    }
    if (taken.what == action::remove) {
        const bool used = std::any_of(cursors_.begin(), cursors_.end(),
                                      [&](const auto& one) { return one.second.database == made.database; });
        if (used || !no_readers) {
            return {};
        }
    }
    return made;
}

unsigned store_model::handles_of(unsigned reader) const {
    return reader == 0 ? handles_ : readers_[reader].handles & handles_;
}

const store_model::content* store_model::seen_by(unsigned reader, unsigned database) const {
    if (reader != 0) {
        return readers_[reader].seen[database].get();
    }
    return levels_.empty() ? nullptr : levels_.back().now[database].get();
}

command store_model::resolve_read(const step& taken) const {
    command made;
    made.what = taken.what;
    made.reader = static_cast<unsigned>(taken.words[5] % (readers + 1));
    if (made.reader == 0 ? levels_.empty() : readers_[made.reader].state != reading::live) {
        return {};
    }
    const unsigned usable = handles_of(made.reader);
    if (usable == 0) {
        return {};
    }
    made.database = draw_bit(usable, taken.words[0]);
    const database_kind& kind = kind_of(made.database);
    draw_item(taken, made);
    made.has_data = false;
    switch (taken.what) {
        case action::get_multiple:
            if ((kind.flags & MDB_DUPFIXED) == 0) {
                return {};
            }
            made.flags = static_cast<unsigned>(taken.words[4] % 2);
            break;
        case action::compare:
            made.flags = kind.sorts_duplicates() ? static_cast<unsigned>(taken.words[4] % 2) : 0;
            made.data = made.flags != 0 ? data_of(kind, taken.words[2]) : key_of(kind, taken.words[2]);
            made.key = made.flags != 0 ? data_of(kind, taken.words[1]) : made.key;
            made.has_data = true;
            break;
        default: break;
    }
    return made;
}

command store_model::resolve_cursor(const step& taken) const {
    command made;
    made.what = taken.what;
    if (taken.what == action::cursor_open) {
        made.reader = static_cast<unsigned>(taken.words[5] % (readers + 1));
        const unsigned usable = handles_of(made.reader);
        const bool live = made.reader == 0 ? !levels_.empty() : readers_[made.reader].state == reading::live;
        if (!live || usable == 0 || cursors_.size() >= 8) {
            return {};
        }
        made.database = draw_bit(usable, taken.words[0]);
        made.cursor = next_cursor_;
        return made;
    }
    if (cursors_.empty()) {
        return {};
    }
    auto drawn = cursors_.begin();
    std::advance(drawn, static_cast<std::ptrdiff_t>(taken.words[0] % cursors_.size()));
    const cursor& used = drawn->second;
    made.cursor = drawn->first;
    made.database = used.database;
    made.reader = used.reader;
    if (used.reader == 0 && used.level != levels_.size()) {
        return {};  // its transaction has a child
    }
    if (taken.what == action::cursor_close) {
        return made;
    }
    if (taken.what == action::cursor_renew) {
        made.flags = 1 + static_cast<unsigned>(taken.words[1] % readers);
        const bool possible = used.reader != 0 && readers_[made.flags].state == reading::live &&
                              (handles_of(made.flags) >> used.database & 1U) != 0;
        return possible ? made : command{};
    }
    if (used.where == place::dead) {
        return {};
    }
    draw_item(taken, made);
    switch (taken.what) {
        case action::cursor_get: return resolve_cursor_get(taken, std::move(made));
        case action::cursor_put: return resolve_cursor_put(taken, std::move(made));
        case action::cursor_count:
            made.has_data = false;
            made.key.clear();
            return used.where == place::on && kind_of(used.database).sorts_duplicates() ? made : command{};
        case action::cursor_del:
            made.has_data = false;
            made.key.clear();
            made.flags = kind_of(used.database).sorts_duplicates() && taken.words[4] % 3 == 0 ? MDB_NODUPDATA : 0;
            return used.where == place::on || used.where == place::unset ? made : command{};
        case action::put_multiple: {
            const std::size_t size = kind_of(used.database).data_bytes;
            if ((kind_of(used.database).flags & MDB_DUPFIXED) == 0 || used.reader != 0) {
                return {};
            }
            made.data.clear();
            for (std::uint64_t i = 0; i <= taken.words[4] % 60; ++i) {
                made.data += data_of(kind_of(used.database), taken.words[2] + 7 * i).substr(0, size);
            }
            // Where the first element is all that a key has, liblmdb 0.9.24 leaves the others out.
            const content& all = *seen_by(0, used.database);
            const auto there = all.find(made.key);
            const bool odd =
                there != all.end() && there->second.size() == 1 && there->second.count(made.data.substr(0, size)) != 0;
            return strict_ || !odd ? made : command{};
        }
        default: return {};
    }
}

command store_model::resolve_cursor_get(const step& taken, command made) const {
    const cursor& used = cursors_.at(made.cursor);
    const bool dups = kind_of(used.database).sorts_duplicates();
    constexpr unsigned anywhere[] = {MDB_FIRST, MDB_LAST, MDB_SET, MDB_SET_KEY, MDB_SET_RANGE, MDB_SET_RANGE};
    constexpr unsigned anywhere_dups[] = {MDB_GET_BOTH, MDB_GET_BOTH_RANGE};
    constexpr unsigned from_place[] = {MDB_NEXT, MDB_NEXT,        MDB_NEXT,       MDB_PREV,
                                       MDB_PREV, MDB_GET_CURRENT, MDB_NEXT_NODUP, MDB_PREV_NODUP};
    constexpr unsigned from_place_dups[] = {MDB_NEXT_DUP, MDB_PREV_DUP, MDB_FIRST_DUP, MDB_LAST_DUP};
    constexpr unsigned from_unset[] = {MDB_NEXT, MDB_NEXT_NODUP, MDB_GET_CURRENT};
    const std::uint64_t word = taken.words[4];
    const auto choose = [&](const auto& list) { return list[(word >> 16U) % std::size(list)]; };
    const bool relative = used.where != place::lost && word % 4 != 0;
    if (!relative) {
        made.flags = dups && word % 16 < 6 ? choose(anywhere_dups) : choose(anywhere);
        made.has_data = made.flags == MDB_GET_BOTH || made.flags == MDB_GET_BOTH_RANGE;
    } else {
        made.has_data = false;
        made.key.clear();
        switch (used.where) {
            case place::on: made.flags = dups && word % 12 < 6 ? choose(from_place_dups) : choose(from_place); break;
            // Where nothing is read yet, LMDB documents no operation; programs rely on those that begin at an end.
            case place::unset: made.flags = dups ? choose(from_unset) : choose(from_place); break;
            default: made.flags = MDB_NEXT; break;
        }
        const_item next;
        const content* const all = seen_by(used.reader, used.database);
        if (used.where == place::deleted && !dups && word % 12 < 6 && find_next(*all, used, MDB_NEXT, next)) {
            made.flags = MDB_GET_CURRENT;
        }
    }
    if (made.flags == MDB_FIRST || made.flags == MDB_LAST) {
        made.key.clear();
    }
    return made;
}

command store_model::resolve_cursor_put(const step& taken, command made) const {
    const cursor& used = cursors_.at(made.cursor);
    if (used.where == place::on && taken.words[5] % 4 == 0) {
        made.flags = MDB_CURRENT;
        made.key = used.key;
        if (kind_of(used.database).sorts_duplicates()) {
            made.data = used.data;  // it must still sort into the same place
        }
        return made;
    }
    draw_put_flags(taken, made);
    return made;
}

command store_model::ending() {
    command made;
    if (!levels_.empty()) {
        made.what = action::commit;
        return made;
    }
    if (!cursors_.empty()) {
        made.what = action::cursor_close;
        made.cursor = cursors_.begin()->first;
        return made;
    }
    made.reader = 1;
    const unsigned left = handles_of(1) & ~ended_databases_;
    if (ending_ && readers_[1].state == reading::live && left != 0) {
        made.what = action::scan;
        made.database = draw_bit(left, 0);
        ended_databases_ |= 1U << made.database;
        return made;
    }
    for (; made.reader <= readers; ++made.reader) {
        if (readers_[made.reader].state != reading::none) {
            made.what = action::read_abort;
            return made;
        }
    }
    if (!ending_) {
        ending_ = true;
        made.what = action::read_begin;
        made.reader = 1;
        return made;
    }
    return {};
}

}  // namespace holdfast::test
