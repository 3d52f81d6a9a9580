// Transactions over everything with every call in them failing, the allocations of memory too (campaign.hpp states the
// fault model).
//
// A step of counted_heap.hpp is one transaction. One that throws leaves the process with the step before it, its blocks
// and its names, and the next one succeeds, unless a sync failed: then only the next open tells.
#include <stdexcept>

#include <gtest/gtest.h>
#include <holdfast/transaction.hpp>

#include "campaign.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::faults {
namespace {

using support::advance;
using support::small_segments;
using support::step_of;
using support::wrong_content;

struct given_up : std::runtime_error {
    given_up() : std::runtime_error("given up") {}
};

/// What an abort must bring back beside the content.
struct usage {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    std::uint64_t objects = 0;
    [[nodiscard]] bool operator==(const usage& other) const = default;
};

usage usage_of(const manager& heap) {
    const disarmed_section without_faults;
    const heap_statistics numbers = heap.statistics();
    return {numbers.allocated_blocks, numbers.allocated_bytes,
            numbers.named_objects + numbers.unique_objects + numbers.anonymous_objects};
}

/// A heap with such faults as the trial plans, and none where it looks at what they left.
class subject {
public:
    subject(const trial& one, std::uint64_t step)
        : one_(one), step_(step), heap_(open(one, step)), used_(usage_of(heap_)) {}
    [[nodiscard]] manager& heap() noexcept { return heap_; }

    /// One that fails is tried once more.
    template <class Transaction>
    void step(Transaction transaction) {
        one_.begin(step_ + 1);
        if (!is_done(transaction)) {
            expect_unchanged();
            transaction();
        }
        one_.done(++step_);
        used_ = usage_of(heap_);
    }
    /// Nothing of it stays, whatever it throws.
    template <class Transaction>
    void drop(Transaction transaction) {
        if (is_done(transaction)) {
            throw wrong_content("a transaction that was to be taken back");
        }
        expect_unchanged();
    }

private:
    [[nodiscard]] static manager open(const trial& one, std::uint64_t step) {
        one.done(step);
        const disarmed_section without_faults;
        return {open_only, one.heap, small_segments()};
    }
    /// Throws where the heap is poisoned.
    void expect_unchanged() {
        const disarmed_section without_faults;
        heap_.transact([] {});
        if (step_of(heap_) != step_) {
            throw wrong_content("another step than before the transaction");
        }
        if (usage_of(heap_) != used_) {
            throw wrong_content("other blocks or objects than before the transaction");
        }
        if (const auto problems = heap_.check(true); !problems.empty()) {
            throw wrong_content(problems.front());
        }
    }

    const trial& one_;
    std::uint64_t step_;
    manager heap_;
    usage used_;
};

void make_subject(const std::string& path) { support::make_heap(path, 4); }

TEST(transact_faults, are_taken_back_and_may_be_repeated) {
    run_campaign({"transactions", make_subject,
                  [](const trial& one) {
                      subject all(one, 4);
                      for (const std::uint64_t step : {5U, 6U, 7U}) {
                          all.step([&] { all.heap().transact([&] { advance(all.heap(), step); }); });
                      }
                  },
                  judge_commits});
}

TEST(transact_faults, in_what_is_dropped) {
    run_campaign({"aborts", make_subject,
                  [](const trial& one) {
                      subject all(one, 4);
                      manager& heap = all.heap();
                      all.drop([&] {
                          heap.transact([&] {
                              advance(heap, 5);
                              throw given_up();
                          });
                      });
                      all.drop([&] {
                          heap.transact([&] {
                              advance(heap, 5);
                              try {
                                  heap.transact([&] {
                                      advance(heap, 6);
                                      throw given_up();
                                  });
                              } catch (const given_up&) {
                                  advance(heap, 6);
                              }
                              throw given_up();
                          });
                      });
                      all.step([&] { heap.transact([&] { advance(heap, 5); }); });
                  },
                  judge_commits});
}

/// More than what the log may have: a checkpoint follows.
constexpr std::uint64_t words = std::uint64_t{1} << 17U;
void store_much(manager& heap, std::uint64_t step) {
    auto* const much = static_cast<std::uint64_t*>(heap.root(1).get());
    for (std::uint64_t i = 0; i < words; ++i) {
        much[i] = (step << 32U | i) * 0x9e3779b97f4a7c15;
    }
}

/// Was: a checkpoint without memory took back in memory what was in the log, and a crash brought it again.
TEST(transact_faults, in_what_makes_the_log_long) {
    run_campaign({"long logs",
                  [](const std::string& path) {
                      make_subject(path);
                      manager heap(open_only, path, small_segments());
                      heap.root(1) = heap.allocate(words * sizeof(std::uint64_t));
                      heap.close(true);
                  },
                  [](const trial& one) {
                      subject all(one, 4);
                      for (const std::uint64_t step : {5U, 6U, 7U}) {
                          all.step([&] {
                              all.heap().transact([&] {
                                  advance(all.heap(), step);
                                  store_much(all.heap(), step);
                              });
                          });
                      }
                  },
                  judge_commits});
}

/// A sync that failed may be repeated.
TEST(transact_faults, in_what_is_durable_later) {
    run_campaign({"later", make_subject,
                  [](const trial& one) {
                      subject all(one, 4);
                      manager& heap = all.heap();
                      for (const std::uint64_t step : {5U, 6U}) {
                          one.begin(step);
                          const ticket made = heap.transact_later([&] { advance(heap, step); });
                          try {
                              heap.sync(made);
                          } catch (const std::exception&) {
                              heap.sync(made);
                          }
                          one.done(step);
                      }
                  },
                  judge_commits});
}

/// Who waits for another one's sync is told that it failed, and loses nothing where something else did.
TEST(transact_faults, in_what_others_wait_for) {
    run_campaign({"tickets", make_subject,
                  [](const trial& one) {
                      subject all(one, 4);
                      manager& heap = all.heap();
                      const ticket waits = heap.transact_later([&] { advance(heap, 5); });
                      one.begin(6);
                      try {
                          heap.transact([&] { advance(heap, 6); });
                          one.done(6);
                      } catch (const std::exception&) {
                          const disarmed_section without_faults;
                          if (!is_done([&] { heap.transact([] {}); })) {  // poisoned
                              if (is_done([&] { heap.sync(waits); })) {
                                  throw wrong_content("a ticket of what is not durable");
                              }
                              throw;
                          }
                          one.begin(5);
                          one.done(5);
                      }
                      heap.sync(waits);
                  },
                  judge_commits});
}

}  // namespace
}  // namespace holdfast::faults
