// Edits of pages that the log has whole go to the log.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/scratch_test_support.hpp"
#include "base/units.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"
#include "segment/fuzz/fuzz_input.hpp"
#include "segment/heap_files.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::segment {

/// Copies share what neither changes.
class fuzz_media {
public:
    using content = simulator::sparse_content;
    static constexpr const char* directory = "heap";  ///< in images
    static constexpr std::uint64_t superblock_id = objects_file_id + 1;
    static constexpr std::uint64_t log_id = objects_file_id + 2;

    explicit fuzz_media(const std::string& path) {
        const auto image = must(simulator::storage_image::load(path, directory));
        for (const auto& [name, id] : *image.names) {
            if (!image.nodes[id].directory) {
                files_.emplace(name.substr(std::strlen(directory) + 1), *image.nodes[id].content);
            }
        }
        make_anonymous();
    }

    /// When the record of the last commit had just become durable.
    [[nodiscard]] fuzz_media with_commit_pending(const fuzz_media& before) const {
        fuzz_media made = before;
        made.files_["log.000000"] = files_.at("log.000000");
        made.note_logged_pages();
        return made;
    }

    [[nodiscard]] simulator::storage_image image() const {
        simulator::storage_image made;
        auto names = std::make_shared<std::map<std::string, simulator::storage_image::node_id>>();
        names->emplace(directory, 0);
        made.nodes.push_back({true, std::make_shared<content>()});
        for (const auto& [name, bytes] : files_) {
            names->emplace(std::string(directory) + "/" + name, made.nodes.size());
            made.nodes.push_back({false, std::make_shared<content>(bytes)});
        }
        made.names = std::move(names);
        return made;
    }

    [[nodiscard]] content& file(const std::string& name) { return files_.at(name); }
    [[nodiscard]] bool has(const std::string& name) const { return files_.contains(name); }
    [[nodiscard]] std::set<std::uint64_t> touched(std::uint64_t id) const {
        std::set<std::uint64_t> pages;
        for (auto at = touched_.lower_bound({id, 0}); at != touched_.end() && at->first == id; ++at) {
            pages.insert(at->second);
        }
        return pages;
    }
    [[nodiscard]] std::uint64_t size_of(std::uint64_t id) const {
        const auto found = files_.find(name_of(id));
        return found == files_.end() ? 0 : found->second.size();
    }

    /// Within one page, from the log where that has the page whole; zeros beyond the end of the file.
    template <class T>
    [[nodiscard]] T read(std::uint64_t id, std::uint64_t offset) const {
        T value{};
        read_bytes(id, offset, std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    template <class T>
    void write(std::uint64_t id, std::uint64_t offset, const T& value) {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_convertible_v<T, std::span<const std::byte>>);
        write_bytes(id, offset, std::as_bytes(std::span{&value, 1}));
    }
    void write_bytes(std::uint64_t id, std::uint64_t offset, std::span<const std::byte> bytes) {
        const auto [file_id, at] = truth_of(id, offset);
        if (const auto found = files_.find(name_of(file_id)); found != files_.end()) {
            found->second.write(at, bytes);
            touched_.insert({id, offset / base::page_size});
        }
    }

    void apply(const fuzz_edit& edit) {
        if (edit.where == fuzz_place::size) {
            return change_size(edit);
        }
        if (edit.where == fuzz_place::names) {
            return change_names(edit);
        }
        change(edit, range_of(edit.where, edit.which));
        if (edit.where == fuzz_place::superblock_fields && edit.which % 3 == 2) {
            change(edit, range_of(edit.where, 0));
        }
    }

    void repair(unsigned control) {
        if ((control & repair_superblocks) != 0) {
            reseal(superblock_id, 0);
            reseal(superblock_id, superblock_size);
        }
        if ((control & repair_sizes) != 0) {
            repair_file_sizes();
        }
        if ((control & repair_pages) != 0) {
            repair_segment_checksums();
            repair_object_checksums();
        }
        if ((control & repair_log) != 0) {
            reseal_log();
        }
    }

private:
    using place = std::pair<std::uint64_t, std::uint64_t>;
    using page_bytes = std::array<std::byte, base::page_size>;
    struct range {
        std::uint64_t id;
        std::uint64_t begin;
        std::uint64_t length;
    };
    /// Larger files only cost time.
    static constexpr std::uint64_t largest_file = 16 * base::mebibyte;

    static std::string name_of(std::uint64_t id) {
        return id == superblock_id ? "superblock" : id == log_id ? "log.000000" : heap_paths({}).file(id).substr(1);
    }

    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> truth_of(std::uint64_t id, std::uint64_t offset) const {
        const auto logged = in_log_.find({id, offset / base::page_size});
        return logged == in_log_.end() ? std::pair{id, offset}
                                       : std::pair{log_id, logged->second + offset % base::page_size};
    }
    void read_bytes(std::uint64_t id, std::uint64_t offset, std::span<std::byte> bytes) const {
        const auto [file_id, at] = truth_of(id, offset);
        const auto found = files_.find(name_of(file_id));
        if (found != files_.end() && at < found->second.size()) {
            found->second.read(at, bytes.first(std::min<std::uint64_t>(bytes.size(), found->second.size() - at)));
        }
    }
    void write_at(std::uint64_t id, std::uint64_t offset, const page_bytes& bytes) {
        files_.at(name_of(id)).write(offset, bytes);
    }

    /// As long as its files have a size to work with.
    [[nodiscard]] geometry shape() const {
        const geometry said = geometry_of(read<superblock_on_media>(superblock_id, 0));
        return said.valid() && said.segment_size <= largest_file ? said : geometry{minimum_segment_size};
    }
    [[nodiscard]] std::uint64_t segments() const {
        std::uint64_t count = 0;
        while (has(name_of(count))) {
            ++count;
        }
        return std::max<std::uint64_t>(count, 1);
    }

    [[nodiscard]] range range_of(fuzz_place where, unsigned which) const {
        const geometry of = shape();
        const std::uint64_t segment = which % segments();
        const auto table = [&](std::uint64_t begin, std::uint64_t end) {
            return range{segment, of.segment_size + begin, end - begin};
        };
        switch (where) {
            case fuzz_place::superblock_fields: return {superblock_id, which % 3 == 0 ? 0 : superblock_size, 208};
            case fuzz_place::superblocks: return {superblock_id, 0, size_of(superblock_id)};
            case fuzz_place::record_headers: return {log_id, record(which), log::header_size};
            case fuzz_place::record_superblocks: return {log_id, record(which) + log::header_size, 8 + superblock_used};
            case fuzz_place::record_entries:
                return {log_id, record(which) + log::header_size + 8 + superblock_used, 512};
            case fuzz_place::log: return {log_id, 0, size_of(log_id)};
            case fuzz_place::slab_headers: return table(of.slab_headers_at(), of.page_entries_at());
            case fuzz_place::page_entries: return table(of.page_entries_at(), of.bitmaps_at());
            case fuzz_place::bitmaps: return table(of.bitmaps_at(), of.checksums_at());
            case fuzz_place::checksums: return table(of.checksums_at(), of.metadata_size());
            case fuzz_place::object_checksums: return {objects_file_id, 0, base::page_size};
            case fuzz_place::objects: {
                const std::uint64_t first = base::page_size;
                return {objects_file_id, first, std::max(size_of(objects_file_id), first) - first};
            }
            default: return {segment, 0, of.segment_size};
        }
    }

    /// Looks at the first pages of a long range.
    [[nodiscard]] std::vector<std::uint64_t> words_in(const range& in) const {
        constexpr std::uint64_t most = 64 * base::page_size;
        std::vector<std::uint64_t> found;
        for (std::uint64_t at = in.begin; at < in.begin + std::min(in.length, most);) {
            const std::uint64_t page = base::align_down(at, base::page_size);
            const auto words = read<std::array<std::uint64_t, base::page_size / 8>>(in.id, page);
            for (; at < std::min(page + base::page_size, in.begin + in.length); at += 8) {
                if (words.at((at - page) / 8) != 0) {
                    found.push_back(at);
                }
            }
        }
        return found;
    }

    /// Aligned; `seek`: where something is not zero.
    [[nodiscard]] std::uint64_t choose(const range& in, std::uint64_t offset, std::uint64_t width, bool seek) const {
        if (const auto words = seek ? words_in(in) : std::vector<std::uint64_t>{}; !words.empty()) {
            const std::uint64_t within = width < 8 ? offset / words.size() * width % 8 : 0;
            const std::uint64_t at = base::align_down(words[offset % words.size()] + within, width);
            if (at + width <= in.begin + in.length) {
                return at;
            }
        }
        return in.begin + base::align_down(offset % (in.length - width + 1), width);
    }

    void change(const fuzz_edit& edit, const range& in) {
        constexpr std::array<std::uint64_t, 4> copied{16, 64, 128, base::page_size};
        const bool copy = edit.what == fuzz_operation::copy;
        const std::uint64_t width =
            copy ? copied.at(static_cast<std::size_t>(std::countr_zero(edit.width))) : edit.width;
        if (in.length < width) {
            return;
        }
        if (copy) {
            page_bytes bytes{};
            const auto part = std::span(bytes).first(width);
            read_bytes(in.id, choose(in, edit.value, width, edit.seek), part);
            return write_bytes(in.id, choose(in, edit.offset, width, false), part);
        }
        const std::uint64_t at = choose(in, edit.offset, width, edit.seek);
        std::uint64_t value = 0;
        const auto bytes = std::as_writable_bytes(std::span{&value, 1}).first(width);
        read_bytes(in.id, at, bytes);
        value = edit.what == fuzz_operation::set   ? edit.value
                : edit.what == fuzz_operation::add ? value + edit.value
                                                   : value ^ edit.value;
        write_bytes(in.id, at, bytes);
    }

    void change_size(const fuzz_edit& edit) {
        auto at = files_.begin();
        std::advance(at, edit.which % files_.size());
        const std::uint64_t unit = edit.width == 8 ? base::page_size : edit.width;
        at->second.resize(base::align_down(edit.offset % (at->second.size() + 4 * unit + 1), unit));
    }

    void change_names(const fuzz_edit& edit) {
        if (edit.what != fuzz_operation::set) {
            auto at = files_.begin();
            std::advance(at, edit.which % files_.size());
            if (at->first != "superblock") {  // without it, nothing else is looked at
                files_.erase(at);
            }
            return;
        }
        constexpr std::array names{"superblock.new", "segment.", "segment.00002", "segment.-00002", "notes", "LOCK"};
        std::string name = names.at(edit.offset % names.size());
        if (edit.which % 2 == 0) {
            name = "segment.";
            for (std::uint64_t i = 0; i < 6 + edit.offset % 20; ++i) {
                name += static_cast<char>('0' + (edit.value >> 3 * (i % 16) & 7));
            }
        }
        files_.try_emplace(name).first->second.resize(edit.width);
    }

    void reseal(std::uint64_t id, std::uint64_t at) {
        auto block = read<superblock_on_media>(id, at);
        seal(block);
        write(id, at, block);
    }

    void repair_file_sizes() {
        const auto block = read<superblock_on_media>(superblock_id, 0);
        const geometry of = geometry_of(block);
        if (!of.valid() || block.frontier > largest_file || of.segment_size > largest_file) {
            return;
        }
        for (std::uint64_t i = 0; i < base::divide_up(block.frontier, of.segment_size); ++i) {
            files_[name_of(i)].resize(of.file_size());
        }
        if (block.objects_size <= largest_file && block.objects_size > size_of(objects_file_id)) {
            files_[name_of(objects_file_id)].resize(block.objects_size);
        }
    }

    void repair_segment_checksums() {
        const geometry of = shape();
        const std::uint64_t first_checksums = (of.segment_size + of.checksums_at()) / base::page_size;
        std::set<place> checksum_pages;
        for (const auto& [id, page] : std::set(touched_)) {
            if (id >= objects_file_id) {
                continue;
            }
            std::uint64_t checksums = page;
            if (page < first_checksums) {
                const checksum_place entry = place_of_checksum(page);
                checksums = first_checksums + entry.checksum_page;
                write(id, checksums * base::page_size + entry.entry * checksum_entry_size,
                      base::page_checksum(read<page_bytes>(id, page * base::page_size)));
            }
            checksum_pages.insert({id, checksums});
        }
        for (const auto& [id, page] : checksum_pages) {
            auto checksums = read<std::array<std::uint32_t, checksums_per_page + 1>>(id, page * base::page_size);
            checksums.back() = own_checksum(checksums);
            write(id, page * base::page_size, checksums);
        }
    }

    void repair_object_checksums() {
        std::set<std::uint64_t> groups;
        for (const std::uint64_t page : touched(objects_file_id)) {
            const std::uint64_t group = base::align_down(page, objects_group_pages);
            if (page != group) {
                write(objects_file_id, group * base::page_size + page % objects_group_pages * sizeof(std::uint64_t),
                      nonzero_checksum(base::checksum64(read<page_bytes>(objects_file_id, page * base::page_size))));
            }
            groups.insert(group);
        }
        for (const std::uint64_t group : groups) {
            auto checksums =
                read<std::array<std::uint64_t, objects_group_pages>>(objects_file_id, group * base::page_size);
            checksums[0] = own_group_checksum(checksums);
            write(objects_file_id, group * base::page_size, checksums);
        }
    }

    [[nodiscard]] std::vector<std::uint64_t> records() const {
        std::vector<std::uint64_t> found;
        for (std::uint64_t at = 0; at + log::header_size <= size_of(log_id) && found.size() < 100;) {
            const auto header = read<log::record_header_on_media>(log_id, at);
            if (header.sequence == 0 || log::space_of(header.size) > size_of(log_id) - at) {
                break;
            }
            found.push_back(at);
            at += log::space_of(header.size);
        }
        return found;
    }
    [[nodiscard]] std::uint64_t record(unsigned which) const {
        const auto all = records();
        return all.empty() ? 0 : all[which % all.size()];
    }
    /// Checksums and the chain of the records, by the superblock's uuid and key.
    void reseal_log() {
        const std::uint64_t key = log_options_of(heap_paths({}), read<superblock_on_media>(superblock_id, 0)).key;
        std::uint64_t before = 0;
        for (const std::uint64_t at : records()) {
            auto header = read<log::record_header_on_media>(log_id, at);
            std::vector<std::byte> payload(header.size);
            files_.at(name_of(log_id)).read(at + log::header_size, payload);
            header.payload_checksum = base::checksum64(payload, key);
            header.before = before;
            header.checksum = before = log::checksum_of(header, key);
            write(log_id, at, header);
        }
    }
    /// Of the last record.
    void note_logged_pages() {
        for (const std::uint64_t at : records()) {
            const auto header = read<log::record_header_on_media>(log_id, at);
            std::vector<std::byte> bytes(header.size);
            files_.at(name_of(log_id)).read(at + log::header_size, bytes);
            std::span<const std::byte> rest(bytes);
            if (header.kind == record_commit) {
                must(take_head(rest));
            }
            while (!rest.empty()) {
                const commit_entry entry = must(take_entry(rest));
                for (std::uint64_t i = 0; entry.kind == entry_kind::pages && i < entry.count; ++i) {
                    in_log_[{file_of(entry.place), page_of_place(entry.place) + i}] =
                        at + log::header_size + static_cast<std::uint64_t>(entry.bytes.data() - bytes.data()) +
                        i * base::page_size;
                }
            }
        }
    }

    /// What chance and the clock gave the heap differs from process to process.
    void make_anonymous() {
        const auto hide = [](superblock_on_media& block) {
            std::fill(std::begin(block.uuid), std::end(block.uuid), std::uint8_t{7});
            block.heap_key = 7;
            block.base_address = 80 * base::tebibyte;  // nothing is mapped there
            block.created_ns = block.committed_ns = 7;
            seal(block);
        };
        for (std::uint64_t at = 0; at < 2 * superblock_size; at += superblock_size) {
            auto block = read<superblock_on_media>(superblock_id, at);
            hide(block);
            block.log_begin.checksum = 0;  // all begin with the log's first record, or are closed
            seal(block);
            write(superblock_id, at, block);
        }
        for (const std::uint64_t at : records()) {
            auto header = read<log::record_header_on_media>(log_id, at);
            header.epoch = 7;
            write(log_id, at, header);
            superblock_on_media block{};
            const auto used = std::as_writable_bytes(std::span{&block, 1}).first(superblock_used);
            const std::uint64_t begin = at + log::header_size + sizeof(commit_head_on_media);
            files_.at(name_of(log_id)).read(begin, used);
            hide(block);
            files_.at(name_of(log_id)).write(begin, used);
        }
        reseal_log();
        touched_.clear();
    }

    std::map<std::string, content> files_;
    std::map<place, std::uint64_t> in_log_;  ///< byte in the log
    std::set<place> touched_;
};

inline const std::string& fuzz_directory() {
    static const base::scratch_directory instance;
    return instance.path();
}

inline void change_fuzz_heap(heap_files& files, int value) {
    for (std::uint64_t page = 0; page < 5; ++page) {
        std::memset(files.view().base() + page * 3 * base::page_size, value + static_cast<int>(page), 700);
    }
    for (const std::uint64_t segment : {0U, 1U}) {
        std::memset(files.view().metadata_of(segment), value, 64);
    }
    std::memset(files.objects() + base::page_size, value, 64);
}

/// Heaps of two segments: crashed after a commit, with a commit in its log that is not home, closed.
inline std::vector<fuzz_media> make_fuzz_heaps() {
    creation_options options;
    options.segment_size = minimum_segment_size;
    options.mapping.reservation = std::uint64_t{1} << 30U;
    const std::string path = fuzz_directory() + "/made";
    auto files = must(heap_files::create(persist::posix_storage(), path, options));
    must(files->grow({1024}));
    must(files->grow_objects(1));
    change_fuzz_heap(*files, 1);
    must(files->commit({}));
    change_fuzz_heap(*files, 2);
    must(files->commit({}));
    std::vector<fuzz_media> made;
    made.emplace_back(path);
    change_fuzz_heap(*files, 3);
    must(files->commit({}));
    made.push_back(fuzz_media(path).with_commit_pending(made.front()));
    must(files->close_cleanly());
    made.emplace_back(path);
    return made;
}

}  // namespace holdfast::segment
