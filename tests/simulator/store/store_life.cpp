#include "simulator/store/store_life.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/scratch_test_support.hpp"
#include "simulator/storage/recording_storage.hpp"
#include "simulator/store/store_subject.hpp"

namespace holdfast::simulator {
namespace {

constexpr std::uint64_t sector_size = 512;
constexpr std::uint64_t word_size = 8;
/// A few of each sort: the next cut has others.
constexpr choice_limits images_of_a_cut{4, 1, 1, 2};

int takes_all(void* /*context*/, std::uint64_t /*commit*/) { return 0; }

class store_life {
public:
    store_life(store_kind of, store_medium on, std::uint64_t seed) : kind_(of), medium_(on), random_(seed) {}
    store_life(const store_life&) = delete;
    store_life& operator=(const store_life&) = delete;
    ~store_life() { stop(); }

    store_report run(std::uint64_t images);

private:
    [[nodiscard]] bool in_heap() const {
        return kind_ == store_kind::heap_at_once || kind_ == store_kind::heap_commits;
    }
    [[nodiscard]] bool on_memory() const { return medium_ == store_medium::persistent_memory; }
    [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    bool expect(bool holds, const std::string& what);
    static int accept(void* context, std::uint64_t commit);
    void stop();
    void begin_anew();
    void make_durably();
    void open();
    void change();
    void change_entries(MDB_txn* in);
    void commit_of_heap();
    void sync();
    void reopen(bool dies);
    void lose_power();
    void go_on_after_a_failure();
    void step();
    void die();
    void cut();
    void examine(const storage_image& left);
    [[nodiscard]] std::string value_of(std::uint64_t size);
    [[nodiscard]] std::string place_of(const storage_image& left);
    [[nodiscard]] std::optional<std::uint64_t> number_in(const storage_image& left);
    [[nodiscard]] static std::uint64_t number_in(const content_of_store& found);
    void forget_lost() { history_.erase(history_.upper_bound(last_), history_.end()); }

    store_kind kind_;
    store_medium medium_;
    std::mt19937_64 random_;
    base::scratch_directory scratch_{base::memory_directory()};
    std::unique_ptr<recording_storage> storage_;
    std::unique_ptr<store_subject> store_;
    std::string path_;
    bool is_cut_ = false;        ///< the power may be, at each operation
    std::uint64_t dies_in_ = 0;  ///< so many operations; 0: the process lives
    bool has_died_ = false;
    // By the number of a commit: in a heap the store's own, else the value of the key "n".
    std::map<std::uint64_t, content_of_store> history_;
    content_of_store next_;
    bool is_synced_ = false;
    bool is_large_ = false;
    std::uint64_t started_ = 0;
    std::uint64_t last_ = 0;
    std::uint64_t durable_ = 0;  ///< what a medium has at least; in a heap: exactly
    std::uint64_t values_ = 0;
    std::set<std::uint64_t> seen_;
    store_report report_;
};

/// The first thing that is wrong ends the life.
bool store_life::expect(bool holds, const std::string& what) {
    if (!holds && report_.wrong.empty()) {
        report_.wrong = what + ", " + storage_->position() + ", image " + std::to_string(report_.images);
    }
    return report_.wrong.empty();
}

std::uint64_t store_life::number_in(const content_of_store& found) {
    const auto at = found.find("n");
    return at == found.end() ? 0 : std::stoull(at->second);
}

/// Real files of what a medium holds.
std::string store_life::place_of(const storage_image& left) {
    const std::string target = scratch_.path("crashed");
    std::filesystem::remove_all(target);
    std::filesystem::create_directory(target);
    expect(left.materialise(scratch_.path("live"), target).ok(), "no space");
    return target + "/store";
}

std::optional<std::uint64_t> store_life::number_in(const storage_image& left) {
    const store_subject after(place_of(left), persist::posix_storage(), 0, nullptr);
    const auto found = after.opened() == 0 ? after.content() : std::nullopt;
    return found ? std::optional(number_in(*found)) : std::nullopt;
}

void store_life::examine(const storage_image& left) {
    const std::uint64_t what = mix(mix(left.hash(), durable_), started_);
    if (!seen_.insert(what).second) {
        return;
    }
    ++report_.images;
    const std::string path = place_of(left);
    content_of_store before;
    for (int times = 0; times < (report_.images % 8 == 0 ? 2 : 1); ++times) {
        std::filesystem::remove(path + "-lock");
        const hf_lmdb_heap heap{
            .accepted = durable_, .identity = {7}, .keeps_at_once = 0, .accept = takes_all, .context = nullptr};
        const store_subject after(path, persist::posix_storage(), 0, in_heap() ? &heap : nullptr);
        if (!expect(after.opened() == 0, std::string("not opened: ") + mdb_strerror(after.opened()))) {
            return;
        }
        const auto found = after.content();
        if (!expect(found.has_value(), "not sound")) {
            return;
        }
        const std::uint64_t number = in_heap() ? durable_ : number_in(*found);
        const bool is_next = number == started_ && started_ != last_;
        if (!expect(durable_ <= number && number <= started_, "has " + std::to_string(number) + " of " +
                                                                  std::to_string(durable_) + " to " +
                                                                  std::to_string(started_)) ||
            !expect(*found == (is_next ? next_ : history_.at(number)), "not commit " + std::to_string(number)) ||
            !expect(times == 0 || *found == before, "another when opened again")) {
            return;
        }
        before = *found;
        report_.older += times == 0 && number < last_ ? 1 : 0;
    }
}

void store_life::cut() {
    const bool was = std::exchange(is_cut_, false);
    storage_->for_each_crash_image(images_of_a_cut, random_(), [this](const storage_image& left) {
        examine(left);
        return report_.wrong.empty();
    });
    is_cut_ = was;
}

int store_life::accept(void* context, std::uint64_t commit) {
    auto& self = *static_cast<store_life*>(context);
    if (self.has_died_) {
        return EIO;
    }
    self.storage_->look_at_mappings();
    self.cut();
    if (self.below(self.is_large_ ? 2 : 8) == 0) {
        return EAGAIN;
    }
    self.history_[commit] = self.next_;
    self.last_ = self.started_ = commit;
    self.durable_ = self.kind_ == store_kind::heap_at_once ? commit : self.durable_;
    self.cut();
    return 0;
}

void store_life::open() {
    const hf_lmdb_heap heap{.accepted = last_,
                            .identity = {7},
                            .keeps_at_once = kind_ == store_kind::heap_at_once ? 1 : 0,
                            .accept = accept,
                            .context = this};
    is_synced_ = kind_ == store_kind::synced || (kind_ == store_kind::now_and_then && below(2) == 0);
    const bool has_syncs = is_synced_ || kind_ == store_kind::heap_at_once;
    is_cut_ = true;
    has_died_ = false;
    store_ = std::make_unique<store_subject>(path_, *storage_, has_syncs ? 0U : unsigned{MDB_NOSYNC},
                                             in_heap() ? &heap : nullptr, on_memory());
    if (expect(store_->opened() == 0, std::string("the life: ") + mdb_strerror(store_->opened()))) {
        if (is_synced_) {  // what it shows is promised
            durable_ = last_;
            storage_->look_at_mappings();
            cut();
        }
        const auto found = store_->content();  // checks the store as a writer, which syncs what it found
        expect(found && *found == history_.at(last_), "the life has another content");
    }
}

/// Unlike all others, in each sector of it: the simulator sees no store of bytes that are there already, and a page
/// that a failed sync has lost is written by one.
std::string store_life::value_of(std::uint64_t size) {
    const std::string part = "value " + std::to_string(++values_) + " ";
    std::string made;
    while (made.size() < size) {
        made += part;
    }
    made.resize(size);
    return made;
}

/// A store that was made without syncs promises nothing before its first one.
void store_life::make_durably() {
    const hf_lmdb_heap heap{
        .accepted = 0, .identity = {7}, .keeps_at_once = 0, .accept = takes_all, .context = nullptr};
    const store_subject made(path_, *storage_, MDB_NOSYNC, in_heap() ? &heap : nullptr, on_memory());
    if (expect(made.opened() == 0, "not made")) {
        expect((in_heap() ? hf_lmdb_before_heap_commit(made.env()) : mdb_env_sync(made.env(), 1)) == 0, "not synced");
        cut();
    }
}

void store_life::change_entries(MDB_txn* in) {
    next_ = history_.at(last_);
    for (std::uint64_t left = below(12) + 1; left > 0; --left) {
        const std::string key = "key" + std::to_string(below(200));
        if (below(3) == 0) {
            expect(store_subject::del(in, key) == (next_.erase(key) == 1 ? 0 : MDB_NOTFOUND), "del");
        } else {
            const std::uint64_t most = below(16) == 0 ? 100'000 : 300;
            next_[key] = value_of(below(most));
            expect(store_subject::put(in, key, next_[key]) == 0, "put");
        }
    }
    is_large_ = below(12) == 0;
    if (is_large_) {  // more than the log takes: a checkpoint
        next_["large"] = value_of(700'000 + below(100'000));
        expect(store_subject::put(in, "large", next_["large"]) == 0, "put of much");
    }
    next_["n"] = std::to_string(last_ + 1);
    expect(store_subject::put(in, "n", next_["n"]) == 0, "put of the number");
}

void store_life::change() {
    MDB_txn* in = nullptr;
    if (!expect(mdb_txn_begin(store_->env(), nullptr, 0, &in) == 0, "no transaction begins")) {
        return;
    }
    change_entries(in);
    if (below(10) == 0) {
        mdb_txn_abort(in);
        return;
    }
    started_ = in_heap() ? started_ : last_ + 1;
    if (below(30) == 0) {
        storage_->fail_sync(below(3));
    } else if (below(10) == 0) {
        dies_in_ = 1 + below(below(2) == 0 ? 8 : 48);
    }
    const int outcome = mdb_txn_commit(in);
    storage_->let_syncs_work();
    dies_in_ = 0;
    // A dead process stores on to memory, and nothing tells it that this is in vain.
    if (outcome == EIO || (has_died_ && on_memory())) {
        go_on_after_a_failure();
        return;
    }
    if (!expect(outcome == 0 || (in_heap() && outcome == EAGAIN), std::string("commit: ") + mdb_strerror(outcome))) {
        return;
    }
    if (!in_heap()) {
        history_[++last_] = next_;
        durable_ = is_synced_ ? last_ : durable_;
    }
    if (has_died_) {
        reopen(true);
        return;
    }
    storage_->look_at_mappings();
    cut();
}

void store_life::commit_of_heap() {
    if (below(8) == 0) {
        storage_->fail_sync(0);
    }
    const bool fails = hf_lmdb_before_heap_commit(store_->env()) != 0;
    storage_->let_syncs_work();
    if (fails) {
        hf_lmdb_heap_commit_failed(store_->env());
        go_on_after_a_failure();
        return;
    }
    cut();
    durable_ = last_;
    cut();
    hf_lmdb_after_heap_commit(store_->env());
}

void store_life::sync() {
    if (const std::uint64_t fails = below(4); fails != 0) {
        storage_->fail_sync(fails - 1);
    }
    const bool failed = mdb_env_sync(store_->env(), 1) != 0;
    storage_->let_syncs_work();
    if (failed) {
        go_on_after_a_failure();
    } else {
        durable_ = in_heap() ? durable_ : last_;
    }
}

/// The file stays as it was.
void store_life::die() {
    if (!has_died_) {  // else it has stored on
        storage_->forsake_files();
    }
    is_cut_ = false;
    store_.reset();
    expect(storage_->undo_forsaken().ok(), "no space");
    std::filesystem::remove(path_ + "-lock");
}

void store_life::reopen(bool dies) {
    if (dies) {
        die();
    } else {
        if (const std::uint64_t fails = below(3); fails != 0) {
            storage_->fail_sync(fails - 1);  // of the checkpoint: pages, or its meta
        }
        store_.reset();
        storage_->let_syncs_work();
    }
    if (kind_ == store_kind::heap_commits) {
        last_ = started_ = durable_;
    }
    forget_lost();
    open();
}

/// The life of the store goes on with what a medium holds.
void store_life::lose_power() {
    storage_->look_at_mappings();
    storage_image left = storage_->current();
    std::uint64_t which = below(16);
    storage_->for_each_crash_image(images_of_a_cut, random_(), [&](const storage_image& each) {
        left = each;
        return which-- != 0;
    });
    die();
    const auto found = in_heap() ? durable_ : number_in(left);
    if (!expect(found.has_value(), "not sound after a loss of power") ||
        !expect(storage_->restart(left).ok(), "no space")) {
        return;
    }
    // A commit that was not acknowledged may be there.
    if (*found == started_ && started_ != last_) {
        history_[started_] = next_;
    }
    last_ = started_ = durable_ = *found;
    forget_lost();
    open();
}

/// The program opens the store again, which shows what the kernel has.
void store_life::go_on_after_a_failure() {
    die();
    if (!in_heap()) {
        if (started_ != last_) {
            history_[started_] = next_;
        }
        const auto number = number_in(storage_->current());
        if (!expect(number && (*number == last_ || *number == started_), "another commit after a failed sync")) {
            return;
        }
        last_ = *number;
    } else if (kind_ == store_kind::heap_commits) {
        last_ = durable_;
    }
    started_ = last_;
    forget_lost();
    open();
}

void store_life::stop() {
    is_cut_ = false;
    store_.reset();
    report_.commits += last_;
}

void store_life::begin_anew() {
    stop();
    const std::string live = scratch_.path("live");
    std::filesystem::remove_all(live);
    std::filesystem::create_directory(live);
    storage_ = std::make_unique<recording_storage>(live, on_memory() ? word_size : sector_size);
    if (on_memory()) {
        storage_->record_memory();
    } else {
        storage_->record_mappings();
    }
    storage_->set_observer([this] {
        if (dies_in_ != 0 && --dies_in_ == 0) {
            has_died_ = true;
            storage_->forsake_files();
        }
        if (is_cut_ && below(4) == 0) {
            cut();
        }
    });
    path_ = live + "/store";
    history_ = {{0, {}}};
    next_.clear();
    started_ = last_ = durable_ = 0;
    if (kind_ == store_kind::now_and_then || kind_ == store_kind::heap_commits) {
        make_durably();
    }
    open();
}

void store_life::step() {
    change();
    if (!report_.wrong.empty()) {
        return;
    }
    const std::uint64_t what = below(60);
    if (what == 0) {
        sync();
    } else if (what == 1 || what == 2) {
        reopen(what == 2);
    } else if (what == 3 || what == 4) {
        lose_power();
    } else if (what == 5) {
        begin_anew();
    } else if (what < 9 && kind_ == store_kind::heap_commits) {
        commit_of_heap();
    }
}

store_report store_life::run(std::uint64_t images) {
    begin_anew();
    while (report_.images < images && report_.wrong.empty()) {
        step();
    }
    stop();
    return report_;
}

}  // namespace

store_report live(store_kind of, store_medium on, std::uint64_t seed, std::uint64_t images) {
    return store_life(of, on, seed).run(images);
}

}  // namespace holdfast::simulator
