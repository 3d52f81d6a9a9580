// The parts of package_graph that need no second process, compared with answers worked out by hand.
#include <compare>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "persistent_graph.hpp"
#include "plain_graph.hpp"
#include "sidecar.hpp"

namespace {

using namespace package_graph;
using testing::ElementsAre;

constexpr std::string_view index_text = R"(Package: editor
Version: 1.0-1
Installed-Size: 100
Depends: libc (>= 2.30), old-library
Provides: text-editor, editor-api (= 1)

Package: mailer
Version: 2:3.0
installed-size: 50
Pre-Depends: base
Depends: text-editor | pager:any,
 libc (>= 2.36) [amd64], missing,

# a newer editor, from an update
Package: editor
Version: 1.0-1+deb1
Installed-Size: 110
Depends: libc (>= 2.36), libc (<< 3)
Provides: text-editor

Package: libc
Version: 2.36
Installed-Size: 1000

Package: base
Version: 1
Depends: libc

Package: nano
Version: 7
Installed-Size: 10
Provides: text-editor
Depends: libc
)";

std::strong_ordering order(std::string_view a, std::string_view b) { return compare_versions(a, b); }

TEST(versions, order_as_debian_policy_says) {
    EXPECT_TRUE(std::is_eq(order("1.0", "1.0")));
    EXPECT_TRUE(std::is_lt(order("1.0-1", "1.0-1+deb12u1")));
    EXPECT_TRUE(std::is_gt(order("1.10", "1.9")));
    EXPECT_TRUE(std::is_lt(order("1.0~rc1", "1.0")));
    EXPECT_TRUE(std::is_lt(order("1.0~~", "1.0~~a")));
    EXPECT_TRUE(std::is_lt(order("1.0~~a", "1.0~")));
    EXPECT_TRUE(std::is_lt(order("1.0a", "1.0+")));
    EXPECT_TRUE(std::is_gt(order("1:0.1", "9.9")));
    EXPECT_TRUE(std::is_eq(order("0:1.0", "1.0")));
    EXPECT_TRUE(std::is_eq(order("1.0-0", "1.0")));
    EXPECT_TRUE(std::is_eq(order("1.001", "1.1")));
    EXPECT_TRUE(std::is_lt(order("1-2-3", "1-2-10")));
    EXPECT_TRUE(std::is_eq(order("", "0")));
    EXPECT_TRUE(std::is_lt(order("123456789012345678901234567890", "123456789012345678901234567891")));
}

TEST(relations, names_groups_and_constraints) {
    std::vector<relation> found;
    parse_relations("a (>= 1.0), b:any | c ( = 2 ) | , ,d [amd64] <!nocheck>", found);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[0].name, "a");
    EXPECT_EQ(found[0].constraint, ">= 1.0");
    EXPECT_EQ(found[1].name, "b");
    EXPECT_EQ(found[1].constraint, "");
    EXPECT_EQ(found[2].name, "c");
    EXPECT_EQ(found[2].constraint, "= 2");
    EXPECT_EQ(found[2].group, found[1].group);
    EXPECT_EQ(found[3].name, "d");
    EXPECT_EQ(found[3].group, 2U);
}

TEST(relations, unclosed_parenthesis_takes_the_rest) {
    std::vector<relation> found;
    parse_relations("a (>= 1", found);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].constraint, ">= 1");
}

TEST(control_file, folded_fields_and_lines_of_blanks) {
    control_reader reader("Package: a\nDepends: b,\n\tc\n \t \nPackage: b\r\nVersion: 1\r\n");
    stanza next;
    ASSERT_TRUE(reader.next(next));
    EXPECT_EQ(next.package, "a");
    EXPECT_EQ(next.depends, "b,\n\tc");
    ASSERT_TRUE(reader.next(next));
    EXPECT_EQ(next.package, "b");
    EXPECT_EQ(next.version, "1");
    EXPECT_FALSE(reader.next(next));
}

TEST(control_file, damaged_text_is_an_error_that_names_the_line) {
    const auto message = [](std::string_view text) -> std::string {
        try {
            control_reader(text).skip(UINT64_MAX);
        } catch (const input_error& failure) {
            return failure.what();
        }
        return "";
    };
    EXPECT_THAT(message("Package: a\nnonsense\n"), testing::HasSubstr("line 2: found 'nonsense'"));
    EXPECT_THAT(message("\nVersion: 1\n\nPackage: b\n"), testing::HasSubstr("without the field Package"));
    EXPECT_THAT(message("Package: a\nInstalled-Size: many\n"),
                testing::HasSubstr("line 2: Installed-Size: found 'many'"));
    EXPECT_THAT(message(" folded: what\n"), testing::HasSubstr("line 1"));
    EXPECT_EQ(message(""), "");
}

TEST(plain_graph, the_newest_version_counts) {
    const summary found = plain_graph(index_text).summarise();
    EXPECT_EQ(found.stanzas, 6U);
    EXPECT_EQ(found.packages, 5U);
    EXPECT_EQ(found.names, 8U);  // and text-editor, pager, missing; not old-library, not editor-api
    EXPECT_EQ(found.edges, 2U + 1U + 5U + 1U + 2U);
}

TEST(plain_graph, answers) {
    const plain_graph graph(index_text);
    const answers found = graph.answer({"mailer", "libc", "mailer"});
    EXPECT_EQ(found.most_depended_on.front(), (ranked_name{"libc", 4}));
    EXPECT_THAT(found.path, ElementsAre("mailer", "libc"));
    EXPECT_EQ(found.needs.reachable, 5U);
    EXPECT_EQ(found.needs.chosen, 4U);  // mailer, base, libc, editor: the first provider by name
    EXPECT_EQ(found.needs.chosen_kib, 50U + 1000U + 110U);
    EXPECT_THAT(graph.answer({"mailer", "nano", ""}).path, ElementsAre("mailer", "text-editor", "nano"));
    EXPECT_THAT(graph.answer({"libc", "mailer", ""}).path, ElementsAre());
    EXPECT_THAT(graph.answer({"libc", "libc", ""}).path, ElementsAre("libc"));
    EXPECT_FALSE(graph.has_path({"mailer", "nano"}));
    EXPECT_TRUE(graph.has_path({"mailer", "text-editor", "nano"}));
}

class in_directory : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "package_graph_test.XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    [[nodiscard]] std::string file(const std::string& name) const { return (directory_ / name).string(); }

private:
    std::filesystem::path directory_;
};

using persistent_graph_test = in_directory;

TEST_F(persistent_graph_test, is_the_plain_graph_after_every_stanza) {
    holdfast::manager heap(holdfast::create_only, file("heap"));
    persistent_graph graph = persistent_graph::create(heap, identify(index_text));
    control_reader reader(index_text);
    for (stanza next; reader.next(next);) {
        graph.add(next);
        const plain_graph plain(index_text, graph.stanzas());
        EXPECT_EQ(graph.summarise(), plain.summarise()) << "after " << graph.stanzas();
        for (const char* const to : {"libc", "nano", "missing"}) {
            const question asked{"mailer", to, "mailer"};
            const answers ours = graph.answer(asked);
            const answers theirs = plain.answer(asked);
            EXPECT_EQ(ours.most_depended_on, theirs.most_depended_on);
            EXPECT_EQ(ours.path.size(), theirs.path.size());
            EXPECT_TRUE(plain.has_path(ours.path));
            EXPECT_EQ(ours.needs, theirs.needs);
        }
    }
}

TEST_F(persistent_graph_test, is_the_same_after_reopening) {
    summary before;
    {
        holdfast::manager heap(holdfast::create_only, file("heap"));
        EXPECT_FALSE(persistent_graph::find(heap).has_value());
        persistent_graph graph = persistent_graph::create(heap, identify(index_text));
        control_reader reader(index_text);
        for (stanza next; reader.next(next);) {
            graph.add(next);
        }
        before = graph.record_commit(heap).graph;
        heap.commit();
    }
    const holdfast::manager heap(holdfast::open_read_only, file("heap"));
    const std::optional<persistent_graph> graph = persistent_graph::find(heap);
    ASSERT_TRUE(graph.has_value());
    EXPECT_EQ(graph->summarise(), before);
    EXPECT_EQ(graph->input(), identify(index_text));
    ASSERT_EQ(graph->commits().size(), 1U);
    EXPECT_EQ(graph->commits().front().graph, before);
}

using sidecar_test = in_directory;

TEST_F(sidecar_test, a_line_cut_short_does_not_count) {
    const std::string path = file("heap.commits");
    const commit_record first{1, {2, 3, 4, 5, 0xFEDC'BA98'7654'3210}, 0x7F12'0000'0000};
    {
        sidecar witness(path, read_sidecar(path));
        witness.opened(first.base_address);
        witness.begun(1);
        witness.done(first);
        witness.begun(2);
    }
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    const testimony cut = read_sidecar(path);
    EXPECT_THAT(cut.done, ElementsAre(first));
    EXPECT_EQ(cut.begun, 1U);
    EXPECT_EQ(cut.base_address, first.base_address);
    {
        sidecar witness(path, cut);
        witness.begun(2);
    }
    EXPECT_EQ(read_sidecar(path).begun, 2U);
}

TEST_F(sidecar_test, a_damaged_line_is_an_error) {
    const std::string path = file("heap.commits");
    {
        sidecar witness(path, read_sidecar(path));
        witness.begun(1);
        witness.begun(2);
    }
    std::fstream damaged(path);
    damaged.seekp(6);
    damaged.put('7');
    damaged.close();
    EXPECT_THROW(static_cast<void>(read_sidecar(path)), input_error);
}

TEST(sidecar_path_test, lies_beside_the_heap) {
    EXPECT_EQ(sidecar_path("dir/graph.hf"), "dir/graph.hf.commits");
    EXPECT_EQ(sidecar_path("dir/graph.hf/"), "dir/graph.hf.commits");
}

}  // namespace
