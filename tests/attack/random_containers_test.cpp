// Containers of containers that are copied, moved and swapped between heaps at random, in every durability. Oracle: the
// same with the standard library; all that a container has lies in its heap, also when the heap is opened again, and
// nothing is left when all containers are gone.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

#include "attack/attacked.hpp"
#include "attack/random_attack.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

/// The two kinds of containers, each with its twin of the standard library.
using trees = vector<map<string, list<int>>>;
using trees_model = std::vector<std::map<std::string, std::vector<int>>>;
using tables = unordered_map<string, deque<string>>;
using tables_model = std::unordered_map<std::string, std::vector<std::string>>;

bool is_same(const manager& heap, const string& found, const std::string& wanted) {
    return heap.belongs_to_segment(found.data()) && std::string_view(found) == wanted;
}
bool is_same(const manager& heap, const trees& found, const trees_model& wanted) {
    return std::equal(
        found.begin(), found.end(), wanted.begin(), wanted.end(), [&](const auto& tree, const auto& model) {
            return std::equal(tree.begin(), tree.end(), model.begin(), model.end(), [&](const auto& a, const auto& b) {
                return heap.belongs_to_segment(&a) && is_same(heap, a.first, b.first) &&
                       std::equal(a.second.begin(), a.second.end(), b.second.begin(), b.second.end()) &&
                       (a.second.empty() || heap.belongs_to_segment(&a.second.front()));
            });
        });
}
bool is_same(const manager& heap, const tables& found, const tables_model& wanted) {
    return found.size() == wanted.size() && std::all_of(found.begin(), found.end(), [&](const auto& a) {
               const auto b = wanted.find(std::string(std::string_view(a.first)));
               return b != wanted.end() && is_same(heap, a.first, b->first) &&
                      std::equal(a.second.begin(), a.second.end(), b->second.begin(), b->second.end(),
                                 [&](const string& x, const std::string& y) { return is_same(heap, x, y); });
           });
}

/// Some heaps, each with a container of a kind and its twin.
template <class Container, class Model>
class exchange {
public:
    exchange(std::uint64_t seed, const std::string& directory) : dice_(seed), directory_(directory) {
        for (std::size_t i = 0; i < durabilities.size(); ++i) {
            heaps_[i] = std::make_unique<manager>(create_only, path(i), options_for(durabilities.at(i)));
            heaps_[i]->template construct<Container>("it")();
        }
    }
    void step() {
        const std::size_t to = dice_() % heaps_.size();
        const std::size_t from = dice_() % heaps_.size();
        Container& target = at(to);
        Container& source = at(from);
        switch (dice_() % 8) {
            case 0:
                story_ = "copied";
                target = source;
                models_[to] = models_[from];
                break;
            case 1: {
                story_ = "copied and moved";
                Container copy(source, heaps_[to]->template get_allocator<char>());
                target = std::move(copy);
                models_[to] = models_[from];
                break;
            }
            case 2:
                story_ = "moved";
                if (to != from) {
                    target = std::move(source);
                    source.clear();  // NOLINT(bugprone-use-after-move): it may hold anything, and is to hold nothing
                    models_[to] = std::exchange(models_[from], {});
                }
                break;
            case 3:
                story_ = "swapped";
                target.swap(source);
                std::swap(models_[to], models_[from]);
                break;
            case 4:
                story_ = "opened again";
                reopen(to);
                break;
            default: exchange_element(to, from); break;
        }
        for (std::size_t i = 0; i < heaps_.size(); ++i) {
            EXPECT_TRUE(is_same(*heaps_[i], at(i), models_[i]))
                << story_ << " from " << name_of(durabilities.at(from)) << " to " << name_of(durabilities.at(to));
        }
    }
    void end() {
        for (std::size_t i = 0; i < heaps_.size(); ++i) {
            reopen(i);
            EXPECT_TRUE(is_same(*heaps_[i], at(i), models_[i]));
            heaps_[i]->template destroy<Container>("it");
            EXPECT_TRUE(heaps_[i]->all_memory_deallocated()) << name_of(durabilities.at(i));
            EXPECT_THAT(heaps_[i]->check(false), testing::IsEmpty());
        }
    }

private:
    [[nodiscard]] std::string path(std::size_t index) const {
        return directory_ + "/" + name_of(durabilities.at(index));
    }
    [[nodiscard]] Container& at(std::size_t index) { return *heaps_[index]->template find<Container>("it").first; }
    void reopen(std::size_t index) {
        heaps_[index]->close(true);
        heaps_[index] = std::make_unique<manager>(open_only, path(index), options_for(durabilities.at(index)));
    }
    [[nodiscard]] std::string word() {
        return std::string(dice_() % 3 == 0 ? 40 + dice_() % 100 : dice_() % 20, 'x') + std::to_string(dice_() % 30);
    }

    void exchange_element(std::size_t to, std::size_t from) {
        Container& target = at(to);
        Container& source = at(from);
        const std::string key = word();
        const string in_heap(key.c_str(), heaps_[from]->template get_allocator<char>());
        if constexpr (std::is_same_v<Container, trees>) {
            story_ = "an element was added";
            if (models_[from].empty() || models_[from].size() < 5) {
                source.resize(source.size() + 1);
                models_[from].emplace_back();
            }
            source.back()[in_heap].push_back(static_cast<int>(dice_() % 100));
            models_[from].back()[key].push_back(source.back()[in_heap].back());
            if (to != from && dice_() % 2 == 0) {
                story_ = "an element was moved";
                target.insert(target.begin(), std::move(source.back()));
                models_[to].insert(models_[to].begin(), std::move(models_[from].back()));
                source.pop_back();
                models_[from].pop_back();
            }
            if (target.size() > 12) {
                target.erase(target.begin(), target.begin() + 9);
                models_[to].erase(models_[to].begin(), models_[to].begin() + 9);
            }
        } else {
            story_ = "an element was added";
            source[in_heap].push_back(in_heap);
            models_[from][key].push_back(key);
            if (to != from && dice_() % 2 == 0) {
                story_ = "an element was copied or moved";
                const bool moves = dice_() % 2 == 0;
                target.erase(in_heap);
                moves ? target.emplace(in_heap, std::move(source.find(in_heap)->second))
                      : target.insert(*source.find(in_heap));
                models_[to][key] = models_[from][key];
                source.erase(in_heap);
                models_[from].erase(key);
            }
            if (models_[to].size() > 60) {
                target.clear();
                models_[to].clear();
            }
        }
    }

    std::mt19937_64 dice_;
    std::string directory_;
    std::array<std::unique_ptr<manager>, durabilities.size()> heaps_;
    std::array<Model, durabilities.size()> models_;
    std::string story_;
};

template <class Container, class Model>
void exchange_for_a_while(double share) {
    constexpr int steps = 300;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(share * static_cast<double>(chosen.seconds));
    std::uint64_t done = 0;
    for (std::uint64_t seed = chosen.seed; done == 0 || std::chrono::steady_clock::now() < end; ++seed) {
        const support::scratch_directory scratch;
        exchange<Container, Model> heaps(seed, scratch.path());
        for (int i = 0; i < steps; ++i, ++done) {
            heaps.step();
            ASSERT_FALSE(testing::Test::HasFailure()) << fmt::format("seed {}, step {}", seed, i);
        }
        heaps.end();
        ASSERT_FALSE(testing::Test::HasFailure()) << fmt::format("seed {}, at the end", seed);
    }
    std::printf("%llu exchanges\n", static_cast<unsigned long long>(done));
}

TEST(random_containers, that_move_between_heaps_leave_nothing_behind) {
    exchange_for_a_while<trees, trees_model>(0.5);
    exchange_for_a_while<tables, tables_model>(0.5);
}

}  // namespace
}  // namespace holdfast::attack
