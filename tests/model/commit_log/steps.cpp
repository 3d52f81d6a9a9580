// The steps of processes: opening, reading, transactions, death.
#include "model/commit_log/steps.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace holdfast::commit_log_model {

namespace {

constexpr byte all_sectors = (1U << unsigned{sectors}) - 1;

}  // namespace

std::string describe(const label& step) {
    return std::string(step.name) + " (process " + std::to_string(step.who) + ", " + std::to_string(step.what) + ")";
}

void protocol::for_each_step(const state& from, const visitor& visit) {
    for (int who = 0; who < process_count; ++who) {
        const bool may_exist = who == reader ? world_.readings > 0 : who < world_.writers;
        if (!may_exist) {
            continue;
        }
        if (from.processes[who].at == phase::closed) {
            opening(from, who, visit);
            continue;
        }
        reading(from, who, visit);
        if (who != reader && from.processes[who].at == phase::open) {
            transactions(from, who, visit);
            ending(from, who, visit);
            direct_writes(from, who, visit);
        }
        deaths(from, who, visit);
    }
    if (writer_is_open(from) && from.poisoned == 0) {
        syncs(from, visit);
        home_writes(from, visit);
        checkpoints(from, visit);
        holes(from, visit);
    }
}

/// The first process that opens writes the tail again and syncs it before anybody sees it (LOG-7, LOG-8).
void protocol::opening(const state& from, int who, const visitor& visit) {
    const label step{"open", static_cast<byte>(who), 0};
    if (from.poisoned != 0) {
        return;
    }
    if (from.cold == 0) {
        if (who == reader && from.readings == world_.readings) {
            return;
        }
        state next = from;
        if (who == reader) {
            ++next.readings;
        }
        process& own = next.processes[who];
        if (is(mistake::registered_too_late)) {
            own.at = phase::unregistered;
            own.version = next.published;
            own.first = next.on.begin;
        } else {
            own.at = phase::registered;
        }
        visit(next, step);
        return;
    }
    if (who == reader) {
        return;
    }
    state next = from;
    if (from.cold == 1) {
        std::string wrong;
        next.last = static_cast<byte>(scan(from, from.on, from.on.begin, wrong));
        if (!is(mistake::tail_not_written_again)) {
            next.on.lost_slots = 0;
        }
        next.on.lost_begin = 0;
        open_anew(next, next.on.begin);
        if (is(mistake::written_taken_for_durable)) {
            next.published = next.last;
            next.cold = 0;
        } else {
            next.cold = 2;
        }
        visit(next, {wrong.empty() ? "write the tail again" : "LOG-2: a record counts that was never written", step.who,
                     next.last});
        return;
    }
    for (int slot = 0; slot < world_.slots; ++slot) {
        if ((next.on.lost_slots & bit(slot)) == 0) {
            next.on.possible_slot[slot] = {next.on.slot[slot]};
            next.on.possible_slots[slot] = 1;
        }
    }
    next.on.possible_begins = bit(next.on.begin);
    next.published = next.last;
    next.cold = 0;
    visit(next, {"sync the tail and publish", step.who, next.last});
}

/// All that the log holds is to be written home again, but pages that went there before their record.
void protocol::open_anew(state& in, int begin) const {
    in.home_version.fill(static_cast<byte>(begin));
    for (int at = begin + 1; at <= in.last; ++at) {
        const record& one = records_[in.history[at]];
        if (one.kind == entry::direct) {
            in.home_version[one.page] = static_cast<byte>(at);
        }
    }
    if (is(mistake::pages_not_written_again)) {  // what reads right is taken for written
        for (int page = 0; page < world_.pages; ++page) {
            for (int version = in.home_version[page] + 1; version <= in.last; ++version) {
                if (in.on.home[page][0] == content(in, version, page, 0) &&
                    in.on.home[page][1] == content(in, version, page, 1)) {
                    in.home_version[page] = static_cast<byte>(version);
                }
            }
        }
    }
}

void protocol::reading(const state& from, int who, const visitor& visit) {
    const process& own = from.processes[who];
    const auto number = static_cast<byte>(who);
    const int newest = is(mistake::readers_see_written) ? from.last : from.published;
    bool has_lost_its_log = false;
    state next = from;
    process& mine = next.processes[who];
    switch (own.at) {
        case phase::registered:
            mine.at = phase::chosen;
            mine.version = static_cast<byte>(newest);
            mine.first = next.on.begin;
            visit(next, {"choose a version", number, mine.version});
            return;
        case phase::chosen:
        case phase::unregistered:
            mine.at = phase::open;
            lay_over(next, who, mine.first, mine.version, true, has_lost_its_log);
            mine.first = 0;
            next.seen = who == reader ? std::max(next.seen, mine.version) : next.seen;
            visit(next, {has_lost_its_log ? "LOG-5: the log is gone" : "lay the log over home", number, mine.version});
            return;
        default: break;
    }
    if (own.version < newest && from.turn != who + 1) {
        refresh(next, who, newest, has_lost_its_log);
        next.seen = who == reader ? std::max(next.seen, mine.version) : next.seen;
        visit(next, {has_lost_its_log ? "LOG-5: the log is gone" : "refresh", number, mine.version});
    }
    // LOG-12.
    for (int page = 0; page < world_.pages && world_.drops; ++page) {
        const bool stored = from.turn == who + 1 && from.doing == transaction::stored && from.page == page;
        const bool is_written =
            from.home_version[page] >= last_change(from, own.version, page) && from.writing != page + 1;
        if ((own.is_private & bit(page)) != 0 && is_written && (!stored || is(mistake::drop_loses_store))) {
            state dropped = from;
            dropped.processes[who].is_private &= static_cast<byte>(~bit(page));
            dropped.processes[who].copy[page].fill(0);
            visit(dropped, {"drop a page", number, static_cast<byte>(page)});
        }
    }
}

void protocol::refresh(state& in, int who, int version, bool& has_lost_its_log) const {
    lay_over(in, who, in.processes[who].version, version, false, has_lost_its_log);
    in.processes[who].version = static_cast<byte>(version);
}

/// Heeds LOG-10.
void protocol::lay_over(state& in, int who, int from, int to, bool heeds_revocations, bool& has_lost_its_log) const {
    process& own = in.processes[who];
    row<int, most_pages> revoked{};
    for (int at = from + 1; at <= to; ++at) {
        const record& one = records_[in.history[at]];
        has_lost_its_log = has_lost_its_log || in.on.slot[at % world_.slots] != in.history[at];
        if (one.kind == entry::direct && heeds_revocations && !is(mistake::no_revocation)) {
            revoked[one.page] = at;
        }
    }
    for (int at = from + 1; at <= to; ++at) {
        const record& one = records_[in.history[at]];
        if (at < revoked[one.page]) {
            continue;
        }
        auto& copy = own.copy[one.page];
        const byte page = bit(one.page);
        switch (one.kind) {
            case entry::range:
                if ((own.is_private & page) == 0) {
                    copy = in.on.home[one.page];
                    own.is_private |= page;
                }
                for (int sector = 0; sector < sectors; ++sector) {
                    copy[sector] = (one.logged & bit(sector)) != 0 ? one.sequence : copy[sector];
                }
                break;
            case entry::whole:
                copy.fill(one.sequence);
                own.is_private |= page;
                break;
            case entry::direct:
            case entry::freed:
                copy.fill(0);
                own.is_private &= static_cast<byte>(~page);
                break;
        }
    }
}

void protocol::transactions(const state& from, int who, const visitor& visit) {
    if (from.turn != 0 || from.poisoned != 0 || from.last == world_.records || from.appends == world_.appends) {
        return;
    }
    const auto number = static_cast<byte>(who);
    const int next_slot = (from.last + 1) % world_.slots;
    if ((from.on.slot[next_slot] & torn) != 0 && !is(mistake::tail_not_voided)) {  // durably (LOG-2)
        state next = from;
        next.on.slot[next_slot] = 0;
        next.on.possible_slot[next_slot].fill(0);
        next.on.possible_slots[next_slot] = 1;
        next.on.lost_slots &= static_cast<byte>(~bit(next_slot));
        visit(next, {"void the tail", number, 0});
        return;
    }
    state begun = from;
    bool has_lost_its_log = false;
    refresh(begun, who, from.last, has_lost_its_log);
    if (has_lost_its_log) {
        visit(begun, {"LOG-5: the log is gone", number, 0});
        return;
    }
    for (int page = 0; page < world_.pages; ++page) {
        const auto what = static_cast<byte>(page);
        if (is_used(begun, begun.last, page)) {
            for (int sector = 0; sector < sectors && world_.stores; ++sector) {
                state next = begun;
                process& own = next.processes[who];
                if ((own.is_private & bit(page)) == 0) {
                    own.copy[page] = next.on.home[page];
                    own.is_private |= bit(page);
                }
                own.copy[page][sector] = static_cast<byte>(next.last + 1);
                next.turn = static_cast<byte>(who + 1);
                next.doing = transaction::stored;
                next.page = what;
                next.sector = static_cast<byte>(sector);
                visit(next, {"store", number, static_cast<byte>(sectors * page + sector)});
            }
        }
        if (!world_.frees || !has_room(begun, begun.last + 1)) {
            continue;
        }
        state next = begun;
        if (is_used(begun, begun.last, page)) {
            append(next, who, entry::freed, page, 0, 0);
            visit(next, {"commit that frees", number, what});
            continue;
        }
        append(next, who, entry::whole, page, all_sectors, all_sectors);
        visit(next, {"commit of a whole page", number, what});
        const bool heeds_readers = !is(mistake::direct_beside_reader);
        if (world_.direct && begun.writing != page + 1 &&
            is_free_in_all(begun, page, heeds_readers, !is(mistake::free_not_durable))) {
            next = begun;
            next.turn = static_cast<byte>(who + 1);
            next.doing = transaction::direct;
            next.page = what;
            next.sector = 0;
            visit(next, {"begin a direct write", number, what});
        }
    }
}

/// Heeds LOG-11. Stores after an abort repeat what was taken back.
void protocol::ending(const state& from, int who, const visitor& visit) {
    if (from.turn != who + 1 || from.doing != transaction::stored) {
        return;
    }
    const auto number = static_cast<byte>(who);
    const int place = sectors * from.page + from.sector;
    if (has_room(from, from.last + 1)) {
        const bool differs =
            from.processes[who].copy[from.page][from.sector] != content(from, from.last, from.page, from.sector);
        const bool found = differs && from.stale_base != place + 1;
        state next = from;
        append(next, who, entry::range, from.page, bit(from.sector), found ? bit(from.sector) : 0);
        visit(next, {"commit", number, static_cast<byte>(place)});
    }
    if (from.aborts < world_.aborts) {
        state next = from;
        ++next.aborts;
        process& own = next.processes[who];
        for (int sector = 0; sector < sectors; ++sector) {
            own.copy[from.page][sector] = content(from, from.last, from.page, sector);
        }
        if (is(mistake::abort_to_home)) {
            own.copy[from.page].fill(0);
            own.is_private &= static_cast<byte>(~bit(from.page));
        }
        next.stale_base = is(mistake::base_too_new) ? static_cast<byte>(place + 1) : 0;
        next.turn = next.page = next.sector = 0;
        next.doing = transaction::none;
        visit(next, {"abort", number, static_cast<byte>(place)});
    }
}

void protocol::direct_writes(const state& from, int who, const visitor& visit) {
    if (from.turn != who + 1 || from.doing != transaction::direct) {
        return;
    }
    const auto number = static_cast<byte>(who);
    if (from.sector < sectors) {
        state next = from;
        write_home(next, from.page, from.sector, static_cast<byte>(from.last + 1));
        ++next.sector;
        visit(next, {"write directly", number, from.sector});
        return;
    }
    if (!has_room(from, from.last + 1) || from.poisoned != 0) {
        return;
    }
    if (from.failed_syncs < world_.failed_syncs) {
        state failed = from;
        fail_sync(failed);
        visit(failed, {"the sync of a direct write fails", number, from.page});
    }
    state next = from;
    if (!is(mistake::direct_not_synced)) {
        sync_home(next, bit(from.page));
    }
    append(next, who, entry::direct, from.page, all_sectors, 0);
    next.home_version[from.page] = next.last;
    visit(next, {"sync the page and commit", number, from.page});
}

record protocol::next_record(const state& in, entry kind, int page, int changed, int logged) const {
    record one;
    one.kind = kind;
    one.page = static_cast<byte>(page);
    one.changed = static_cast<byte>(changed);
    one.logged = static_cast<byte>(logged);
    one.sequence = static_cast<byte>(in.last + 1);
    one.epoch = is(mistake::epoch_left_out) ? 0 : in.epoch;
    one.before = in.history[in.last];
    return one;
}

/// A record that is torn becomes whole where the same payload is written over it again.
void protocol::put(state& in, int sequence, record_id id) const {
    const int slot = sequence % world_.slots;
    in.on.slot[slot] = id;
    in.on.lost_slots &= static_cast<byte>(~bit(slot));
    auto& all = in.on.possible_slot[slot];
    byte& count = in.on.possible_slots[slot];
    const auto add = [&](record_id one) {
        const auto end = all.begin() + count;
        if (std::find(all.begin(), end, one) != end) {
            return;
        }
        if (count == all.end() - all.begin()) {
            std::fputs("the model's bounds are too small for this world\n", stderr);
            std::abort();
        }
        all[count] = one;
        ++count;
        std::sort(all.begin(), all.begin() + count);
    };
    const auto before = all;
    for (int i = 0, end = count; i < end; ++i) {
        const auto whole = static_cast<record_id>(before[i] & ~unsigned{torn});
        if (before[i] == whole || (id & torn) != 0) {
            continue;
        }
        record as_new = records_[whole];
        as_new.epoch = records_[id].epoch;
        if (as_new == records_[id]) {
            add(whole);
        }
    }
    add(id);
    add(id | torn);
}

/// The turn is given away before the sync.
void protocol::append(state& in, int who, entry kind, int page, int changed, int logged) {
    const record_id id = records_.id_of(next_record(in, kind, page, changed, logged));
    put(in, in.last + 1, id);
    in.history[++in.last] = id;
    ++in.appends;
    bool has_lost_its_log = false;
    process& own = in.processes[who];
    if (kind == entry::range) {
        own.version = in.last;
    } else {
        refresh(in, who, in.last, has_lost_its_log);
    }
    in.turn = in.page = in.sector = in.stale_base = 0;
    in.doing = transaction::none;
}

void protocol::deaths(const state& from, int who, const visitor& visit) {
    const auto number = static_cast<byte>(who);
    if (who == reader) {
        state next = from;
        die(next, who);
        visit(next, {"the reader dies", number, 0});
        return;
    }
    if (from.deaths == world_.deaths) {
        return;
    }
    state next = from;
    ++next.deaths;
    die(next, who);
    visit(next, {"die", number, 0});
    const bool appends = from.turn == who + 1 && from.doing == transaction::stored;
    if (!appends || !world_.torn_deaths || !has_room(from, from.last + 1)) {
        return;
    }
    // One write has two records, of which the second is in the file and the first is dead.
    const record_id first =
        records_.id_of(next_record(from, entry::range, from.page, bit(from.sector), bit(from.sector)));
    if (from.last + 2 <= world_.records && from.appends + 2 <= world_.appends && has_room(from, from.last + 2)) {
        state dead = from;
        ++dead.deaths;
        dead.history[from.last + 1] = first;
        ++dead.last;
        const record second = next_record(dead, entry::range, from.page, bit(0), bit(0));
        const record_id id = records_.id_of(second);
        dead.history[from.last + 1] = 0;
        dead.last = from.last;
        dead.appends += 2;
        put(dead, from.last + 1, first | torn);
        put(dead, from.last + 2, id);
        die(dead, who);
        visit(dead, {"die within two appends", number, 0});
    }
    state dead = from;
    ++dead.deaths;
    ++dead.appends;
    put(dead, from.last + 1, first | torn);
    die(dead, who);
    visit(dead, {"die within an append", number, 0});
}

/// A dead writer leaves private memory, which is gone, and at most a torn tail. LOG-2: the next epoch begins.
void protocol::die(state& in, int who) const {
    in.processes[who] = {};
    if (who != reader) {
        in.epoch += 1;
        in.writing = in.writing_sector = in.writing_version = 0;
        in.checkpoint = in.checkpoint_version = 0;
        in.stale_base = 0;
    }
    if (in.turn == who + 1) {
        in.turn = in.page = in.sector = 0;
        in.doing = transaction::none;
    }
    const bool all_closed = std::all_of(in.processes.begin(), in.processes.end(),
                                        [](const process& each) { return each.at == phase::closed; });
    if (all_closed && in.cold == 0) {
        in.cold = 1;
        in.poisoned = 0;
    }
}

}  // namespace holdfast::commit_log_model
