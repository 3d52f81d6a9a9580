// What commands do to the model.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "store/store_model.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t largest_key = 511;

}  // namespace

void item_sum::add(std::string_view key, std::string_view data) {
    const std::uint64_t item = std::hash<std::string_view>{}(key)*31 + std::hash<std::string_view>{}(data);
    sum_ = random_words::mix(sum_ + item);
    ++count_;
}

std::string item_sum::text() const { return fmt::format("{} items, {:x}", count_, sum_); }

outcome store_model::perform(const command& called) {
    switch (called.what) {
        case action::nothing: return {};
        case action::begin:
        case action::commit:
        case action::abort:
        case action::reopen:
        case action::copy:
        case action::misuse_parent: return perform_transaction(called);
        case action::read_begin:
        case action::read_reset:
        case action::read_renew:
        case action::read_abort: return perform_reader(called);
        case action::put: return put(called);
        case action::del: return del(called);
        case action::empty:
        case action::remove:
        case action::open_database: return perform_handle(called);
        case action::cursor_open:
        case action::cursor_close:
        case action::cursor_renew: return perform_cursor_handle(called);
        case action::cursor_get: return cursor_get(called);
        case action::cursor_put: return cursor_put(called);
        case action::cursor_del: return cursor_del(called);
        case action::put_multiple: return put_multiple(called);
        default: return read(called);
    }
}

void store_model::end_level(bool committed) {
    const std::size_t depth = levels_.size();
    std::erase_if(cursors_, [&](const auto& one) { return one.second.reader == 0 && one.second.level == depth; });
    level ended = std::move(levels_.back());
    levels_.pop_back();
    if (committed) {
        (levels_.empty() ? committed_ : levels_.back().now) = std::move(ended.now);
    } else {
        for (auto& [id, before] : ended.cursors_before) {
            cursors_[id] = before;
        }
    }
    if (levels_.empty()) {
        handles_ &= committed ? ~0U : ~handles_pending_;
        handles_pending_ = 0;
    }
}

outcome store_model::perform_transaction(const command& called) {
    switch (called.what) {
        case action::begin: {
            level made{levels_.empty() ? committed_ : levels_.back().now, {}};
            for (const auto& [id, one] : cursors_) {
                if (one.reader == 0) {
                    made.cursors_before[id] = one;
                }
            }
            levels_.push_back(std::move(made));
            return just(0);
        }
        case action::commit: end_level(true); return just(0);
        case action::abort: end_level(false); return just(0);
        case action::reopen:
            handles_ = 0;
            for (const char database : called.key) {
                handles_ |= 1U << static_cast<unsigned>(database);
                auto& one = committed_[static_cast<std::size_t>(database)];
                if (!one) {
                    one = std::make_shared<content>(order{&kind_of(static_cast<unsigned>(database)), false});
                }
            }
            return just(0);
        case action::copy: {
            std::string sums;
            for (const char database : called.key) {
                item_sum sum;
                for (const auto& [key, items] : *committed_[static_cast<std::size_t>(database)]) {
                    for (const std::string& data : items) {
                        sum.add(key, data);
                    }
                }
                sums += sum.text() + "; ";
            }
            outcome made = just(0);
            made.data = sums;
            return made;
        }
        default: return just(MDB_BAD_TXN);
    }
}

void store_model::forget_cursors_of(unsigned reader) {
    for (auto& [id, one] : cursors_) {
        if (one.reader == reader) {
            one.where = place::dead;
        }
    }
}

outcome store_model::perform_reader(const command& called) {
    reader_state& reader = readers_[called.reader];
    if (called.what == action::read_begin || called.what == action::read_renew) {
        reader = {reading::live, committed_, handles_ & ~handles_pending_};
    } else {
        forget_cursors_of(called.reader);
        reader.state = called.what == action::read_reset ? reading::reset : reading::none;
    }
    return just(0);
}

store_model::content& store_model::writable(unsigned database) {
    auto& shared = levels_.back().now[database];
    if (shared.use_count() > 1) {  // another version has it too
        shared = std::make_shared<content>(*shared);
    }
    return *shared;
}

void store_model::disturb(unsigned database, const std::string& changed, unsigned but) {
    const bool dups = kind_of(database).sorts_duplicates();
    const content& all = *levels_.back().now[database];
    for (auto& [id, one] : cursors_) {
        if (id == but || one.database != database || one.reader != 0 || one.where == place::unset) {
            continue;
        }
        bool there = one.where == place::on && (strict_ || !dups || one.key != changed);
        if (there) {
            const auto found = all.find(one.key);
            there = found != all.end() && (!dups || found->second.count(one.data) != 0);
            if (there && !dups) {
                one.data = *found->second.begin();
            }
        }
        one.where = there ? place::on : place::lost;
    }
}

outcome store_model::perform_handle(const command& called) {
    auto& now = levels_.back().now[called.database];
    const unsigned bit = 1U << called.database;
    const auto fresh = [&] { return std::make_shared<content>(order{&kind_of(called.database), false}); };
    if (called.what == action::open_database) {
        if (!now && called.flags == 0) {
            return just(MDB_NOTFOUND);
        }
        handles_ |= bit;
        handles_pending_ |= bit;
        now = now ? now : fresh();
        return just(0);
    }
    if (called.what == action::remove) {
        handles_ &= ~bit;
        handles_pending_ &= ~bit;
        now = nullptr;
        return just(0);
    }
    now = fresh();
    for (auto& [id, one] : cursors_) {
        one.where = one.database == called.database && one.reader == 0 ? place::lost : one.where;
    }
    return just(0);
}

outcome store_model::put(const command& called) {
    const database_kind& kind = kind_of(called.database);
    if (called.reader != 0) {
        return just(EACCES);
    }
    if (called.key.empty() || called.key.size() > largest_key ||
        (kind.sorts_duplicates() && called.data.size() > largest_key)) {
        return just(MDB_BAD_VALSIZE);
    }
    const content& all = *levels_.back().now[called.database];
    const auto found = all.find(called.key);
    outcome made = just(0);
    if ((called.flags & MDB_NOOVERWRITE) != 0 && found != all.end()) {
        made.code = MDB_KEYEXIST;
        if (!kind.sorts_duplicates() && called.what == action::put) {
            made.data = *found->second.begin();
        }
        return made;
    }
    const bool behind_all = all.empty() || compare_in(kind, false, called.key, all.rbegin()->first) > 0;
    const bool behind_dups = found == all.end() || compare_in(kind, true, called.data, *found->second.rbegin()) > 0;
    if (((called.flags & MDB_APPEND) != 0 && !behind_all) || ((called.flags & MDB_APPENDDUP) != 0 && !behind_dups) ||
        ((called.flags & MDB_NODUPDATA) != 0 && found != all.end() && found->second.count(called.data) != 0)) {
        return just(MDB_KEYEXIST);
    }
    auto& items = writable(called.database).try_emplace(called.key, duplicates(order{&kind, true})).first->second;
    if (!kind.sorts_duplicates()) {
        items.clear();
    }
    items.insert(called.data);
    disturb(called.database, called.key, called.cursor);
    return made;
}

outcome store_model::del(const command& called) {
    const database_kind& kind = kind_of(called.database);
    if (called.reader != 0) {
        return just(EACCES);
    }
    const content& all = *levels_.back().now[called.database];
    const auto found = all.find(called.key);
    const bool one_item = called.has_data && kind.sorts_duplicates();
    if (found == all.end() || (one_item && found->second.count(called.data) == 0)) {
        return just(MDB_NOTFOUND);
    }
    content& changed = writable(called.database);
    const auto here = changed.find(called.key);
    if (one_item && here->second.size() > 1) {
        here->second.erase(called.data);
    } else {
        changed.erase(here);
    }
    disturb(called.database, called.key, 0);
    return just(0);
}

outcome store_model::put_multiple(const command& called) {
    const database_kind& kind = kind_of(called.database);
    auto& items = writable(called.database).try_emplace(called.key, duplicates(order{&kind, true})).first->second;
    outcome made = just(0);
    made.number = called.data.size() / kind.data_bytes;
    for (std::size_t at = 0; at < called.data.size(); at += kind.data_bytes) {
        items.insert(called.data.substr(at, kind.data_bytes));
    }
    disturb(called.database, called.key, called.cursor);
    cursors_.at(called.cursor).where = place::lost;
    return made;
}

outcome store_model::read(const command& called) const {
    const database_kind& kind = kind_of(called.database);
    outcome made = just(0);
    if (called.what == action::compare) {
        const int sign = compare_in(kind, called.flags != 0, called.key, called.data);
        made.number = sign < 0 ? 0U : sign > 0 ? 2U : 1U;
        return made;
    }
    if (called.what == action::cursor_count) {
        const cursor& used = cursors_.at(called.cursor);
        made.number = seen_by(used.reader, used.database)->find(used.key)->second.size();
        return made;
    }
    const content& all = *seen_by(called.reader, called.database);
    const auto found = all.find(called.key);
    switch (called.what) {
        case action::get:
            if (found == all.end()) {
                return just(MDB_NOTFOUND);
            }
            made.data = *found->second.begin();
            return made;
        case action::get_multiple:
            if (found == all.end()) {
                return just(MDB_NOTFOUND);
            }
            made.data = "";
            for (const std::string& data : found->second) {
                *made.data += data;
            }
            return made;
        default: break;
    }
    item_sum sum;
    made.number = 0;
    for (const auto& [key, items] : all) {
        *made.number += items.size();
        for (const std::string& data : items) {
            if (called.what == action::scan) {
                sum.add(key, data);
            }
        }
    }
    if (called.what == action::scan) {
        made.data = sum.text();
    }
    return made;
}

outcome store_model::perform_cursor_handle(const command& called) {
    switch (called.what) {
        case action::cursor_open: {
            cursor made;
            made.database = called.database;
            made.reader = called.reader;
            made.level = levels_.size();
            cursors_[called.cursor] = made;
            next_cursor_ = called.cursor + 1;
            return just(0);
        }
        case action::cursor_renew: {
            cursor& renewed = cursors_.at(called.cursor);
            renewed.reader = called.flags;
            renewed.where = place::unset;
            return just(0);
        }
        default: cursors_.erase(called.cursor); return just(0);
    }
}

}  // namespace holdfast::test
