// Readers beside a writer with every call failing (campaign.hpp states the fault model). A reader that is still open
// shows one step as a whole, whatever has failed: in it, or in a writer that commits or opens beside it.
#include <exception>
#include <optional>
#include <utility>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "campaign.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::faults {
namespace {

using support::advance;
using support::small_segments;
using support::step_of;
using support::wrong_content;

/// step_of() finds a step that is not whole.
void expect_step(const manager& reader, std::uint64_t least, std::uint64_t most) {
    const disarmed_section without_faults;
    const std::uint64_t step = step_of(reader);
    if (step < least || step > most) {
        throw wrong_content("a reader at another step");
    }
    if (const auto problems = reader.check(true); !problems.empty()) {
        throw wrong_content(problems.front());
    }
}

bool is_open(const manager& heap) {
    const disarmed_section without_faults;
    return is_done([&] { static_cast<void>(heap.version()); });
}

manager open_writer(const trial& one) {
    const disarmed_section without_faults;
    one.done(4);
    return {open_only, one.heap, small_segments()};
}

TEST(readers_faults, of_a_reader_that_opens_and_goes_on) {
    run_campaign({"readers", [](const std::string& path) { support::make_heap(path, 4); },
                  [](const trial& one) {
                      manager writer = open_writer(one);
                      manager reader(open_read_only, one.heap);
                      expect_step(reader, 4, 4);
                      for (const std::uint64_t step : {5U, 6U, 7U}) {
                          one.begin(step);
                          {
                              const disarmed_section without_faults;
                              advance(writer, step);
                              writer.commit();
                          }
                          one.done(step);
                          const bool went = is_done([&] { reader.refresh(); });
                          if (!is_open(reader)) {
                              const disarmed_section without_faults;
                              reader = manager(open_read_only, one.heap);
                          } else if (!went) {
                              throw wrong_content("a reader that failed is open");
                          }
                          expect_step(reader, step, step);
                      }
                  },
                  judge_commits});
}

TEST(readers_faults, of_a_writer_beside_readers) {
    run_campaign({"writers beside readers", [](const std::string& path) { support::make_heap(path, 4); },
                  [](const trial& one) {
                      manager writer = open_writer(one);
                      std::optional<disarmed_section> without_faults(std::in_place);
                      manager stays(open_read_only, one.heap);
                      manager follows(open_read_only, one.heap);
                      without_faults.reset();
                      for (const std::uint64_t step : {5U, 6U, 7U}) {
                          one.begin(step);
                          advance(writer, step);
                          writer.commit();
                          one.done(step);
                          expect_step(stays, 4, 4);
                          const disarmed_section calm;
                          follows.refresh();
                          expect_step(follows, step, step);
                      }
                  },
                  judge_commits});
}

/// Was: a writer that could not open the file of readers took it that there were none.
TEST(readers_faults, of_a_writer_that_opens_beside_readers) {
    run_campaign({"writers that open beside readers", [](const std::string& path) { support::make_heap(path, 4); },
                  [](const trial& one) {
                      std::optional<disarmed_section> without_faults(std::in_place);
                      one.done(4);
                      manager stays(open_read_only, one.heap, small_segments());
                      const auto go_on = [&](std::uint64_t step) {
                          manager writer(open_only, one.heap, small_segments());
                          one.begin(step);
                          advance(writer, step);
                          writer.commit();
                          one.done(step);
                      };
                      go_on(5);
                      without_faults.reset();
                      try {
                          go_on(6);
                      } catch (const std::exception&) {
                          expect_step(stays, 4, 4);
                          throw;
                      }
                      expect_step(stays, 4, 4);
                  },
                  judge_commits});
}

}  // namespace
}  // namespace holdfast::faults
