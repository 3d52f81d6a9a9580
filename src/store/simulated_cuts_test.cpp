// Loss of power, simulated, wherever a store writes or syncs: what a medium may hold then is opened, and must be what
// the store promises.
//
// The medium holds every page as the last sync left it, or as any moment since did, each page for itself, some torn at
// sectors; the file has its old length or the new one. The system calls below stand before those of the C library, so
// each write and sync is such a moment, and a sync that a store leaves out, or asks for too late, is found. Stores to
// the mapping are seen at the next call. Some syncs fail: what they should have written is lost, but the file shows it.
// HOLDFAST_STORE_CUTS is the number of media of each kind of store.
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <holdfast/detail/store_in_heap.h>

#include "store/simulated_medium_test_support.hpp"
#include "store/store_test_support.hpp"

using holdfast::store_engine::simulated::answer;
using holdfast::store_engine::simulated::at_risk;
using holdfast::store_engine::simulated::moment;
using holdfast::store_engine::simulated::syncs_to_failure;

extern "C" int fstatfs(int file, struct statfs* information) noexcept {
    const long outcome = ::syscall(SYS_fstatfs, file, information);
    information->f_type = EXT4_SUPER_MAGIC;  // a store in memory syncs nothing
    return static_cast<int>(outcome);
}
extern "C" int fdatasync(int file) {
    if (at_risk != nullptr && at_risk->is_at(file)) {
        moment(true);
        const bool works = syncs_to_failure == 0 || --syncs_to_failure != 0;
        at_risk->sync_all(works);
        return answer(works);
    }
    return 0;
}
extern "C" int msync(void* start, std::size_t size, int /*flags*/) {
    if (at_risk != nullptr) {
        if (const auto offset = at_risk->offset_of(start)) {
            moment(true);
            const bool works = syncs_to_failure == 0 || --syncs_to_failure != 0;
            at_risk->sync(*offset, size, works);
            return answer(works);
        }
    }
    return 0;
}
extern "C" ssize_t pwrite(int file, const void* from, std::size_t size, off_t offset) {
    if (at_risk != nullptr && at_risk->is_at(file)) {
        moment(false);
    }
    const ssize_t written = ::syscall(SYS_pwrite64, file, from, size, offset);
    if (at_risk != nullptr && at_risk->is_at(file) && written > 0) {
        at_risk->written(static_cast<std::size_t>(offset), static_cast<std::size_t>(written));
    }
    return written;
}
extern "C" int fallocate(int file, int mode, off_t offset, off_t size) {
    if (at_risk != nullptr && at_risk->is_at(file)) {
        moment(false);
    }
    return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, size));
}
extern "C" int ftruncate(int file, off_t size) noexcept {
    if (at_risk != nullptr && at_risk->is_at(file)) {
        moment(false);
    }
    return static_cast<int>(::syscall(SYS_ftruncate, file, size));
}

namespace holdfast::store_engine {
namespace {

using simulated::at_a_moment;
using simulated::medium;

enum class kind : std::uint8_t {
    synced,        ///< a commit that returned is there
    now_and_then,  ///< in sessions with MDB_NOSYNC: some commit is there, none older than the last mdb_env_sync()
    heap_at_once,  ///< the heap's word is durable when it is set
    heap_commits,  ///< the heap's word is durable with a commit of the heap
};

/// An open store of any kind.
class subject {
public:
    subject(const std::string& path, kind of, std::uint64_t word, hf_lmdb_heap heap, unsigned flags = 0) {
        EXPECT_EQ(mdb_env_create(&env), 0);
        flags |= of == kind::heap_commits ? unsigned{MDB_NOSYNC} : 0U;
        if (of == kind::synced || of == kind::now_and_then) {
            opened = mdb_env_open(env, path.c_str(), flags | MDB_NOSUBDIR, 0664);
            return;
        }
        heap.accepted = word;
        heap.identity[0] = 7;
        heap.keeps_at_once = of == kind::heap_at_once ? 1 : 0;
        opened = hf_lmdb_open_in_heap(env, path.c_str(), flags, 0664, &heap);
    }
    subject(const subject&) = delete;
    subject& operator=(const subject&) = delete;
    ~subject() { mdb_env_close(env); }

    [[nodiscard]] MDB_txn* begin(unsigned flags = 0) const {
        MDB_txn* made = nullptr;
        EXPECT_EQ(mdb_txn_begin(env, nullptr, flags, &made), 0);
        return made;
    }
    [[nodiscard]] content_of_store all() const { return content_of(env); }

    MDB_env* env = nullptr;
    int opened = -1;
};

class simulated_cuts : public testing::TestWithParam<kind> {
protected:
    void TearDown() override { at_risk = nullptr; }
    void run(std::uint64_t media);

private:
    [[nodiscard]] bool in_heap() const { return GetParam() == kind::heap_at_once || GetParam() == kind::heap_commits; }
    static int accept(void* context, std::uint64_t commit);
    static int takes_all(void* /*context*/, std::uint64_t /*commit*/) { return 0; }
    void make_durably();
    void begin_anew();
    void open();
    void change();
    void commit_of_heap();
    void reopen(bool dies);
    void lose_power();
    void go_on_after_a_failure();
    void cut();
    void examine(const std::vector<char>& image);
    [[nodiscard]] std::uint64_t number_in(const content_of_store& found) const;

    store_directory directory_{::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp"};
    medium medium_{directory_.path() + "/store"};
    std::unique_ptr<subject> store_;
    std::mt19937_64 random_{20261125};
    // By the number of a commit: in a heap the store's own, else the value of the key "n".
    std::map<std::uint64_t, content_of_store> history_{{0, {}}};
    content_of_store next_;
    bool is_synced_ = false;
    bool is_large_ = false;
    std::uint64_t started_ = 0;
    std::uint64_t last_ = 0;
    std::uint64_t durable_ = 0;  ///< what a medium has at least; in a heap: exactly
    std::uint64_t commits_ = 0;
    std::uint64_t examined_ = 0;
    std::uint64_t older_ = 0;  ///< media that did not have the last commit
};

std::uint64_t simulated_cuts::number_in(const content_of_store& found) const {
    const auto at = found.find("n");
    return at == found.end() ? 0 : std::stoull(at->second);
}

void simulated_cuts::examine(const std::vector<char>& image) {
    const std::string path = directory_.path() + "/crashed";
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(image.data(), std::ssize(image));
    ++examined_;
    content_of_store found;
    for (int times = 0; times < 2; ++times) {
        std::filesystem::remove(path + "-lock");
        const hf_lmdb_heap heap{
            .accepted = 0, .identity = {}, .keeps_at_once = 0, .accept = takes_all, .context = nullptr};
        const subject after(path, GetParam(), durable_, heap);
        ASSERT_EQ(after.opened, 0) << mdb_strerror(after.opened) << ", image " << examined_;
        if (times > 0) {
            ASSERT_TRUE(after.all() == found) << "opened again, image " << examined_;
            break;
        }
        found = after.all();
        const std::uint64_t number = in_heap() ? durable_ : number_in(found);
        ASSERT_TRUE(number >= durable_ && number <= started_)
            << "image " << examined_ << " has " << number << ", which must be " << durable_ << " to " << started_;
        ASSERT_TRUE(found == (number == started_ && started_ != last_ ? next_ : history_.at(number)))
            << "image " << examined_ << ", commit " << number;
        older_ += number < last_ ? 1 : 0;
        if (examined_ % 8 != 0) {
            break;
        }
    }
}

void simulated_cuts::cut() {
    if (!HasFatalFailure()) {
        examine(medium_.after_a_cut(random_));
    }
}

int simulated_cuts::accept(void* context, std::uint64_t commit) {
    auto& self = *static_cast<simulated_cuts*>(context);
    medium* const here = std::exchange(at_risk, nullptr);
    here->look();
    self.cut();
    int answer = EAGAIN;
    if (self.random_() % (self.is_large_ ? 2 : 8) != 0) {
        answer = 0;
        self.history_[commit] = self.next_;
        self.last_ = self.started_ = commit;
        self.durable_ = GetParam() == kind::heap_at_once ? commit : self.durable_;
        self.cut();
    }
    at_risk = here;
    return answer;
}

void simulated_cuts::open() {
    const hf_lmdb_heap heap{.accepted = 0, .identity = {}, .keeps_at_once = 0, .accept = accept, .context = this};
    at_risk = &medium_;
    is_synced_ = GetParam() == kind::synced || (GetParam() == kind::now_and_then && random_() % 2 == 0);
    store_ = std::make_unique<subject>(medium_.path(), GetParam(), last_, heap,
                                       is_synced_ || in_heap() ? 0U : unsigned{MDB_NOSYNC});
    ASSERT_EQ(store_->opened, 0) << mdb_strerror(store_->opened);
    const content_of_store found = store_->all();  // checks the store as a writer, which syncs what it found
    at_risk = nullptr;
    ASSERT_TRUE(found == history_.at(last_));
}

/// A store that was made without syncs promises nothing before its first one.
void simulated_cuts::make_durably() {
    const hf_lmdb_heap heap{.accepted = 0, .identity = {}, .keeps_at_once = 0, .accept = accept, .context = this};
    const subject made(medium_.path(), GetParam(), 0, heap, MDB_NOSYNC);
    ASSERT_EQ(made.opened, 0);
    at_risk = &medium_;
    EXPECT_EQ(in_heap() ? hf_lmdb_before_heap_commit(made.env) : mdb_env_sync(made.env, 1), 0);
    at_risk = nullptr;
    cut();
}

void simulated_cuts::change() {
    next_ = history_.at(last_);
    at_risk = &medium_;
    MDB_txn* in = store_->begin();
    for (std::uint64_t left = random_() % 12 + 1; left > 0; --left) {
        const std::string key = "key" + std::to_string(random_() % 200);
        if (random_() % 3 == 0) {
            EXPECT_EQ(del(in, 1, key), next_.erase(key) == 1 ? 0 : MDB_NOTFOUND);
        } else {
            const std::size_t most = random_() % 16 == 0 ? 100'000 : 300;
            next_[key] = std::string(random_() % most, static_cast<char>('a' + random_() % 26));
            EXPECT_EQ(put(in, 1, key, next_[key]), 0);
        }
    }
    is_large_ = random_() % 12 == 0;
    if (is_large_) {  // more than the log takes: a checkpoint
        next_["large"] = std::string(700'000 + random_() % 100'000, 'L');
        EXPECT_EQ(put(in, 1, "large", next_["large"]), 0);
    }
    next_["n"] = std::to_string(last_ + 1);
    EXPECT_EQ(put(in, 1, "n", next_["n"]), 0);
    if (random_() % 10 == 0) {
        mdb_txn_abort(in);
        at_risk = nullptr;
        return;
    }
    started_ = in_heap() ? started_ : last_ + 1;
    syncs_to_failure = random_() % 30 == 0 ? 1 + random_() % 3 : 0;
    const int outcome = mdb_txn_commit(in);
    syncs_to_failure = 0;
    at_risk = nullptr;
    if (outcome == EIO) {
        go_on_after_a_failure();
        return;
    }
    ASSERT_TRUE(outcome == 0 || (in_heap() && outcome == EAGAIN)) << mdb_strerror(outcome);
    if (!in_heap()) {
        history_[++last_] = next_;
        durable_ = is_synced_ ? last_ : durable_;
    }
    medium_.look();
    cut();
}

void simulated_cuts::commit_of_heap() {
    at_risk = &medium_;
    syncs_to_failure = random_() % 8 == 0 ? 1 : 0;
    const bool fails = hf_lmdb_before_heap_commit(store_->env) != 0;
    syncs_to_failure = 0;
    at_risk = nullptr;
    if (fails) {
        hf_lmdb_heap_commit_failed(store_->env);
        go_on_after_a_failure();
        return;
    }
    cut();
    durable_ = last_;
    cut();
    at_risk = &medium_;
    hf_lmdb_after_heap_commit(store_->env);
    at_risk = nullptr;
}

/// The process closes the store, or dies: then the file is as it was.
void simulated_cuts::reopen(bool dies) {
    at_risk = dies ? nullptr : &medium_;
    medium_.look();
    const std::vector<char> content = medium_.content();
    syncs_to_failure = random_() % 3;  // of the checkpoint: pages, or its meta
    store_.reset();
    syncs_to_failure = 0;
    at_risk = nullptr;
    if (dies) {
        std::filesystem::remove(medium_.path() + "-lock");
        medium_.restore(content);
    }
    if (GetParam() == kind::heap_commits) {
        last_ = started_ = durable_;
    }
    history_.erase(history_.upper_bound(last_), history_.end());
    open();
}

/// The life of the store goes on with what a medium holds.
void simulated_cuts::lose_power() {
    const std::vector<char> image = medium_.after_a_cut(random_);
    store_.reset();
    std::filesystem::remove(medium_.path() + "-lock");
    medium_.become(image);
    if (!in_heap()) {
        const subject after(medium_.path(), GetParam(), 0, {}, MDB_RDONLY);
        ASSERT_EQ(after.opened, 0);
        last_ = number_in(after.all());
    } else {
        last_ = durable_;
    }
    medium_.become(image);
    std::filesystem::remove(medium_.path() + "-lock");
    started_ = durable_ = last_;
    history_.erase(history_.upper_bound(last_), history_.end());
    open();
}

/// The program opens the store again, which shows what the kernel has.
void simulated_cuts::go_on_after_a_failure() {
    medium_.look();
    const std::vector<char> content = medium_.content();
    store_.reset();
    std::filesystem::remove(medium_.path() + "-lock");
    if (!in_heap()) {
        if (started_ != last_) {
            history_[started_] = next_;
        }
        const subject after(medium_.path(), GetParam(), 0, {}, MDB_RDONLY);
        ASSERT_EQ(after.opened, 0);
        const std::uint64_t number = number_in(after.all());
        ASSERT_TRUE(number == last_ || number == started_);
        last_ = number;
    } else if (GetParam() == kind::heap_commits) {
        last_ = durable_;
    }
    std::filesystem::remove(medium_.path() + "-lock");
    medium_.restore(content);
    started_ = last_;
    history_.erase(history_.upper_bound(last_), history_.end());
    open();
}

void simulated_cuts::begin_anew() {
    store_.reset();
    std::filesystem::remove(medium_.path());
    std::filesystem::remove(medium_.path() + "-lock");
    medium_ = medium(medium_.path());
    history_ = {{0, {}}};
    next_.clear();
    started_ = last_ = durable_ = 0;
    at_a_moment = [](bool /*is_sync*/) {};
    if (GetParam() == kind::now_and_then || GetParam() == kind::heap_commits) {
        make_durably();
    }
    at_a_moment = [&](bool is_sync) {
        for (int times = is_sync ? 3 : static_cast<int>(random_() % 2); times > 0; --times) {
            cut();
        }
    };
    open();
}

void simulated_cuts::run(std::uint64_t media) {
    begin_anew();
    while (examined_ < media && !HasFailure()) {
        change();
        const std::uint64_t what = random_() % 60;
        if (what == 0) {
            at_risk = &medium_;
            syncs_to_failure = random_() % 4;
            const bool fails = mdb_env_sync(store_->env, 1) != 0;
            syncs_to_failure = 0;
            at_risk = nullptr;
            if (fails) {
                go_on_after_a_failure();
                continue;
            }
            durable_ = in_heap() ? durable_ : last_;
        } else if (what == 1 || what == 2) {
            reopen(what == 2);
        } else if (what == 3) {
            lose_power();
        } else if (what == 4) {
            commits_ += last_;
            begin_anew();
        } else if (what < 8 && GetParam() == kind::heap_commits) {
            commit_of_heap();
        }
    }
    EXPECT_GT(commits_ + last_, 0U);
    // The medium does lose something.
    EXPECT_TRUE(older_ > 0 || GetParam() == kind::synced || GetParam() == kind::heap_at_once);
}

TEST_P(simulated_cuts, leave_what_is_promised) {
    const char* const media = std::getenv("HOLDFAST_STORE_CUTS");
    run(media != nullptr ? std::stoull(media) : 300);
}

std::string name_of(const testing::TestParamInfo<kind>& info) {
    constexpr std::array names{"synced", "now_and_then", "heap_at_once", "heap_commits"};
    return names.at(static_cast<std::size_t>(info.param));
}

INSTANTIATE_TEST_SUITE_P(of, simulated_cuts,
                         testing::Values(kind::synced, kind::now_and_then, kind::heap_at_once, kind::heap_commits),
                         name_of);

}  // namespace
}  // namespace holdfast::store_engine
