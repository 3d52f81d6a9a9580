#include "segment/files/objects_file.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;

class objects_file_test : public testing::Test {
protected:
    void SetUp() override {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->grow_objects(1));
        must(files->commit({}));
        must(files->close_cleanly());
        size_ = files->objects_size();
    }
    [[nodiscard]] std::unique_ptr<heap_files> open(bool shared) const {
        mapping_options mapping;
        mapping.shared = shared;
        return must(heap_files::open(posix_storage(), path_, access_mode::read_write, mapping));
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::uint64_t size_ = 0;
};

TEST_F(objects_file_test, that_grew_is_durable_with_the_commit) {
    {
        auto files = open(false);
        must(files->grow_objects(10 * size_));
        ASSERT_GE(files->objects_size(), 11 * size_);
        EXPECT_EQ(files->objects()[files->objects_size() - 1], std::byte{0});
        EXPECT_EQ(files->superblock().objects_size, size_);
    }
    auto files = open(false);
    EXPECT_EQ(files->objects_size(), size_);
    EXPECT_EQ(fs::file_size(path_ + "/objects"), size_) << "a crash before the commit";
    must(files->grow_objects(10 * size_));
    must(files->commit({}));
    EXPECT_EQ(files->superblock().objects_size, files->objects_size());
}

TEST_F(objects_file_test, that_is_shared_is_durable_at_once) {
    auto files = open(true);
    must(files->grow_objects(size_));
    EXPECT_EQ(files->superblock().objects_size, files->objects_size());
    files->objects()[size_ + page_size] = std::byte{4};
    EXPECT_EQ(content_of(path_ + "/objects")[size_ + page_size], std::byte{4});
}

TEST_F(objects_file_test, does_not_grow_beyond_its_addresses) {
    auto files = open(false);
    const auto refused = files->grow_objects(objects_area_size);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::limit);
    EXPECT_EQ(files->objects_size(), size_);
}

}  // namespace
}  // namespace holdfast::segment
