#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "map_data.hpp"
#include "map_document.hpp"
#include "output.hpp"
#include "space.hpp"
#include "store.hpp"

namespace holdfast_cli {

namespace {

namespace fs = std::filesystem;

/// [offset, bytes, name, type] of objects with names, by offset.
json named_objects(const holdfast::manager& heap) {
    constexpr std::size_t most = 100'000;  // names of 50 bytes are 10 MB then
    std::vector<holdfast::object_info> found;
    for (auto each = heap.named_begin(); each != heap.named_end() && found.size() < most; ++each) {
        found.push_back(*each);
    }
    std::ranges::sort(found, {}, [](const holdfast::object_info& one) { return one.offset(); });
    json objects = json::array();
    for (const holdfast::object_info& each : found) {
        objects.push_back({each.offset(), each.length() * each.type_size(), printable(each.name()),
                           printable(each.readable_type_name())});
    }
    return objects;
}

std::string page_of(const holdfast::manager& heap) {
    space_summary space;
    map_encoder data;
    heap.for_each_extent([&](const holdfast::extent_info& extent) {
        space.add(extent);
        data.add(extent);
    });
    data.finish();
    const holdfast::heap_statistics numbers = heap.statistics();
    json header;
    header["path"] = heap.path();
    header["description"] = heap.get_description();
    header["uuid"] = heap.get_uuid();
    header["domain"] = heap.domain();
    header["state"] = numbers.recovered ? "crashed" : "clean";
    header["commit"] = {{"number", numbers.commit_sequence}, {"time", time_text(numbers.last_commit_ns)}};
    header["objects"] = named_objects(heap);
    header["segment_pages"] = numbers.segment_size / map_page_size;
    header["segments"] = numbers.segments;
    header["bytes"] = {{"apparent", numbers.apparent_bytes},
                       {"on_disk", numbers.charged_bytes},
                       {"user", numbers.user_bytes},
                       {"allocated", numbers.allocated_bytes}};
    return map_document(std::move(header), space, data);
}

/// To write a file that is part of what is drawn would destroy that.
void refuse_file_of_heap(const std::string& file, const std::string& heap) {
    const fs::path inside = fs::weakly_canonical(fs::path(heap));
    for (fs::path at = fs::weakly_canonical(fs::path(file)); at.has_relative_path(); at = at.parent_path()) {
        if (at == inside) {
            throw std::runtime_error(
                fmt::format("{}: lies in the heap or store {}; write the map elsewhere", file, heap));
        }
    }
}

void write_file(const std::string& path, std::string_view content, bool force) {
    struct closer {
        void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
    };
    std::unique_ptr<std::FILE, closer> file(std::fopen(path.c_str(), force ? "we" : "wxe"));
    if (file == nullptr && errno == EEXIST) {
        throw std::runtime_error(fmt::format("{}: exists; --force overwrites it", path));
    }
    if (file == nullptr) {
        throw std::system_error(errno, std::generic_category(), path);
    }
    bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
    int failure = written ? 0 : errno;
    if (std::fclose(file.release()) != 0 && written) {
        failure = errno;
        written = false;
    }
    if (!written) {
        // A part of a page is useless. A device, or a link, was there before.
        if (std::error_code unknown; fs::symlink_status(path, unknown).type() == fs::file_type::regular) {
            std::remove(path.c_str());
        }
        throw std::system_error(failure, std::generic_category(), path);
    }
}

}  // namespace

int map(const arguments& given, const map_arguments& output) {
    if (output.file != "-") {
        refuse_file_of_heap(output.file, given.heap);
    }
    const std::string page = !output.store.empty()  ? store_page(given.heap, output.store)
                             : is_store(given.heap) ? store_page(given.heap)
                                                    : page_of(holdfast::manager(holdfast::open_read_only, given.heap));
    if (output.file == "-") {
        std::fwrite(page.data(), 1, page.size(), stdout);
    } else {
        write_file(output.file, page, output.force);
    }
    return exit_sound;
}

}  // namespace holdfast_cli
