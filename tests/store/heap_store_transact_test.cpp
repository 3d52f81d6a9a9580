// Stores that take part in transactions over everything (durability `commit`): what is durable when transact() returns,
// what an abort of the whole or of a part takes back, and what a crash leaves.
#include <array>
#include <csignal>
#include <cstddef>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/store_in_heap.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

using number_map = map<int, int>;

struct given_up : std::exception {};

/// A heap with a map and two stores, as one text: "map: 1 2 | first: a=1 | second:".
class both {
public:
    explicit both(const std::string& path)
        : heap(open_or_create, path, small_options()),
          numbers(*heap.find_or_construct<number_map>("numbers")()),
          first(heap, "first"),
          second(heap, "second") {}

    [[nodiscard]] std::string content() const {
        std::string text = "map:";
        for (const auto& each : numbers) {
            text += " " + std::to_string(each.first);
        }
        for (const auto& [name, of] : {std::pair<const char*, const store*>{"first", &first}, {"second", &second}}) {
            text += std::string(" | ") + name + ":";
            const store_view view = of->read();
            for (const auto& [key, value] : view.all()) {
                text += " " + std::string(key);
                EXPECT_EQ(value.substr(0, key.size()), key);
            }
            EXPECT_NO_THROW(static_cast<void>(of->check()));
        }
        return text;
    }
    /// In all three.
    void add(transaction& tx, int number, std::size_t bytes = 10) {
        numbers.emplace(number, number);
        for (heap_store* const each : {&first, &second}) {
            put(*each, tx, number, bytes);
        }
    }
    static void put(heap_store& to, transaction& tx, int number, std::size_t bytes = 10) {
        to.write(tx).put(std::to_string(number), std::to_string(number) + std::string(bytes, '.'));
    }

    manager heap;
    number_map& numbers;
    heap_store first;
    heap_store second;
};

class heap_store_transact : public testing::Test {
protected:
    [[nodiscard]] std::string path() const { return directory_.path("heap"); }
    /// What a crash leaves when `work` has returned.
    [[nodiscard]] std::string left_by(const std::function<void(both&)>& work) const {
        const base::process_end end = base::child_process([&] {
                                          both all(path());
                                          work(all);
                                          static_cast<void>(::raise(SIGKILL));
                                      }).wait();
        EXPECT_EQ(end.signal(), SIGKILL);
        return both(path()).content();
    }

private:
    segment::test_directory directory_;
};

/// Was: the store's part was durable with the next commit or transaction of the heap.
TEST_F(heap_store_transact, is_durable_in_both_when_it_returns) {
    std::string expected;
    for (int number = 1; number < 9; ++number) {  // records, and checkpoints of the stores
        const std::size_t bytes = number % 3 == 0 ? 3'000'000 : 200 * static_cast<std::size_t>(number);
        expected += " " + std::to_string(number);
        EXPECT_EQ(left_by([&](both& all) { all.heap.transact([&](transaction& tx) { all.add(tx, number, bytes); }); }),
                  "map:" + expected + " | first:" + expected + " | second:" + expected);
    }
}

TEST_F(heap_store_transact, a_store_alone_is_durable_when_it_returns) {
    EXPECT_EQ(left_by([](both& all) {
                  all.heap.transact([&](transaction& tx) { both::put(all.second, tx, 1); });
                  all.heap.transact([&] { all.heap.construct<int>("other")(1); });
              }),
              "map: | first: | second: 1");
}

TEST_F(heap_store_transact, changes_before_it_are_part_of_it) {
    EXPECT_EQ(left_by([](both& all) {
                  all.numbers.emplace(1, 1);
                  store_transaction alone = all.first.write();
                  alone.put("1", "1");
                  alone.commit();
                  all.heap.transact([&](transaction& tx) { both::put(all.second, tx, 2); });
              }),
              "map: 1 | first: 1 | second: 2");
}

TEST_F(heap_store_transact, one_that_is_taken_back_leaves_nothing) {
    const auto throws = [](both& all, std::size_t bytes) {
        EXPECT_THROW(all.heap.transact([&](transaction& tx) {
            all.add(tx, 2, bytes);
            throw given_up();
        }),
                     given_up);
        EXPECT_EQ(all.content(), "map: 1 | first: 1 | second: 1");
        all.heap.transact([&](transaction& tx) {
            all.add(tx, 3, bytes);
            tx.abort();
        });
        EXPECT_EQ(all.content(), "map: 1 | first: 1 | second: 1");
        // Was: what the transaction had committed itself stayed.
        EXPECT_THROW(all.heap.transact([&](transaction& tx) {
            all.add(tx, 4, bytes);
            tx.commit();
            throw given_up();
        }),
                     given_up);
        EXPECT_EQ(all.content(), "map: 1 | first: 1 | second: 1");
    };
    EXPECT_EQ(left_by([&](both& all) {
                  all.heap.transact([&](transaction& tx) { all.add(tx, 1); });
                  throws(all, 10);
                  throws(all, 3'000'000);
              }),
              "map: 1 | first: 1 | second: 1");
    EXPECT_EQ(left_by([&](both& all) { all.heap.transact([&](transaction& tx) { all.add(tx, 5); }); }),
              "map: 1 5 | first: 1 5 | second: 1 5");
}

TEST_F(heap_store_transact, a_part_is_taken_back_alone) {
    EXPECT_EQ(left_by([](both& all) {
                  all.heap.transact([&](transaction& tx) {
                      all.numbers.emplace(1, 1);
                      both::put(all.first, tx, 1);
                      EXPECT_THROW(all.heap.transact([&](transaction& part) {
                          all.add(part, 2);
                          EXPECT_EQ(all.first.write(part).size(), 2U) << "it sees what was changed before it";
                          throw given_up();
                      }),
                                   given_up);
                      all.heap.transact([&](transaction& part) { all.add(part, 3); });
                      all.heap.transact([&](transaction& part) {
                          all.heap.transact([&](transaction& inner) { all.add(inner, 4); });
                          all.add(part, 5);
                          EXPECT_THROW(all.heap.transact([&] {
                              all.heap.transact([&](transaction& inner) { all.add(inner, 6); });
                              throw given_up();
                          }),
                                       given_up);
                          part.commit();
                      });
                      both::put(all.first, tx, 7);
                  });
              }),
              "map: 1 3 4 5 | first: 1 3 4 5 7 | second: 3 4 5");
}

TEST_F(heap_store_transact, parts_go_with_the_whole) {
    EXPECT_EQ(left_by([](both& all) {
                  EXPECT_THROW(all.heap.transact([&] {
                      all.heap.transact([&](transaction& part) { all.add(part, 1, 3'000'000); });
                      all.heap.transact([&](transaction& part) { all.add(part, 2); });
                      throw given_up();
                  }),
                               given_up);
                  EXPECT_EQ(all.content(), "map: | first: | second:");
                  all.heap.transact([&](transaction& tx) { all.add(tx, 3); });
              }),
              "map: 3 | first: 3 | second: 3");
}

TEST_F(heap_store_transact, a_transaction_around_another_one_does_not_write) {
    both all(path());
    all.heap.transact([&](transaction& tx) {
        all.add(tx, 1);
        all.heap.transact([&] { EXPECT_EQ(reason_of([&] { both::put(all.first, tx, 2); }), errc::invalid_argument); });
        transaction part(tx);
        EXPECT_EQ(reason_of([&] { both::put(all.first, part, 3); }), errc::invalid_argument);
        part.abort();
        all.add(tx, 4);
    });
    transaction around(all.heap);
    all.heap.transact([&] { EXPECT_EQ(reason_of([&] { both::put(all.first, around, 5); }), errc::invalid_argument); });
    EXPECT_EQ(all.content(), "map: 1 4 | first: 1 4 | second: 1 4");
}

TEST_F(heap_store_transact, a_ticket_is_of_both) {
    const auto later = [](both& all, int number) {
        return all.heap.transact_later([&, number](transaction& tx) { all.add(tx, number, 200'000); });
    };
    EXPECT_EQ(left_by([&](both& all) {
                  all.heap.sync(later(all, 1));
                  static_cast<void>(later(all, 2));
                  EXPECT_EQ(all.content(), "map: 1 2 | first: 1 2 | second: 1 2");
              }),
              "map: 1 | first: 1 | second: 1");
    EXPECT_EQ(left_by([&](both& all) {
                  static_cast<void>(later(all, 3));
                  EXPECT_THROW(all.heap.transact([&](transaction& tx) {
                      all.add(tx, 4);
                      throw given_up();
                  }),
                               given_up);
                  EXPECT_THROW(static_cast<void>(all.heap.transact_later([&](transaction& tx) {
                                   all.add(tx, 5);
                                   throw given_up();
                               })),
                               given_up);
                  EXPECT_EQ(all.content(), "map: 1 3 | first: 1 3 | second: 1 3");
                  all.heap.transact([&](transaction& tx) { both::put(all.first, tx, 6); });
              }),
              "map: 1 3 | first: 1 3 6 | second: 1 3");
}

/// Was: after a transact_later() with a store's part, one that failed took nothing back.
TEST_F(heap_store_transact, one_that_is_refused_at_its_end_leaves_nothing) {
    both all(path());
    static_cast<void>(all.heap.transact_later([&](transaction& tx) { all.add(tx, 1); }));
    EXPECT_THROW(all.heap.transact([&](transaction& tx) {
        all.add(tx, 2);
        // A program's mistake: it is open until the store ends it, so nothing else may.
        alignas(store_transaction) static std::array<std::byte, sizeof(store_transaction)> open;
        ::new (open.data()) store_transaction(all.second.write(tx).nested());
    }),
                 store_error)
        << "behind the first store's part, that of the second";
    EXPECT_EQ(all.content(), "map: 1 | first: 1 | second: 1");
    all.heap.transact([&](transaction& tx) { all.add(tx, 3); });
    EXPECT_EQ(all.content(), "map: 1 3 | first: 1 3 | second: 1 3");
}

/// A part whose changes went to one store and could not go to the other was taken back, and half of it stays.
TEST_F(heap_store_transact, half_of_a_part_is_never_carried_out) {
    both all(path());
    heap_store full(all.heap, "full", {.limit = 1 << 20});
    const auto end_in_half = [&](bool with_second) {
        EXPECT_THROW(all.heap.transact([&](transaction& part) {
            EXPECT_THROW(full.write(part).put("long", std::string(3'000'000, '.')), store_error);
            if (with_second) {
                both::put(all.second, part, 2);  // is handed over first
            }
        }),
                     store_error);
    };
    EXPECT_THROW(all.heap.transact([&](transaction& tx) {
        full.write(tx).put("1", "1");
        both::put(all.second, tx, 1);
        end_in_half(true);
        end_in_half(false);  // was: the one before was forgotten
    }),
                 store_error);
    EXPECT_EQ(all.content(), "map: | first: | second:");
    all.heap.transact([&](transaction& tx) {
        full.write(tx).put("1", "1");
        both::put(all.second, tx, 1);
        EXPECT_THROW(all.heap.transact([&](transaction& around) {
            full.write(around).put("3", "3");
            both::put(all.second, around, 3);
            end_in_half(true);
            throw given_up();  // takes the half back, too
        }),
                     given_up);
    });
    EXPECT_EQ(all.content(), "map: | first: | second: 1");
}

TEST_F(heap_store_transact, threads_find_what_others_have_made_durable) {
    constexpr int threads = 4;
    constexpr int each = 30;
    EXPECT_EQ(left_by([](both& all) {
                  std::vector<std::thread> running;
                  for (int thread = 0; thread < threads; ++thread) {
                      running.emplace_back([&all, thread] {
                          for (int i = 0; i < each; ++i) {
                              if (thread == 3) {
                                  store_transaction alone = all.second.write();
                                  alone.put("own", "own" + std::to_string(i));
                                  alone.commit();
                                  static_cast<void>(all.first.read().size());
                                  continue;
                              }
                              all.heap.transact([&](transaction& tx) {
                                  const auto last = all.first.write(tx).get("n");
                                  const int next = last ? std::stoi(std::string(last->substr(1))) + 1 : 1;
                                  EXPECT_EQ(all.numbers.size() + 1, static_cast<std::size_t>(next));
                                  all.numbers.emplace(0 - next, next);
                                  all.first.write(tx).put("n", "n" + std::to_string(next));
                              });
                          }
                      });
                  }
                  for (std::thread& one : running) {
                      one.join();
                  }
                  all.heap.transact([&](transaction& tx) {
                      EXPECT_EQ(all.first.write(tx).get("n"), "n" + std::to_string((threads - 1) * each));
                      all.numbers.clear();
                  });
              }),
              "map: | first: n | second: own");
}

}  // namespace
}  // namespace holdfast
