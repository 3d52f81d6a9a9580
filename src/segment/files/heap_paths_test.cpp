#include "segment/files/heap_paths.hpp"

#include <gtest/gtest.h>

namespace holdfast::segment {
namespace {

/// Regression: the parent of "heap/" was the heap itself, so its creation did not sync its name.
TEST(heap_paths, parent_is_where_the_name_lies) {
    EXPECT_EQ(heap_paths("heap").parent(), ".");
    EXPECT_EQ(heap_paths("heap/").parent(), ".");
    EXPECT_EQ(heap_paths("/heap").parent(), "/");
    EXPECT_EQ(heap_paths("data/heap").parent(), "data");
    EXPECT_EQ(heap_paths("/data/heap//").parent(), "/data");
    EXPECT_EQ(heap_paths("../heap").parent(), "..");
}

}  // namespace
}  // namespace holdfast::segment
