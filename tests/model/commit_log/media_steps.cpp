// What goes to media behind the records, and what a loss of power leaves of it.
#include <algorithm>

#include "model/commit_log/steps.hpp"

namespace holdfast::commit_log_model {

void protocol::write_home(state& in, int page, int sector, byte value) const {
    in.on.home[page][sector] = value;
    in.on.possible[page][sector] |= bit(value);
    in.on.lost_sectors &= static_cast<byte>(~bit(sectors * page + sector));
}

/// A sync writes what the kernel takes for dirty.
void protocol::sync_home(state& in, int pages) const {
    for (int page = 0; page < world_.pages; ++page) {
        for (int sector = 0; sector < sectors; ++sector) {
            const bool lost = (in.on.lost_sectors & bit(sectors * page + sector)) != 0;
            if ((pages & bit(page)) != 0 && !lost) {
                in.on.possible[page][sector] = bit(in.on.home[page][sector]);
            }
        }
    }
}

/// Of any file: what was dirty may be lost, and the kernel takes it for written. LOG-8: nothing is acknowledged any
/// more.
void protocol::fail_sync(state& in) const {
    ++in.failed_syncs;
    for (int page = 0; page < world_.pages; ++page) {
        for (int sector = 0; sector < sectors; ++sector) {
            if (in.on.possible[page][sector] != bit(in.on.home[page][sector])) {
                in.on.lost_sectors |= bit(sectors * page + sector);
            }
        }
    }
    for (int slot = 0; slot < world_.slots; ++slot) {
        if (in.on.possible_slots[slot] != 1) {
            in.on.lost_slots |= bit(slot);
        }
    }
    in.on.lost_begin = in.on.possible_begins != bit(in.on.begin) ? 1 : 0;
    in.poisoned = is(mistake::failed_sync_believed) ? 0 : 1;
}

void protocol::syncs(const state& from, const visitor& visit) {
    const bool is_dirty = from.published < from.last ||
                          std::any_of(from.on.possible_slots.begin(), from.on.possible_slots.begin() + world_.slots,
                                      [](byte count) { return count != 1; });
    if (!is_dirty) {
        return;
    }
    state next = from;
    for (int slot = 0; slot < world_.slots; ++slot) {
        if ((from.on.lost_slots & bit(slot)) == 0) {
            next.on.possible_slot[slot] = {from.on.slot[slot]};
            next.on.possible_slots[slot] = 1;
        }
    }
    next.published = from.last;
    visit(next, {"sync the log", 0, from.last});
    if (from.failed_syncs < world_.failed_syncs) {
        next = from;
        fail_sync(next);
        visit(next, {"a sync fails", 0, from.last});
    }
}

/// LOG-3, LOG-4. The limit was looked up before the first sector is written.
void protocol::home_writes(const state& from, const visitor& visit) {
    if (from.writing != 0) {
        state next = from;
        const int page = from.writing - 1;
        write_home(next, page, from.writing_sector, content(from, from.writing_version, page, from.writing_sector));
        if (++next.writing_sector == sectors) {
            next.home_version[page] = from.writing_version;
            next.writing = next.writing_sector = next.writing_version = 0;
        }
        visit(next, {"write home", 0, static_cast<byte>(sectors * page + from.writing_sector)});
        return;
    }
    if (someone_registers(from) && !is(mistake::home_beyond_reader)) {
        return;
    }
    const int limit = home_limit(from);
    for (int page = 0; page < world_.pages; ++page) {
        const bool goes_home = is_used(from, limit, page) && from.home_version[page] < last_change(from, limit, page);
        if (goes_home && !(from.doing == transaction::direct && from.page == page)) {
            state next = from;
            next.writing = static_cast<byte>(page + 1);
            next.writing_version = static_cast<byte>(limit);
            visit(next, {"a page begins to go home", 0, static_cast<byte>(page)});
        }
    }
}

/// LOG-6.
void protocol::checkpoints(const state& from, const visitor& visit) {
    const label step{"checkpoint", 0, from.checkpoint};
    state next = from;
    if (from.checkpoint == 1) {
        next.checkpoint = 2;
        next.on.begin = from.checkpoint_version;
        next.on.possible_begins |= bit(next.on.begin);
        next.on.lost_begin = 0;
        visit(next, step);
        return;
    }
    const bool may_fail = from.failed_syncs < world_.failed_syncs;
    if (from.checkpoint == 2) {
        if (from.on.lost_begin == 0) {
            next.on.possible_begins = bit(from.on.begin);
        }
        next.checkpoint = next.checkpoint_version = 0;
        visit(next, step);
        if (may_fail) {
            state failed = from;
            fail_sync(failed);
            visit(failed, {"the superblock's sync fails", 0, 0});
        }
        return;
    }
    const int limit = home_limit(from);
    for (int version = from.on.begin + 1; version <= limit && from.writing == 0; ++version) {
        bool all_home = true;
        for (int page = 0; page < world_.pages; ++page) {
            all_home = all_home &&
                       (!is_used(from, version, page) || from.home_version[page] >= last_change(from, version, page));
        }
        if (!all_home && !is(mistake::checkpoint_leaves_out_a_page)) {
            continue;
        }
        next = from;
        if (!is(mistake::begin_before_home_is_synced)) {
            sync_home(next, 0xff);
        }
        next.checkpoint = 1;
        next.checkpoint_version = static_cast<byte>(version);
        visit(next, {"sync home", 0, static_cast<byte>(version)});
        if (may_fail) {
            state failed = from;
            fail_sync(failed);
            if (failed.poisoned == 0) {
                failed.checkpoint = 1;
                failed.checkpoint_version = static_cast<byte>(version);
            }
            visit(failed, {"the sync of home fails", 0, static_cast<byte>(version)});
        }
    }
}

/// LOG-9. Truncation is such a hole.
void protocol::holes(const state& from, const visitor& visit) {
    for (int page = 0; page < world_.pages && from.holes < world_.holes; ++page) {
        if (from.writing == page + 1 || (from.doing == transaction::direct && from.page == page) ||
            !is_free_in_all(from, page, !is(mistake::hole_under_reader), !is(mistake::free_not_durable))) {
            continue;
        }
        state next = from;
        ++next.holes;
        for (int sector = 0; sector < sectors; ++sector) {
            write_home(next, page, sector, hole);
        }
        visit(next, {"punch a hole", 0, static_cast<byte>(page)});
    }
}

/// LOG-1. Returns the last sequence that counts.
int protocol::scan(const state& in, const media& on, int begin, std::string& wrong) const {
    record_id before = in.history[begin];
    for (int sequence = begin + 1;; ++sequence) {
        const record_id id = on.slot[sequence % world_.slots];
        const bool follows = id != 0 && (id & torn) == 0 && records_[id].sequence == sequence &&
                             (records_[id].before == before || is(mistake::chain_left_out));
        if (!follows) {
            return sequence - 1;
        }
        if (sequence > in.last || in.history[sequence] != id) {
            wrong = "LOG-2: a record counts that is none of this history's";
            return sequence - 1;
        }
        before = id;
    }
}

/// Checks LOG-14.
std::string protocol::judge(const state& before, const media& on, int last) const {
    if (last < before.published) {
        return "LOG-14: an acknowledged commit is lost";
    }
    if (last < before.seen) {
        return "LOG-7: the reader saw what is lost";
    }
    auto home = on.home;
    row<int, most_pages> revoked{};
    for (int at = on.begin + 1; at <= last; ++at) {
        const record& one = records_[before.history[at]];
        if (one.kind == entry::direct && !is(mistake::no_revocation)) {
            revoked[one.page] = at;
        }
    }
    for (int at = on.begin + 1; at <= last; ++at) {
        const record& one = records_[before.history[at]];
        for (int sector = 0; sector < sectors && at > revoked[one.page]; ++sector) {
            home[one.page][sector] = (one.logged & bit(sector)) != 0 ? one.sequence : home[one.page][sector];
        }
    }
    for (int page = 0; page < world_.pages; ++page) {
        for (int sector = 0; sector < sectors && is_used(before, last, page); ++sector) {
            if (home[page][sector] != content(before, last, page, sector)) {
                return "LOG-14: a page has not its version's content";
            }
        }
    }
    return {};
}

void protocol::for_each_loss_of_power(const state& from, const recovered& visit) {
    state after = from;
    after.processes.fill({});
    after.writing = after.writing_sector = after.writing_version = 0;
    after.checkpoint = after.checkpoint_version = 0;
    after.turn = after.page = after.sector = after.stale_base = after.poisoned = after.cold = 0;
    after.doing = transaction::none;
    after.on.lost_sectors = after.on.lost_slots = after.on.lost_begin = 0;
    after.epoch += 1;
    ++after.power_losses;
    const std::function<bool(int)> choose = [&](int at) -> bool {
        const int sector_count = world_.pages * sectors;
        if (at < sector_count) {
            const int page = at / sectors;
            const int sector = at % sectors;
            for (int value = 0; value < 8; ++value) {
                if ((from.on.possible[page][sector] & bit(value)) != 0) {
                    after.on.home[page][sector] = static_cast<byte>(value);
                    after.on.possible[page][sector] = bit(value);
                    if (!choose(at + 1)) {
                        return false;
                    }
                }
            }
            return true;
        }
        if (at < sector_count + world_.slots) {
            const int slot = at - sector_count;
            for (int which = 0; which < from.on.possible_slots[slot]; ++which) {
                const record_id id = from.on.possible_slot[slot][which];
                after.on.slot[slot] = id;
                after.on.possible_slot[slot] = {id};
                after.on.possible_slots[slot] = 1;
                if (!choose(at + 1)) {
                    return false;
                }
            }
            return true;
        }
        for (int begin = 0; begin <= from.last; ++begin) {
            if ((from.on.possible_begins & bit(begin)) == 0) {
                continue;
            }
            after.on.begin = static_cast<byte>(begin);
            after.on.possible_begins = bit(begin);
            std::string wrong;
            const int last = scan(from, after.on, begin, wrong);
            wrong = wrong.empty() ? judge(from, after.on, last) : wrong;
            state next = after;
            next.last = next.published = static_cast<byte>(last);
            std::fill(next.history.begin() + last + 1, next.history.end(), record_id{0});
            open_anew(next, begin);
            if (!visit(next, wrong)) {
                return false;
            }
        }
        return true;
    };
    choose(0);
}

}  // namespace holdfast::commit_log_model
