// The page of `holdfast map` in a browser: what it counts, what it says of an extent that one points at, and how it
// does with a heap of 61 GB. The heaps here are made up, extent by extent; map_test.cpp has real ones.
#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "browser.hpp"
#include "cli/map_document.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using holdfast_cli::json;
using holdfast_cli::space_kind;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kibibyte = 1024;
constexpr std::uint64_t mebibyte = 1024 * kibibyte;
constexpr std::uint64_t gibibyte = 1024 * mebibyte;

extent_info run(extent_kind kind, std::uint64_t bytes, std::uint64_t backed) {
    extent_info made;
    made.kind = kind;
    made.bytes = bytes;
    made.backed_bytes = backed;
    return made;
}
extent_info run(extent_kind kind, std::uint64_t bytes) { return run(kind, bytes, bytes); }
extent_info slab(std::uint32_t block_size, std::uint32_t live) {
    extent_info made = run(extent_kind::slab, 64 * kibibyte);
    made.block_size = block_size;
    made.blocks = block_size == 0 ? 0 : static_cast<std::uint32_t>(64 * kibibyte / block_size);
    made.live_blocks = live;
    return made;
}

/// A heap that is only its extents.
class made_up_heap {
public:
    explicit made_up_heap(std::uint64_t segment_size) : segment_size_(segment_size) {}
    made_up_heap(std::uint64_t segment_size, const std::vector<extent_info>& extents) : made_up_heap(segment_size) {
        for (const extent_info& each : extents) {
            add(each);
        }
    }
    void add(extent_info added) {
        added.offset = end_;
        end_ += added.bytes;
        space_.add(added);
        data_.add(added);
    }
    /// By offset.
    void add_object(std::uint64_t offset, std::uint64_t bytes, const std::string& name, const std::string& type) {
        objects_.push_back({offset, bytes, name, type});
    }
    [[nodiscard]] std::uint64_t end() const { return end_; }
    [[nodiscard]] const holdfast_cli::space_summary& space() const { return space_; }

    [[nodiscard]] std::string page(const std::string& path = "made-up.hf", const std::string& description = "") {
        data_.finish();
        json header;
        header["path"] = path;
        header["description"] = description;
        header["uuid"] = "none";
        header["domain"] = "page-cache";
        header["state"] = "clean";
        header["commit"] = {{"number", 1}, {"time", "never"}};
        header["objects"] = objects_;
        header["segment_pages"] = segment_size_ / 4096;
        header["segments"] = (end_ + segment_size_ - 1) / segment_size_;
        header["bytes"] = {{"apparent", end_}, {"on_disk", end_}, {"user", end_}, {"allocated", 0}};
        return holdfast_cli::map_document(std::move(header), space_, data_);
    }

private:
    std::uint64_t segment_size_;
    std::uint64_t end_ = 0;
    json objects_ = json::array();
    holdfast_cli::space_summary space_;
    holdfast_cli::map_encoder data_;
};

class map_page : public ::testing::Test {
protected:
    [[nodiscard]] page_view open(const std::string& page, const std::string& fragment = "") const {
        std::ofstream(file_) << page;
        return open_page(file_, fragment);
    }
    /// The page works, and counts what the heap has.
    static void expect_counts(const page_view& view, const holdfast_cli::space_summary& space) {
        EXPECT_THAT(view.console, IsEmpty());
        EXPECT_EQ(view.text_of("failure"), "");
        EXPECT_EQ(view.attribute("<body", "data-ready"), "yes");
        EXPECT_EQ(view.number("<body", "data-extents"), space.extents());
        for (std::size_t i = 0; i < holdfast_cli::space_kind_names.size(); ++i) {
            const std::string row = "data-kind=\"" + std::string(holdfast_cli::space_kind_names.at(i)) + "\"";
            const holdfast_cli::space_share& share = space.of(static_cast<space_kind>(i));
            EXPECT_EQ(view.number(row, "data-extents"), share.extents) << row;
            EXPECT_EQ(view.number(row, "data-bytes"), share.bytes) << row;
            EXPECT_EQ(view.number(row, "data-backed"), share.backed_bytes) << row;
        }
    }

    scratch_directory scratch_;
    std::string file_ = scratch_ / "map.html";
};

/// One of each kind, in two segments of 32 MiB; equal slabs, so that records repeat.
made_up_heap small_heap() {
    return {32 * mebibyte,
            {run(extent_kind::roots, 64 * kibibyte), slab(64, 1024), slab(64, 1024), slab(64, 1024), slab(64, 512),
             slab(8, 8192), slab(0, 0), run(extent_kind::block, 100 * kibibyte),
             run(extent_kind::free, 28 * kibibyte, 0), run(extent_kind::reserved, 16 * kibibyte),
             run(extent_kind::block, 20 * mebibyte, 5 * mebibyte + 1024), run(extent_kind::block, 16 * mebibyte),
             run(extent_kind::free, 64 * mebibyte - 36 * mebibyte - 592 * kibibyte, 4096)}};
}

TEST_F(map_page, counts_extents_by_kind) {
    made_up_heap heap = small_heap();
    ASSERT_EQ(heap.space().of(space_kind::slab).extents, 6U);
    ASSERT_EQ(heap.space().of(space_kind::big).extents, 2U) << "16 MiB is big, not huge";
    ASSERT_EQ(heap.space().of(space_kind::huge).extents, 1U);
    const page_view view = open(heap.page());
    expect_counts(view, heap.space());
    EXPECT_EQ(view.number("<body", "data-rows"), 2U);
    EXPECT_THAT(view.text_of("shades"), Not(IsEmpty()));
    EXPECT_THAT(view.dom, HasSubstr("1 damaged slab"));
}

/// The page, and what a user does with it when it is there.
std::string with_actions(std::string page, const std::string& actions) {
    const std::string tools = R"(
        const at = (id, name, x, y) => {
            const box = $(id).getBoundingClientRect();
            $(id).dispatchEvent(new MouseEvent(name, {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
        };
        const say = (name, value) => document.body.dataset[name] = value;
    )";
    return page.insert(page.rfind("</body>"), "<script>{" + tools + actions + "}</script>");
}

TEST_F(map_page, says_what_is_at_an_offset) {
    made_up_heap heap = small_heap();
    const std::string page = heap.page();
    const std::vector<std::pair<std::string, std::vector<std::string>>> expected{
        {"0x0", {"offset 0x0", "65536 B (64.0 KiB)", "roots", "on disk: 65536 B (64.0 KiB)"}},
        {"0x4ffff", {"offset 0x40000", "slab", "blocks of 64 B", "512 of 1024 live (50.0 %)"}},
        {"327680", {"offset 0x50000", "slab", "blocks of 8 B", "8192 of 8192 live (100.0 %)"}},
        {"0x60000", {"offset 0x60000", "slab, damaged"}},
        {"0x70000", {"offset 0x70000", "102400 B (100.0 KiB)", "big block"}},
        {"0x89000", {"offset 0x89000", "28672 B (28.0 KiB)", "free", "on disk: 0 B"}},
        {"0x90000", {"offset 0x90000", "reserved"}},
        {"0x1000000", {"offset 0x94000", "huge block", "on disk: 5243904 B (5.0 MiB)"}},
        {"0x3ffffff", {"free", "on disk: 4096 B (4.0 KiB)"}}};
    std::string actions;
    for (const auto& [at, parts] : expected) {
        actions += fmt::format(
            "goTo({0}); say('at{0}', $('inspector').textContent); say('tip{0}', $('tip').textContent);\n", at);
    }
    const page_view view = open(with_actions(page, actions));
    EXPECT_THAT(view.console, IsEmpty());
    EXPECT_THAT(view.text_of("inspector"), HasSubstr("free")) << "the last one";
    for (const auto& [at, parts] : expected) {
        for (const std::string& part : parts) {
            EXPECT_THAT(view.attribute("<body", "data-at" + at), HasSubstr(part)) << at;
            // What hovering shows there, found by its place on the screen.
            EXPECT_THAT(view.attribute("<body", "data-tip" + at), HasSubstr(part)) << at;
        }
    }
    const page_view linked = open(page, "#at=0x94000");
    EXPECT_THAT(linked.text_of("inspector"), AllOf(HasSubstr("offset 0x94000"), HasSubstr("huge block")));
    EXPECT_THAT(linked.text_of("tip"), AllOf(HasSubstr("offset 0x94000"), HasSubstr("huge block")));
    EXPECT_THAT(open(page, "#at=0x4000000").text_of("inspector"), HasSubstr("outside of the heap"));
}

TEST_F(map_page, names_objects) {
    made_up_heap heap = small_heap();
    for (std::uint64_t i = 0; i < 9; ++i) {
        heap.add_object(0x40000 + 64 * i, 48, fmt::format("word{}", i), "std::pair<const int, int>");
    }
    heap.add_object(0x70000, 100'000, "<b>graph</b>", "float[25000]");
    const page_view view = open(with_actions(heap.page(), R"(
        goTo(0x40000); say('slab', $('inspector').textContent);
        goToText('<b>graph</b>'); say('named', $('inspector').textContent); say('tip', $('tip').textContent);
        goToText('word3'); say('word', $('inspector').textContent);
        goToText('0x50000'); say('other', $('inspector').textContent);
        goToText('no such name'); say('none', $('inspector').textContent);
        goToText(''); say('empty', $('inspector').textContent);
    )"));
    EXPECT_THAT(view.console, IsEmpty());
    const auto said = [&view](const char* name) { return view.attribute("<body", std::string("data-") + name); };
    EXPECT_THAT(said("slab"),
                AllOf(HasSubstr("offset 0x40000"), HasSubstr("object word0: std::pair"), HasSubstr("48 B at 0x40140"),
                      HasSubstr("and 3 objects more with names"), Not(HasSubstr("word6"))));
    EXPECT_THAT(said("named"),
                AllOf(HasSubstr("offset 0x70000"), HasSubstr("graph"), HasSubstr("97.7 KiB at 0x70000")));
    EXPECT_THAT(said("tip"), HasSubstr("float[25000]"));
    EXPECT_THAT(said("word"), HasSubstr("offset 0x40000"));
    EXPECT_THAT(said("other"), AllOf(HasSubstr("offset 0x50000"), Not(HasSubstr("object"))));
    EXPECT_THAT(said("none"), HasSubstr("outside of the heap"));
    EXPECT_THAT(said("empty"), HasSubstr("outside of the heap"));
}

TEST_F(map_page, follows_the_mouse) {
    made_up_heap heap = small_heap();
    const page_view view = open(with_actions(heap.page(), R"(
        say("first", $("detail-title").textContent);
        at("overview-canvas", "mousemove", 92.5, 35);
        say("overview", $("tip").textContent);
        at("overview-canvas", "click", 92.5, 35);
        say("second", $("detail-title").textContent);
        at("overview-canvas", "mouseleave", 0, 0);
        say("left", $("tip").hidden);
        at("strip-canvas", "mousemove", 0, 10);
        say("strip", $("tip").textContent);
        at("strip-canvas", "click", 1, 10);
        say("third", $("detail-title").textContent);
        at("detail-canvas", "mousemove", 1, 1);
        say("detail", $("tip").textContent);
        at("detail-canvas", "click", 1, 1);
        say("clicked", $("inspector").textContent);
    )"));
    EXPECT_THAT(view.console, IsEmpty());
    const auto said = [&view](const char* name) { return view.attribute("<body", std::string("data-") + name); };
    EXPECT_THAT(said("first"), HasSubstr("0x0 to 0x2000000: 32.0 MiB, 12 extents"));
    EXPECT_THAT(said("overview"), AllOf(HasSubstr("segment 1"), HasSubstr("offset 0x2000000 to 0x2008000: 32.0 KiB")));
    EXPECT_THAT(said("second"), HasSubstr("0x2000000 to 0x4000000: 32.0 MiB, 2 extents"));
    EXPECT_EQ(said("left"), "true");
    EXPECT_THAT(said("strip"), AllOf(HasSubstr("offset 0x0 to 0x"), HasSubstr("roots: ")));
    EXPECT_EQ(said("third"), said("first"));
    EXPECT_THAT(said("detail"), AllOf(HasSubstr("offset 0x0"), HasSubstr("roots")));
    EXPECT_THAT(said("clicked"), HasSubstr("offset 0x0 \u00b7 65536 B (64.0 KiB) \u00b7 roots"));
}

TEST_F(map_page, zooms_moves_lists_and_picks_out) {
    made_up_heap heap = small_heap();
    const page_view view = open(with_actions(heap.page(), R"(
        const picture = () => $("detail-canvas").toDataURL();
        const title = () => $("detail-title").textContent;
        say("rows", $("extents").tBodies[0].rows.length);
        $("extents").tBodies[0].rows[7].click();
        say("listed", $("inspector").textContent);
        $("closer").click();
        say("closer", title());
        $("wider").click();
        say("wider", title());
        $("later").click();
        say("later", title());
        $("earlier").click();
        say("earlier", title());
        $("goto").value = "0x80000";
        $("goto").dispatchEvent(new Event("change"));
        say("found", $("inspector").textContent);
        const before = picture();
        $("kinds").tBodies[0].rows[1].click();
        say("muted", $("kinds").querySelectorAll("tr.muted").length);
        say("faint", picture() !== before);
        $("kinds").tBodies[0].rows[1].click();
        say("again", picture() === before);
    )"));
    EXPECT_THAT(view.console, IsEmpty());
    const auto said = [&view](const char* name) { return view.attribute("<body", std::string("data-") + name); };
    EXPECT_EQ(said("rows"), "12");
    EXPECT_THAT(said("listed"), HasSubstr("offset 0x70000"));
    EXPECT_THAT(said("closer"), HasSubstr("0x0 to 0x1000000: 16.0 MiB"));
    EXPECT_THAT(said("wider"), HasSubstr("0x0 to 0x2000000: 32.0 MiB"));
    EXPECT_THAT(said("later"), HasSubstr("0x2000000 to 0x4000000: 32.0 MiB"));
    EXPECT_EQ(said("earlier"), said("wider"));
    EXPECT_THAT(said("found"), HasSubstr("offset 0x70000"));
    EXPECT_EQ(said("muted"), "5");
    EXPECT_EQ(said("faint"), "true") << "all but big blocks";
    EXPECT_EQ(said("again"), "true");
}

TEST_F(map_page, says_at_least_where_the_file_system_does_not_tell) {
    extent_info vague = run(extent_kind::block, mebibyte, 4096);
    vague.backed_exactly = false;
    made_up_heap heap(2 * mebibyte, {run(extent_kind::roots, 64 * kibibyte), vague});
    const page_view view = open(heap.page(), "#at=0x10000");
    EXPECT_THAT(view.text_of("inspector"), EndsWith("on disk: at least 4096 B (4.0 KiB)"));
    EXPECT_THAT(view.dom, HasSubstr("does not tell whether it is reserved"));
}

TEST_F(map_page, shows_texts_as_texts) {
    made_up_heap heap(2 * mebibyte, {run(extent_kind::roots, 64 * kibibyte)});
    const std::string hostile = "</script><script>console.error('ran')</script><!-- & @HOLDFAST_MAP_DATA@ \xff";
    const page_view view = open(heap.page(hostile, hostile));
    expect_counts(view, heap.space());
    EXPECT_THAT(view.text_of("heap-path"), HasSubstr("&lt;/script&gt;&lt;script&gt;console.error('ran')"));
    EXPECT_THAT(view.text_of("heap-path"), HasSubstr("@HOLDFAST_MAP_DATA@"));
}

TEST_F(map_page, needs_nothing_from_elsewhere) {
    made_up_heap heap = small_heap();
    const std::string page = heap.page();
    for (const char* outside :
         {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import(", "@HOLDFAST"}) {
        EXPECT_THAT(page, Not(HasSubstr(outside)));
    }
}

TEST_F(map_page, says_so_where_its_data_are_damaged) {
    made_up_heap heap = small_heap();
    const std::string good = heap.page();
    const std::size_t data = good.find('>', good.find("id=\"data\"")) + 1;
    std::string other = good;
    other[data + 1] = other[data + 1] == 'A' ? 'B' : 'A';
    std::string shorter = good;
    shorter.erase(data + 8, 4);
    for (const std::string& page : {other, shorter}) {
        const page_view view = open(page);
        EXPECT_THAT(view.text_of("failure"), HasSubstr("the data of this page"));
        EXPECT_THAT(view.console, HasSubstr("the data of this page")) << "errors are seen here";
        EXPECT_EQ(view.attribute("<body", "data-ready"), "");
    }
}

/// 61 GiB in a million extents: slabs of many sizes, then blocks and holes, as a heap grows old.
made_up_heap large_heap(std::uint64_t segment_size) {
    std::mt19937_64 random(3);
    const auto below = [&random](std::uint64_t limit) { return random() % limit; };
    made_up_heap heap(segment_size);
    heap.add(run(extent_kind::roots, 64 * kibibyte));
    bool after_free = false;
    while (heap.end() < 61 * gibibyte) {
        const std::uint64_t page = heap.end() / 4096;
        if (page % 16 == 0 && below(100) < 55) {
            const auto size = static_cast<std::uint32_t>(16 * (1 + below(40)));
            heap.add(slab(size, static_cast<std::uint32_t>(below(64 * kibibyte / size + 1))));
            after_free = false;
        } else {
            const std::uint64_t bytes =
                4096 * (below(4000) == 0 ? 20'000 : 1 + below(page % 16 == 0 ? 30 : 16 - page % 16));
            const bool free = !after_free && below(2) == 0;
            heap.add(free ? run(extent_kind::free, bytes, below(2) * bytes) : run(extent_kind::block, bytes));
            after_free = free;
        }
    }
    return heap;
}

TEST_F(map_page, of_a_heap_of_61_gigabytes_is_small_and_quick) {
    const auto start = std::chrono::steady_clock::now();
    made_up_heap heap = large_heap(256 * mebibyte);
    const std::string page = heap.page();
    const auto taken = std::chrono::steady_clock::now() - start;
    ASSERT_GT(heap.space().extents(), 1'000'000U);
    EXPECT_LT(page.size(), 10'000'000U);
    EXPECT_LT(taken, std::chrono::seconds(20)) << "a fraction of a second, without sanitizers";
    const page_view view = open(page, "#at=0xa00000000");
    expect_counts(view, heap.space());
    EXPECT_EQ(view.number("<body", "data-rows"), (heap.end() + 256 * mebibyte - 1) / (256 * mebibyte));
    EXPECT_LT(view.number("<body", "data-milliseconds"), 20'000U);
    EXPECT_THAT(view.text_of("tip"), HasSubstr("offset 0x"));
}

TEST_F(map_page, of_more_segments_than_a_screen_has_room_for_draws_those_in_sight) {
    made_up_heap heap = large_heap(2 * mebibyte);
    const page_view view = open(heap.page(), "#at=0xf00000000");
    expect_counts(view, heap.space());
    EXPECT_EQ(view.number("<body", "data-rows"), (heap.end() + 4 * mebibyte - 1) / (4 * mebibyte)) << "two a row";
    EXPECT_THAT(view.text_of("overview-note"),
                AllOf(HasSubstr("a row is 4 MiB, 2 segments a row"), HasSubstr("a cell")));
}

}  // namespace
}  // namespace holdfast::support
