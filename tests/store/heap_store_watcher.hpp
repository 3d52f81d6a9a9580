// A heap and a store in it, for tests that kill their process or take its power: money moves between an object of the
// heap and entries of the store.
//
// Oracle: object and entries add up to 0, and have the same number of the last transaction, which is the last one that
// returned or the one in flight (durability `commit`: at least that of the last commit() of the heap, and of the last
// transact() that returned). The store's own commits keep theirs in the same way, and a snapshot has some state in
// which both agree. Another store is made and removed again: where the heap names it, it is sound, and no other file is
// left.
#pragma once

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <holdfast/store_in_heap.hpp>

#include "base/process_test_support.hpp"
#include "kill/cycles.hpp"

namespace holdfast::test {

struct bank_account {
    std::int64_t balance = 0;
    std::uint64_t number = 0;  ///< of the last transaction of both
};

struct shared_progress {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> returned;
    std::atomic<std::uint64_t> own_begun;  ///< of the store alone
    std::atomic<std::uint64_t> own_returned;
    std::atomic<std::uint64_t> committed;  ///< durability `commit`: the last one that surely is durable
    std::atomic<bool> runs;
    char problem[400];
};

inline std::int64_t number_in(const store_view& in, const std::string& key) {
    const auto text = in.get(key);
    std::int64_t number = 0;
    if (text) {
        std::from_chars(text->data(), text->data() + text->find('.'), number);
    }
    return number;
}

/// A number with as many bytes behind it as fill the log of a store sooner or later.
inline std::string with_filling(std::int64_t number, std::size_t filling) {
    return std::to_string(number) + "." + std::string(filling, 'f');
}

class heap_store_watcher {
public:
    heap_store_watcher(std::string directory, durability wanted, open_options::domain_choice domain, std::uint64_t seed)
        : directory_(std::move(directory)), random_(seed) {
        options_.durability = wanted;
        options_.domain = domain;
        options_.accept_process_crash_only = true;
        options_.segment_size = std::uint64_t{2} << 20U;
        options_.reservation = std::uint64_t{1} << 30U;
    }
    /// Cycles end with a loss of power: `fail` lets it happen while the process works, `restore` comes after its end.
    void use_power_loss(std::function<void()> fail, std::function<void()> restore) {
        fail_ = std::move(fail);
        restore_ = std::move(restore);
    }
    std::string next_heap() {
        if (tally_.heaps != 0) {
            manager::remove(path());
        }
        ++tally_.heaps;
        kept_ = {};
        manager heap(create_only, path(), options_);
        heap.construct<bank_account>("account")();
        const heap_store shop(heap, "shop");
        return {};
    }
    std::string cycle();
    [[nodiscard]] const change_tally& numbers() const noexcept { return tally_; }

private:
    struct state {
        std::uint64_t number = 0;
        std::uint64_t own = 0;
    };
    [[nodiscard]] std::string path() const { return directory_ + "/heap"; }
    void work(std::uint64_t seed);
    void move_money(manager& heap, heap_store& shop, std::mt19937_64& random);
    static void make_or_remove(manager& heap, std::mt19937_64& random);
    static std::string look_at_others(manager& heap);
    std::string examine();
    static std::string look(const std::string& path, const open_options& options, state& found);

    std::string directory_;
    std::function<void()> fail_;
    std::function<void()> restore_;
    open_options options_;
    std::mt19937_64 random_;
    base::shared_memory<shared_progress> shown_;
    state kept_;  ///< what the last cycle found
    change_tally tally_;
};

inline void heap_store_watcher::move_money(manager& heap, heap_store& shop, std::mt19937_64& random) {
    bank_account& mine = *heap.find<bank_account>("account").first;
    const std::string key = "account" + std::to_string(random() % 40);
    const auto amount = static_cast<std::int64_t>(random() % 1000);
    const std::size_t filling = random() % 16 == 0 ? 300'000 : random() % 400;
    const bool dropped = random() % 8 == 0;
    if (!dropped) {
        ++shown_->begun;
    }
    const auto move = [&](transaction& in) {
        bank_account& copy = in.open(mine);
        store_changes& change = shop.write(in);
        copy.balance -= amount;
        copy.number += 1;
        change.put(key, with_filling(number_in(change, key) + amount, filling));
        change.put("number", std::to_string(copy.number) + ".");
    };
    if (options_.durability == durability::commit && random() % 2 == 0) {
        heap.transact([&](transaction& in) {
            move(in);
            if (dropped) {
                in.abort();
            }
        });
        if (!dropped) {
            ++shown_->returned;
            shown_->committed = shown_->returned.load();
        }
        return;
    }
    transaction tx(heap);
    move(tx);
    if (dropped && amount % 2 == 0) {
        return;
    }
    if (dropped) {  // by the heap, when the store has its half already
        tx.free(&mine);
        tx.free(&mine);
        try {
            tx.commit();
        } catch (const error& what) {
            if (what.reason() != errc::bad_address) {
                throw;
            }
            return;
        }
        throw std::logic_error("two frees of a block were taken");
    }
    tx.commit();
    ++shown_->returned;
}

inline void heap_store_watcher::make_or_remove(manager& heap, std::mt19937_64& random) {
    if (random() % 2 == 0) {
        remove_store(heap, "other");
        return;
    }
    heap_store other(heap, "other");
    store_transaction change = other.write();
    change.put("key", std::string(random() % 10 == 0 ? 1'000'000 : 100, 'v'));
    change.commit();
}

inline std::string heap_store_watcher::look_at_others(manager& heap) {
    for (const std::string& name : stores_of(heap)) {
        static_cast<void>(heap_store(heap, name).check());
    }
    if (remove_store(heap, "none")) {
        return "a store that was never made was removed";
    }
    std::size_t files = 0;
    for (const auto& each : std::filesystem::directory_iterator(heap.path())) {
        files += each.path().filename().string().starts_with("store.") ? 1U : 0U;
    }
    return files == stores_of(heap).size() ? "" : std::to_string(files) + " files of stores are there";
}

inline void heap_store_watcher::work(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    manager heap(open_only, path(), options_);
    heap_store shop(heap, "shop");
    shown_->runs = true;
    for (;;) {
        move_money(heap, shop, random);
        if (random() % 4 == 0) {
            ++shown_->own_begun;
            auto alone = shop.write();
            alone.put("own", std::to_string(shown_->own_begun.load()) + ".");
            alone.commit();
            ++shown_->own_returned;
        }
        if (random() % 20 == 0) {
            make_or_remove(heap, random);
        }
        if (options_.durability == durability::commit && random() % 10 == 0) {
            heap.commit();
            shown_->committed = shown_->returned.load();
        }
        if (random() % 200 == 0) {
            heap.snapshot(directory_ + "/snapshot" + std::to_string(random()));
        }
    }
}

inline std::string heap_store_watcher::look(const std::string& path, const open_options& options, state& found) {
    manager heap(open_only, path, options);
    heap_store shop(heap, "shop");
    static_cast<void>(shop.check());
    if (std::string wrong = look_at_others(heap); !wrong.empty()) {
        return wrong;
    }
    const bank_account& mine = *heap.find<bank_account>("account").first;
    const store_view view = shop.read();
    std::int64_t sum = mine.balance;
    for (int i = 0; i < 40; ++i) {
        sum += number_in(view, "account" + std::to_string(i));
    }
    found = {mine.number, static_cast<std::uint64_t>(number_in(view, "own"))};
    if (sum != 0) {
        return "object and entries add up to " + std::to_string(sum);
    }
    if (number_in(view, "number") != static_cast<std::int64_t>(mine.number)) {
        return "the store has transaction " + std::to_string(number_in(view, "number")) + ", the heap " +
               std::to_string(mine.number);
    }
    return {};
}

inline std::string heap_store_watcher::examine() {
    state found;
    if (std::string wrong = look(path(), options_, found); !wrong.empty()) {
        return wrong;
    }
    for (const auto& each : std::filesystem::directory_iterator(directory_)) {
        const std::string name = each.path().filename().string();
        if (!name.starts_with("snapshot")) {
            continue;
        }
        state ignored;
        if (std::filesystem::exists(each.path() / "superblock")) {
            if (std::string wrong = look(each.path().string(), options_, ignored); !wrong.empty()) {
                return name + ": " + wrong;
            }
        }
        std::filesystem::remove_all(each.path());
    }
    const bool by_commit = options_.durability == durability::commit;
    const std::uint64_t least = kept_.number + (by_commit ? shown_->committed : shown_->returned).load();
    const std::uint64_t most = kept_.number + shown_->begun.load();
    if (found.number < least || found.number > most) {
        return "transaction " + std::to_string(found.number) + " is the last, expected " + std::to_string(least) +
               " to " + std::to_string(most);
    }
    if (!by_commit && (found.own < shown_->own_returned || found.own > shown_->own_begun)) {
        return "the store's own commit " + std::to_string(found.own) + " is the last, " +
               std::to_string(shown_->own_returned) + " returned";
    }
    tally_.changes += found.number - kept_.number;
    ++(found.number == most ? tally_.in_flight_after : tally_.in_flight_before);
    kept_ = found;
    return {};
}

inline std::string heap_store_watcher::cycle() {
    ++tally_.cycles;
    shown_->begun = shown_->returned = shown_->committed = 0;
    shown_->own_begun = shown_->own_returned = kept_.own;
    const std::uint64_t seed = random_();
    const auto works = [&] {
        try {
            work(seed);
        } catch (const std::exception& what) {
            if (!fail_) {
                std::snprintf(&shown_->problem[0], sizeof(shown_->problem), "%s", what.what());
            }
        }
    };
    const auto loses_power = [&](const base::child_process& worker) {
        if (fail_) {
            fail_();
            static_cast<void>(worker.ends_within(random_() % 5'000'000));  // it may notice, or go on
        }
    };
    const std::string wrong = kill_within(random_() % 60'000'000, *shown_, works, loses_power, fail_ ? SIGBUS : 0);
    if (restore_) {
        restore_();
    }
    return wrong.empty() ? examine() : wrong;
}

}  // namespace holdfast::test
