#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "persist/mutant.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

constexpr std::uint64_t pages_a_read = 256;

class problem_list {
public:
    problem_list(std::vector<failure>& problems, std::size_t limit) : problems_(problems), limit_(limit) {}
    [[nodiscard]] bool full() const noexcept { return problems_.size() >= limit_; }
    void add(const std::string& path, std::string field, std::uint64_t found, std::uint64_t expected) {
        if (!full()) {
            problems_.push_back(failure{failure_code::corrupt, path, std::move(field), fmt::format("{:#x}", found),
                                        fmt::format("{:#x}", expected), "SEG-2: a page differs from what was committed",
                                        0});
        }
    }

private:
    std::vector<failure>& problems_;
    std::size_t limit_;
};

/// What the log has, if anything, replaces the content of the files.
class page_source {
public:
    page_source(persist::storage& storage, const heap_paths& paths, const log_content* overlay) {
        if (overlay != nullptr) {
            overlay_.emplace(storage, paths, *overlay);
        }
    }

    base::result<void> read(persist::file& file, std::uint64_t id, std::uint64_t first, std::span<std::byte> bytes) {
        HF_TRY(file.read_at(first * page_size, bytes));
        return overlay_ ? overlay_->lay_over(place_of(id, first), bytes) : base::result<void>();
    }

private:
    std::optional<patch_reader> overlay_;
};

struct source_file {
    page_source& source;
    persist::file& file;
    std::uint64_t id;
    [[nodiscard]] const std::string& path() const noexcept { return file.path(); }
};

template <class Examine>
base::result<void> for_each_page(const source_file& file, std::uint64_t first, std::uint64_t count,
                                 const problem_list& problems, Examine&& examine) {
    std::vector<std::byte> buffer(std::min(count, pages_a_read) * page_size);
    for (std::uint64_t done = 0; done < count && !problems.full();) {
        const std::uint64_t now = std::min(pages_a_read, count - done);
        const auto chunk = std::span(buffer).first(now * page_size);
        HF_TRY(file.source.read(file.file, file.id, first + done, chunk));
        for (std::uint64_t i = 0; i < now; ++i) {
            examine(first + done + i, chunk.subspan(i * page_size, page_size));
        }
        done += now;
    }
    return {};
}

base::result<std::vector<std::uint32_t>> read_checksum_pages(const source_file& file, const geometry& shape,
                                                             problem_list& problems) {
    std::vector<std::uint32_t> checksums;
    checksums.reserve(shape.checksum_pages() * checksums_per_page);
    const std::uint64_t first = (shape.segment_size + shape.checksums_at()) / page_size;
    HF_TRY(for_each_page(
        file, first, shape.checksum_pages(), problems, [&](std::uint64_t page, std::span<const std::byte> bytes) {
            std::vector<std::uint32_t> entries(checksums_per_page + 1);
            std::memcpy(entries.data(), bytes.data(), page_size);
            const bool never_written =
                std::all_of(entries.begin(), entries.end(), [](std::uint32_t entry) { return entry == 0; });
            if (!never_written && entries.back() != own_checksum(entries)) {
                problems.add(file.path(), fmt::format("checksum of page {} (checksum page)", page),
                             own_checksum(entries), entries.back());
            }
            checksums.insert(checksums.end(), entries.begin(), entries.end() - 1);
        }));
    return checksums;
}

base::result<void> verify_segment(const source_file& file, const geometry& shape, std::uint64_t user_pages,
                                  problem_list& problems, page_comparison& counted) {
    HF_TRY_ASSIGN(const std::vector<std::uint32_t> checksums, read_checksum_pages(file, shape, problems));
    const auto compare = [&](std::uint64_t page, std::span<const std::byte> bytes) {
        const bool has_checksum = page < checksums.size() && checksums[page] != 0;
        ++(has_checksum ? counted.compared : counted.without_checksum);
        if (has_checksum && checksums[page] != base::page_checksum(bytes)) {
            problems.add(file.path(), fmt::format("checksum of page {}", page), base::page_checksum(bytes),
                         checksums[page]);
        }
    };
    HF_TRY(for_each_page(file, 0, user_pages, problems, compare));
    return for_each_page(file, shape.pages(), shape.checksums_at() / page_size, problems, compare);
}

base::result<void> verify_objects(const source_file& file, std::uint64_t pages, problem_list& problems,
                                  page_comparison& counted) {
    std::vector<std::uint64_t> checksums(objects_group_pages);
    return for_each_page(file, 0, pages, problems, [&](std::uint64_t page, std::span<const std::byte> bytes) {
        const std::uint64_t entry = page % objects_group_pages;
        if (entry == 0) {
            std::memcpy(checksums.data(), bytes.data(), page_size);
            const bool never_written =
                std::all_of(checksums.begin(), checksums.end(), [](std::uint64_t checksum) { return checksum == 0; });
            if (!never_written && checksums[0] != own_group_checksum(checksums)) {
                problems.add(file.path(), fmt::format("checksum of page {} (checksum page)", page),
                             own_group_checksum(checksums), checksums[0]);
            }
            return;
        }
        ++(checksums[entry] != 0 ? counted.compared : counted.without_checksum);
        if (checksums[entry] != 0 && checksums[entry] != nonzero_checksum(base::checksum64(bytes))) {
            problems.add(file.path(), fmt::format("checksum of page {}", page), base::checksum64(bytes),
                         checksums[entry]);
        }
    });
}

}  // namespace

base::result<page_comparison> verify_pages(persist::storage& storage, const heap_paths& of,
                                           const superblock_on_media& superblock, std::vector<base::failure>& problems,
                                           std::size_t limit, const log_content* overlay) {
    page_comparison counted;
    if ((superblock.flags & flag_stale_checksums) != 0) {
        counted.without_checksum = base::divide_up(superblock.frontier + superblock.objects_size, page_size);
        return counted;
    }
    const heap_paths paths = of.with_nodes(superblock.nodes);
    const geometry shape = geometry_of(superblock);
    problem_list list(problems, limit);
    page_source source(storage, paths, overlay);
    const std::uint64_t segments = base::divide_up(superblock.frontier, shape.segment_size);
    for (std::uint64_t i = 0; i < segments && !list.full(); ++i) {
        HF_TRY_ASSIGN(auto file, storage.open(paths.segment(i), persist::access_mode::read_only));
        const std::uint64_t user_bytes = std::min(shape.segment_size, superblock.frontier - i * shape.segment_size);
        HF_TRY(verify_segment({source, *file, i}, shape, user_bytes / page_size, list, counted));
    }
    HF_TRY_ASSIGN(auto objects, storage.open(paths.objects(), persist::access_mode::read_only));
    HF_TRY(verify_objects({source, *objects, objects_file_id}, superblock.objects_size / page_size, list, counted));
    return counted;
}

}  // namespace holdfast::segment
