// Readers beside the writer of a model_heap: home as the writer left it, and over it, for each reader, what the log
// has. After each step of the protocol that may concern them, each must see its own version, page by page.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/files/versions_in_use.hpp"

namespace holdfast::simulator {

/// File id and page in the file, as the log counts them.
using page_place = std::pair<std::uint64_t, std::uint64_t>;
using page_content = std::shared_ptr<const std::vector<std::byte>>;

class model_readers final : public segment::versions_in_use {
public:
    using pages = std::map<page_place, page_content>;

    model_readers(persist::storage& storage, std::string directory) : storage_(storage), paths_(std::move(directory)) {}

    /// One letter for each: o: one opens the heap; r: the one that is furthest behind refreshes; a: all do; l: the
    /// first leaves.
    void act(const std::string& what);
    /// A version that readers may have is that of these pages.
    void know(std::uint64_t version, const pages& of) { known_[version] = of; }
    [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

    [[nodiscard]] std::uint64_t oldest(std::uint64_t newest) noexcept override;
    [[nodiscard]] bool any(segment::dead_readers /*dead*/) noexcept override { return !readers_.empty(); }
    [[nodiscard]] bool try_exclude() noexcept override { return readers_.empty(); }
    void admit() noexcept override {}
    void publish(std::uint64_t version) noexcept override { durable_ = version; }
    void publish_home(std::uint64_t version) noexcept override {
        home_ = version;
        look();
    }
    void begin(std::uint64_t version, std::uint64_t home) noexcept {
        durable_ = version;
        home_ = home;
    }
    /// Compares all views.
    void look() noexcept;

private:
    struct reader {
        segment::superblock_on_media superblock{};  ///< with its end in the log
        std::map<std::uint64_t, std::vector<std::byte>> own;
        std::map<std::uint64_t, std::uint64_t> versions;  ///< of its own pages
    };
    base::result<void> open();
    base::result<void> refresh(reader& one);
    base::result<void> lay_over(reader& one, const segment::log_content& content);
    base::result<void> compare(const reader& one);
    base::result<std::vector<std::byte>> home_page(std::uint64_t place);
    void note(const std::string& what);

    persist::storage& storage_;
    segment::heap_paths paths_;
    std::vector<reader> readers_;
    std::map<std::uint64_t, pages> known_;
    std::uint64_t durable_ = 0;
    std::uint64_t home_ = 0;
    std::string wrong_;
};

}  // namespace holdfast::simulator
