// A store, and one that lies in a heap, with every call in them failing (campaign.hpp states the fault model).
//
// A step is one transaction. What a store holds follows from the number of the last one, and a step that failed has
// changed nothing: neither to who looks at once, nor to who opens the store afterwards.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/store_in_heap.hpp>
#include <lmdb.h>

#include "campaign.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::faults {
namespace {

using support::wrong_content;
using testing::IsEmpty;

constexpr std::uint64_t keys = 6;
constexpr std::uint64_t first_steps = 7;
constexpr std::uint64_t tried_steps = 8;

struct counter {
    std::uint64_t step = 0;
};

/// Records of some pages; some that fill the log, and some that do not fit into it: both are checkpoints.
std::string value_of(std::uint64_t step) {
    const std::size_t size = step % 4 == 3 ? 1'500'000 : step % 4 == 1 ? 400'000 : 50 + step * 700;
    return std::string(size, static_cast<char>('a' + step % 26));
}
bool erases(std::uint64_t step) { return step % 5 == 4; }

void change(store_changes& in, std::uint64_t step) {
    const std::string key = "key" + std::to_string(step % keys);
    if (erases(step)) {
        in.erase(key);
    } else {
        in.put(key, value_of(step));
    }
    in.put("step", std::to_string(step));
}

/// The last step of which a view has the changes. Throws wrong_content where it has others, too.
std::uint64_t step_of(const store_view& in) {
    const auto text = in.get("step");
    const std::uint64_t step = text ? std::stoull(std::string(*text)) : 0;
    for (std::uint64_t key = 0; key < keys; ++key) {
        std::uint64_t last = step;
        while (last > 0 && last % keys != key) {
            --last;
        }
        const auto value = in.get("key" + std::to_string(key));
        const bool is_there = last != 0 && !erases(last);
        if (value.has_value() != is_there || (is_there && *value != value_of(last))) {
            throw wrong_content("key" + std::to_string(key) + " at step " + std::to_string(step));
        }
    }
    return step;
}

void expect_step(std::uint64_t found, std::uint64_t expected, const char* where) {
    if (found != expected) {
        throw wrong_content(std::string(where) + " has step " + std::to_string(found) + ", expected " +
                            std::to_string(expected));
    }
}

/// Runs what may fail. False: it did.
template <class Call>
bool succeeds(Call call) {
    try {
        call();
        return true;
    } catch (const store_error&) {
    } catch (const error&) {
    } catch (const std::bad_alloc&) {
    }
    return false;
}

/// Beside steps that fail a view stays what it was.
template <class Step>
void take_steps(store& of, const trial& one, std::uint64_t& step, Step take) {
    std::optional<store_view> held;
    std::uint64_t held_step = 0;
    for (std::uint64_t tried = 0; tried < tried_steps; ++tried) {
        one.begin(step + 1);
        const bool done = succeeds([&] { take(step + 1); });
        step += done ? 1 : 0;
        if (done) {
            one.done(step);
        }
        const disarmed_section without_faults;
        expect_step(step_of(of.read()), step, "the store");
        if (held) {
            expect_step(step_of(*held), held_step, "the view");
        }
        if (tried % 3 == 0) {
            held.emplace(of.read());
            held_step = step;
        }
    }
}

/// Each step fails for each allocation of memory in it, before it succeeds.
template <class Step>
void take_steps_without_memory(store& of, Step take) {
    std::uint64_t failures = 0;
    for (std::uint64_t step = 1; step <= 3 * keys; ++step) {
        for (std::uint64_t nth = 1;; ++nth) {
            arm({call::memory, nth, false, ENOMEM});
            const bool done = succeeds([&] { take(step); });
            const bool had_fault = fired() != 0;
            disarm();
            ASSERT_EQ(step_of(of.read()), done ? step : step - 1) << "allocation " << nth;
            ASSERT_NO_THROW(static_cast<void>(of.check())) << "allocation " << nth << " of step " << step;
            failures += done ? 0 : 1;
            if (done) {
                break;
            }
            ASSERT_TRUE(had_fault);
        }
    }
    EXPECT_GT(failures, 5 * keys);
}

void step_alone(store& of, std::uint64_t step) {
    auto changes = of.write();
    change(changes, step);
    changes.commit();
}

/// Beside holes that its process knows: a store to it asks the kernel first.
void make_store_with_holes(const std::string& path) {
    constexpr int entries = 200;
    const auto name = [](int number) { return "hole" + std::to_string(number); };
    store made(path);
    for (int i = 0; i < entries; ++i) {
        auto changes = made.write();
        changes.put(name(i), std::string(20'000, 'h'));
        changes.commit();
    }
    for (int i = 0; i < entries; ++i) {
        auto changes = made.write();
        changes.erase(name(i));
        changes.put("between" + std::to_string(i), "stays");
        changes.commit();
    }
}

bool asks_before_stores(const std::string& directory) {
    struct statfs of {};
    constexpr std::int64_t ext4 = 0xef53;
    return ::statfs(directory.c_str(), &of) == 0 && (of.f_type == ext4 || of.f_type == XFS_SUPER_MAGIC);
}

/// A part of the record may lie in the log, and what is written there next could complete it: its transaction, which
/// has failed, would be there after a loss of power.
TEST(faults_of_stores, a_record_that_no_call_and_no_store_can_write_is_void) {
    const support::scratch_directory directory(base::disk_directory());
    if (!asks_before_stores(directory.path())) {
        std::printf("NOT TESTED HERE: %s is neither ext4 nor XFS\n", directory.path().c_str());
        GTEST_SKIP() << "neither ext4 nor XFS";
    }
    const std::string path = directory / "store";
    make_store_with_holes(path);
    store opened(path);
    const auto put = [&](std::size_t size, char with) {
        return succeeds([&] {
            auto changes = opened.write();
            changes.put("key", std::string(size, with));
            changes.commit();
        });
    };
    const auto expect = [](const store& in, char with) {
        const store_view view = in.read();
        const auto value = view.get("key");
        ASSERT_TRUE(value.has_value());
        EXPECT_EQ(value->front(), with);
    };
    constexpr std::size_t by_call = 20'000;
    for (int i = 0; i < 40; ++i) {  // the log grows, and a record is no checkpoint
        ASSERT_TRUE(put(by_call, 'a'));
    }
    ASSERT_TRUE(put(100, 'a'));

    arm({call::pwrite, 1, false, ENOSPC, call::madvise, EFAULT});
    EXPECT_FALSE(put(by_call, 'b'));
    EXPECT_EQ(fired(), 1U);
    disarm();
    expect(opened, 'a');

    // The next one writes over the record's head, before it stores its own.
    arm({call::pwrite, 1, false, EIO});
    EXPECT_FALSE(put(100, 'c'));
    EXPECT_EQ(fired(), 1U);
    disarm();
    expect(opened, 'a');

    ASSERT_TRUE(put(100, 'd'));
    ASSERT_TRUE(put(by_call, 'e'));
    expect(opened, 'e');
    EXPECT_NO_THROW(static_cast<void>(opened.check()));
    const std::string crashed = directory / "crashed";
    support::copy_directory(path, crashed);
    expect(store(crashed), 'e');
}

TEST(faults_of_stores, memory_runs_out) {
    const support::scratch_directory directory;
    {
        store opened(directory / "store");
        take_steps_without_memory(opened, [&](std::uint64_t step) { step_alone(opened, step); });
    }
    const store again(directory / "store");
    EXPECT_EQ(step_of(again.read()), 3 * keys);
    EXPECT_NO_THROW(static_cast<void>(again.check()));
}

/// A store by the interface of LMDB, which alone has transactions within others.
class store_without_wrapper {
public:
    explicit store_without_wrapper(const std::string& path) {
        EXPECT_EQ(mdb_env_create(&env_), 0);
        EXPECT_EQ(mdb_env_open(env_, path.c_str(), MDB_NOSUBDIR, 0644), 0);
    }
    store_without_wrapper(const store_without_wrapper&) = delete;
    store_without_wrapper& operator=(const store_without_wrapper&) = delete;
    ~store_without_wrapper() { mdb_env_close(env_); }

    [[nodiscard]] MDB_txn* begin(MDB_txn* outer) {
        MDB_txn* made = nullptr;
        EXPECT_EQ(mdb_txn_begin(env_, outer, 0, &made), 0);
        return made;
    }
    /// Gives each of 300 keys a value of 1,000 bytes.
    static int put_all(MDB_txn* in, char content) {
        int outcome = 0;
        for (int key = 0; key < 300 && outcome == 0; ++key) {
            std::string value(1000, content);
            MDB_val k{sizeof key, &key};
            MDB_val v{value.size(), value.data()};
            outcome = mdb_put(in, 1, &k, &v, 0);
        }
        return outcome;
    }
    /// The store is sound, and all values are these.
    void expect_all(char content) {
        EXPECT_EQ(hf_lmdb_check(env_, nullptr), 0);
        MDB_txn* const in = begin(nullptr);
        for (int key = 0; key < 300; ++key) {
            MDB_val k{sizeof key, &key};
            MDB_val v{};
            ASSERT_EQ(mdb_get(in, 1, &k, &v), 0) << key;
            EXPECT_EQ(std::string(static_cast<const char*>(v.mv_data), v.mv_size), std::string(1000, content));
        }
        mdb_txn_abort(in);
    }

private:
    MDB_env* env_ = nullptr;
};

/// Was: the outer transaction went on where memory had run out in the commit of the inner one, with pages that were
/// free already: MDB_CORRUPTED.
TEST(faults_of_stores, memory_runs_out_where_an_inner_transaction_commits) {
    const support::scratch_directory directory;
    store_without_wrapper opened(directory / "store");
    MDB_txn* const first = opened.begin(nullptr);
    ASSERT_EQ(store_without_wrapper::put_all(first, 'a'), 0);
    ASSERT_EQ(mdb_txn_commit(first), 0);
    std::uint64_t failures = 0;
    for (bool done = false; !done;) {
        MDB_txn* const outer = opened.begin(nullptr);
        ASSERT_EQ(store_without_wrapper::put_all(outer, 'b'), 0);
        MDB_txn* const inner = opened.begin(outer);
        ASSERT_EQ(store_without_wrapper::put_all(inner, 'c'), 0);
        arm({call::memory, failures + 1, false, ENOMEM});
        done = mdb_txn_commit(inner) == 0;
        disarm();
        if (done) {
            EXPECT_EQ(mdb_txn_commit(outer), 0);
        } else {
            ++failures;
            EXPECT_EQ(store_without_wrapper::put_all(outer, 'd'), MDB_BAD_TXN);
            EXPECT_EQ(mdb_txn_commit(outer), MDB_BAD_TXN);
        }
        opened.expect_all(done ? 'c' : 'a');
    }
    EXPECT_GT(failures, 0U);
}

// --- in a heap ------------------------------------------------------------------------------------------------------

using domain_choice = open_options::domain_choice;

open_options options_of(durability wanted, domain_choice domain) {
    open_options options = support::small_segments();
    options.durability = wanted;
    options.domain = domain;
    options.accept_process_crash_only = domain == domain_choice::emulated;
    return options;
}
open_options options_of(durability wanted) {
    return options_of(wanted, wanted == durability::atomic ? domain_choice::disk : domain_choice::detect);
}

/// Was: std::terminate(), in a checkpoint that noted which pages to write back.
TEST(faults_of_stores, memory_runs_out_on_persistent_memory) {
    const support::scratch_directory directory;
    manager heap(create_only, directory / "heap", options_of(durability::atomic, domain_choice::emulated));
    heap_store in(heap, "shop");
    take_steps_without_memory(
        in, [&](std::uint64_t step) { heap.transact([&](transaction& tx) { change(in.write(tx), step); }); });
}

counter& counter_of(manager& heap) { return *heap.find<counter>("counter").first; }

void step_of_both(manager& heap, heap_store& in, std::uint64_t step) {
    heap.transact([&](transaction& tx) {
        tx.open(counter_of(heap)).step = step;
        change(in.write(tx), step);
    });
}

void make_both(const std::string& path, const open_options& with) {
    manager heap(create_only, path, with);
    heap.construct<counter>("counter")();
    heap_store in(heap, "shop");
    for (std::uint64_t step = 1; step <= first_steps; ++step) {
        step_of_both(heap, in, step);
    }
    heap.close(true);
}

/// One of the heap's log, and one of the store's where a sync does something: not in memory.
TEST(faults_of_stores, a_transaction_waits_for_two_syncs) {
    constexpr std::uint64_t transactions = 10;
    const support::scratch_directory directory;
    manager heap(create_only, directory / "heap", options_of(durability::atomic));
    heap_store in(heap, "shop");
    const auto put = [&] { heap.transact([&](transaction& tx) { in.write(tx).put("n", "1"); }); };
    put();
    arm({});
    for (std::uint64_t i = 0; i < transactions; ++i) {
        put();
    }
    disarm();
    const auto counted = calls();
    std::uint64_t syncs = 0;
    for (const call each : {call::msync, call::fsync, call::fdatasync, call::pwritev2}) {
        syncs += counted.at(static_cast<std::size_t>(each));
    }
    struct statfs files {};
    ASSERT_EQ(::statfs((directory / "").c_str(), &files), 0);
    const bool in_memory = files.f_type == TMPFS_MAGIC;
    EXPECT_EQ(syncs, transactions * (in_memory ? 1 : 2));
}

/// Where a commit of the heap counts alone, it has the last step that returned, or that of before.
void commit_heap(manager& heap, const trial& one, std::uint64_t step) {
    one.begin(step);
    if (succeeds([&] { heap.commit(); })) {
        one.done(step);
    }
}

void use_both(const trial& one, const open_options& with) {
    one.begin(first_steps);
    one.done(first_steps);
    std::uint64_t step = first_steps;
    progress own{};
    const bool by_commit = with.durability == durability::commit;
    const trial& counted = by_commit ? trial{one.heap, one.other, own} : one;
    succeeds([&] {
        manager heap(open_only, one.heap, with);
        heap_store in(heap, "shop");
        const auto take = [&](std::uint64_t next) {
            transaction tx(heap);
            tx.open(counter_of(heap)).step = next;
            change(in.write(tx), next);
            tx.commit();
        };
        for (int times = 0; times < 3; ++times) {
            take_steps(in, counted, step, take);
            expect_step(counter_of(heap).step, step, "the heap");
            if (by_commit) {
                commit_heap(heap, one, step);
            }
        }
        succeeds([&] { in.sync(); });
        if (by_commit) {
            one.begin(step);
        }
        if (succeeds([&] { heap.close(true); }) && by_commit) {
            one.done(step);
        }
    });
}

/// Durability `commit`: a transaction over everything counts in both when it has returned. In a heap that takes no more
/// only the next opening tells.
void transact_both(const trial& one, const open_options& with) {
    one.begin(first_steps);
    one.done(first_steps);
    std::uint64_t step = first_steps;
    succeeds([&] {
        manager heap(open_only, one.heap, with);
        heap_store in(heap, "shop");
        for (int times = 0; times < 3; ++times) {
            take_steps(in, one, step, [&](std::uint64_t next) { step_of_both(heap, in, next); });
            const disarmed_section without_faults;
            if (succeeds([&] { heap.transact([] {}); })) {
                expect_step(counter_of(heap).step, step, "the heap");
            }
        }
        succeeds([&] { heap.close(true); });
    });
}

void judge_both(const trial& one, const open_options& with) {
    std::uint64_t step = 0;
    {
        manager heap(open_only, one.heap, with);
        EXPECT_THAT(heap.check(false), IsEmpty());
        heap_store in(heap, "shop");
        EXPECT_NO_THROW(static_cast<void>(in.check()));
        step = step_of(in.read());
        EXPECT_EQ(counter_of(heap).step, step) << "a part of a transaction";
        EXPECT_GE(step, one.told.acknowledged);
        EXPECT_LE(step, one.told.attempted);
        for (int i = 0; i < 4; ++i) {
            step_of_both(heap, in, ++step);
        }
        heap.close(true);
    }
    manager again(open_read_only, one.heap, support::small_segments());
    const heap_store in(again, "shop");
    EXPECT_EQ(step_of(in.read()), step);
    EXPECT_EQ(counter_of(again).step, step);
    EXPECT_NO_THROW(static_cast<void>(in.check()));
}

void run_both(const std::string& name, const open_options& with) {
    run_campaign({name, [with](const std::string& path) { make_both(path, with); },
                  [with](const trial& one) { use_both(one, with); },
                  [with](const trial& one, bool /*once*/) { judge_both(one, with); }});
}

TEST(faults_of_stores, memory_runs_out_in_a_heap) {
    for (const durability wanted : {durability::atomic, durability::commit}) {
        const support::scratch_directory directory;
        {
            manager heap(create_only, directory / "heap", options_of(wanted));
            heap.construct<counter>("counter")();
            heap_store in(heap, "shop");
            take_steps_without_memory(in, [&](std::uint64_t step) { step_of_both(heap, in, step); });
            EXPECT_EQ(counter_of(heap).step, 3 * keys);
            heap.close(true);
        }
        manager again(open_only, directory / "heap", options_of(wanted));
        const heap_store in(again, "shop");
        EXPECT_EQ(step_of(in.read()), 3 * keys);
        EXPECT_NO_THROW(static_cast<void>(in.check()));
    }
}

TEST(faults_of_stores, in_a_heap_on_disk) { run_both("store in a heap on a disk", options_of(durability::atomic)); }

TEST(faults_of_stores, in_a_heap_on_persistent_memory) {
    run_both("store in a heap on persistent memory", options_of(durability::atomic, domain_choice::emulated));
}

TEST(faults_of_stores, in_a_heap_with_commits) {
    run_both("store in a heap with commits", options_of(durability::commit));
}

TEST(faults_of_stores, in_a_heap_whose_transactions_are_commits) {
    const open_options with = options_of(durability::commit);
    run_campaign({"store in transactions over everything", [with](const std::string& path) { make_both(path, with); },
                  [with](const trial& one) { transact_both(one, with); },
                  [with](const trial& one, bool /*once*/) { judge_both(one, with); }});
}

}  // namespace
}  // namespace holdfast::faults
