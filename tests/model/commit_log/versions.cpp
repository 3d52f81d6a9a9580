// What versions hold, and what must hold in each state.
#include <algorithm>

#include "model/commit_log/steps.hpp"

namespace holdfast::commit_log_model {

record_id record_table::id_of(const record& one) {
    const auto [found, is_new] = ids_.try_emplace(one, static_cast<record_id>(records_.size()));
    if (is_new) {
        records_.push_back(one);
    }
    return found->second;
}

state protocol::initial() const {
    state first;
    for (auto& page : first.on.possible) {
        page.fill(bit(0));
    }
    first.on.possible_slots.fill(1);
    first.on.possible_begins = bit(0);
    return first;
}

bool protocol::is_used(const state& in, int version, int page) const {
    const int change = last_change(in, version, page);
    return change == 0 ? page < world_.used : records_[in.history[change]].kind != entry::freed;
}

int protocol::last_change(const state& in, int version, int page) const {
    for (int at = version; at > 0; --at) {
        if (records_[in.history[at]].page == page) {
            return at;
        }
    }
    return 0;
}

byte protocol::content(const state& in, int version, int page, int sector) const {
    for (int at = version; at > 0; --at) {
        const record& one = records_[in.history[at]];
        if (one.page == page && (one.kind != entry::range || (one.changed & bit(sector)) != 0)) {
            return one.sequence;
        }
    }
    return 0;
}

bool protocol::writer_is_open(const state& in) const {
    return std::any_of(in.processes.begin(), in.processes.begin() + reader,
                       [](const process& each) { return each.at == phase::open; });
}

bool protocol::someone_registers(const state& in) const {
    return std::any_of(in.processes.begin(), in.processes.end(),
                       [](const process& each) { return each.at == phase::registered || each.at == phase::chosen; });
}

int protocol::oldest_pinned(const state& in) const {
    int oldest = in.last;
    for (const process& each : in.processes) {
        if (each.at == phase::open) {
            oldest = std::min<int>(oldest, each.version);
        }
    }
    return oldest;
}

int protocol::home_limit(const state& in) const {
    const int durable = is(mistake::home_before_record) ? in.last : in.published;
    return is(mistake::home_beyond_reader) ? durable : std::min(durable, oldest_pinned(in));
}

bool protocol::has_room(const state& in, int sequence) const {
    const int goes = sequence - world_.slots;  // the record that is overwritten
    if (goes <= 0) {
        return true;
    }
    int durable_begin = 0;
    while ((in.on.possible_begins & bit(durable_begin)) == 0) {
        ++durable_begin;
    }
    const bool is_behind = goes <= (is(mistake::reuse_before_checkpoint) ? in.published : durable_begin);
    return is_behind && (is(mistake::reuse_under_reader) || (goes <= oldest_pinned(in) && !someone_registers(in)));
}

/// LOG-9.
bool protocol::is_free_in_all(const state& in, int page, bool heeds_readers, bool heeds_durable) const {
    int version = in.last;
    if (heeds_durable) {
        version = in.published;
    }
    if (heeds_readers) {
        version = std::min(version, oldest_pinned(in));
    }
    for (; version <= in.last; ++version) {
        if (is_used(in, version, page)) {
            return false;
        }
    }
    return !(heeds_readers && someone_registers(in));
}

std::string protocol::broken(const state& now) const {
    for (int page = 0; page < world_.used; ++page) {
        // What is written directly, and not in use, does no harm.
        const bool stays = std::none_of(now.history.begin() + 1, now.history.begin() + now.last + 1, [&](record_id id) {
            return records_[id].page == page && records_[id].kind != entry::range;
        });
        for (int sector = 0; sector < sectors && stays; ++sector) {
            if (now.on.possible[page][sector] >= bit(now.published + 1)) {
                return "LOG-3: home holds something newer than the last durable record";
            }
        }
    }
    for (int who = 0; who < process_count; ++who) {
        const process& each = now.processes[who];
        if (each.at != phase::open) {
            continue;
        }
        for (int page = 0; page < world_.pages; ++page) {
            for (int sector = 0; sector < sectors && is_used(now, each.version, page); ++sector) {
                const bool own =
                    now.turn == who + 1 && now.doing == transaction::stored && now.page == page && now.sector == sector;
                const byte right = own ? static_cast<byte>(now.last + 1) : content(now, each.version, page, sector);
                const auto& from = (each.is_private & bit(page)) != 0 ? each.copy : now.on.home;
                if (from[page][sector] == hole) {
                    return "LOG-9: a process looks into a hole";
                }
                if (from[page][sector] != right) {
                    return own ? "LOG-12: a store is lost" : "LOG-4: a process sees something else than its version";
                }
            }
        }
        if (each.version > now.last) {
            return "LOG-7: a process has a version that is no more";
        }
    }
    return {};
}

void protocol::normalise(state& now) const {
    const auto key = [](const process& each) {
        row<int, 4 + most_pages * sectors> all{static_cast<int>(each.at), each.version, each.first, each.is_private};
        for (int i = 0; i < most_pages * sectors; ++i) {
            all[4 + i] = each.copy[i / sectors][i % sectors];
        }
        return all;
    };
    if (world_.writers < 2) {
        return;
    }
    const bool first_has_turn = now.turn == 1;
    const bool second_has_turn = now.turn == 2;
    if (second_has_turn || (!first_has_turn && key(now.processes[1]) < key(now.processes[0]))) {
        std::swap(now.processes[0], now.processes[1]);
        now.turn = second_has_turn ? 1 : now.turn;
    }
}

}  // namespace holdfast::commit_log_model
