#pragma once

#include <functional>
#include <string>

#include "model/commit_log/state.hpp"

namespace holdfast::commit_log_model {

/// A step's name, and what it is about.
struct label {
    const char* name = "";
    byte who = 0;
    byte what = 0;
};
[[nodiscard]] std::string describe(const label& step);

/// The protocol, and what is done wrong in it.
class protocol {
public:
    protocol(const world& about, mistake wrong) : world_(about), wrong_(wrong) {}

    [[nodiscard]] state initial() const;

    using visitor = std::function<void(state next, label step)>;
    void for_each_step(const state& from, const visitor& visit);

    /// What each loss of power leaves, recovered; `wrong` says which invariant that breaks.
    using recovered = std::function<bool(const state& next, const std::string& wrong)>;
    void for_each_loss_of_power(const state& from, const recovered& visit);

    /// The invariant that the state breaks, or nothing.
    [[nodiscard]] std::string broken(const state& now) const;

    /// Writers are alike.
    void normalise(state& now) const;

private:
    [[nodiscard]] bool is(mistake one) const { return wrong_ == one; }
    // What versions hold.
    [[nodiscard]] bool is_used(const state& in, int version, int page) const;
    [[nodiscard]] int last_change(const state& in, int version, int page) const;
    [[nodiscard]] byte content(const state& in, int version, int page, int sector) const;
    [[nodiscard]] bool is_free_in_all(const state& in, int page, bool heeds_readers, bool heeds_durable) const;

    // Who may do what.
    [[nodiscard]] bool writer_is_open(const state& in) const;
    [[nodiscard]] bool someone_registers(const state& in) const;
    [[nodiscard]] int oldest_pinned(const state& in) const;
    [[nodiscard]] int home_limit(const state& in) const;
    [[nodiscard]] bool has_room(const state& in, int sequence) const;

    // Steps.
    void opening(const state& from, int who, const visitor& visit);
    void reading(const state& from, int who, const visitor& visit);
    void transactions(const state& from, int who, const visitor& visit);
    void ending(const state& from, int who, const visitor& visit);
    void direct_writes(const state& from, int who, const visitor& visit);
    void deaths(const state& from, int who, const visitor& visit);
    void syncs(const state& from, const visitor& visit);
    void home_writes(const state& from, const visitor& visit);
    void checkpoints(const state& from, const visitor& visit);
    void holes(const state& from, const visitor& visit);

    // Parts of steps.
    [[nodiscard]] record next_record(const state& in, entry kind, int page, int changed, int logged) const;
    void put(state& in, int sequence, record_id id) const;
    void append(state& in, int who, entry kind, int page, int changed, int logged);
    void refresh(state& in, int who, int version, bool& has_lost_its_log) const;
    void lay_over(state& in, int who, int from, int to, bool heeds_revocations, bool& has_lost_its_log) const;
    void die(state& in, int who) const;
    void open_anew(state& in, int begin) const;
    void write_home(state& in, int page, int sector, byte value) const;
    void sync_home(state& in, int pages) const;
    void fail_sync(state& in) const;
    [[nodiscard]] int scan(const state& in, const media& on, int begin, std::string& wrong) const;
    [[nodiscard]] std::string judge(const state& before, const media& on, int last) const;

    world world_;
    mistake wrong_;
    record_table records_;
};

}  // namespace holdfast::commit_log_model
