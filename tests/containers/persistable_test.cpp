#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <boost/container/static_vector.hpp>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

namespace holdfast_test {

struct plain {
    int a;
    double b;
};
struct polymorphic {
    virtual ~polymorphic() = default;
};
/// A container of itself, as JSON values are.
struct tree : holdfast::map<int, tree> {
    using holdfast::map<int, tree>::map;
};
struct allowed {};
struct forbidden {};

}  // namespace holdfast_test

template <>
struct holdfast::persistable<holdfast_test::allowed*> : std::true_type {};
template <>
struct holdfast::persistable<holdfast_test::forbidden> : std::false_type {};

namespace holdfast {
namespace {

using namespace holdfast_test;

TEST(persistable, types_without_addresses_are) {
    EXPECT_TRUE(is_persistable_v<int>);
    EXPECT_TRUE(is_persistable_v<plain>);
    EXPECT_TRUE(is_persistable_v<plain[3]>);
    EXPECT_TRUE(is_persistable_v<int plain::*>);
    EXPECT_TRUE(is_persistable_v<ptr<plain>>);
    EXPECT_TRUE((is_persistable_v<std::pair<int, string>>));
    EXPECT_TRUE((is_persistable_v<std::tuple<int, std::array<double, 3>>>));
    EXPECT_TRUE((is_persistable_v<std::variant<int, string>>));
    EXPECT_TRUE(is_persistable_v<std::optional<string>>);
}

TEST(persistable, our_containers_are) {
    EXPECT_TRUE((is_persistable_v<unordered_map<string, vector<map<int, string>>>>));
    EXPECT_TRUE((is_persistable_v<deque<list<forward_list<stable_vector<small_vector<int, 3>>>>>>));
    EXPECT_TRUE((is_persistable_v<flat_map<int, flat_set<string>>>));
    EXPECT_TRUE((is_persistable_v<vector<string, scoped_allocator<string>>>));
    EXPECT_TRUE((is_persistable_v<vector<int, fallback_allocator<int>>>));
    EXPECT_TRUE((is_persistable_v<std::vector<int, allocator<int>>>));
    EXPECT_TRUE((is_persistable_v<boost::container::static_vector<int, 4>>));
    EXPECT_TRUE(is_persistable_v<tree>);
}

TEST(persistable, addresses_are_not) {
    EXPECT_FALSE(is_persistable_v<int*>);
    EXPECT_FALSE(is_persistable_v<const char*>);
    EXPECT_FALSE(is_persistable_v<void (*)()>);
    EXPECT_FALSE(is_persistable_v<void (plain::*)()>);
    EXPECT_FALSE(is_persistable_v<std::string_view>);
    EXPECT_FALSE(is_persistable_v<std::reference_wrapper<int>>);
    EXPECT_FALSE(is_persistable_v<std::function<void()>>);
    EXPECT_FALSE(is_persistable_v<std::unique_ptr<int>>);
    EXPECT_FALSE(is_persistable_v<std::shared_ptr<int>>);
    EXPECT_FALSE(is_persistable_v<std::thread>);
    EXPECT_FALSE(is_persistable_v<polymorphic>);
}

TEST(persistable, containers_of_other_memory_are_not) {
    EXPECT_FALSE(is_persistable_v<std::vector<int>>);
    EXPECT_FALSE(is_persistable_v<std::string>);
    EXPECT_FALSE((is_persistable_v<std::map<int, int>>));
    EXPECT_FALSE(is_persistable_v<boost::container::vector<int>>);
}

TEST(persistable, flaws_are_found_inside) {
    EXPECT_FALSE((is_persistable_v<std::pair<int, const char*>>));
    EXPECT_FALSE(is_persistable_v<std::optional<std::string>>);
    EXPECT_FALSE((is_persistable_v<std::array<int*, 2>>));
    EXPECT_FALSE(is_persistable_v<vector<std::string>>);
    EXPECT_FALSE((is_persistable_v<unordered_map<int, vector<int*>>>));
    EXPECT_FALSE((is_persistable_v<boost::container::static_vector<std::string, 4>>));
}

TEST(persistable, is_what_a_specialisation_says) {
    EXPECT_TRUE(is_persistable_v<allowed*>);
    EXPECT_TRUE(is_persistable_v<vector<allowed*>>);
    EXPECT_FALSE(is_persistable_v<forbidden>);
    EXPECT_FALSE(is_persistable_v<vector<forbidden>>);
}

}  // namespace
}  // namespace holdfast
