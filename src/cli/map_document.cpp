#include "map_document.hpp"

#include <cstddef>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "map_page.hpp"

namespace holdfast_cli {

namespace {

/// JSON for a script element: escaped so that nothing in it ends the element.
std::string embeddable(const json& object) {
    std::string text;
    for (const char c : object.dump(-1, ' ', false, json::error_handler_t::replace)) {
        if (c == '<') {
            text += "\\u003c";
        } else {
            text += c;
        }
    }
    return text;
}

}  // namespace

std::string map_document(json header, const space_summary& space, const map_encoder& data) {
    header["kind"] = "heap";
    header["slab_pages"] = slab_pages;
    header["extents"] = space.extents();
    header["kinds"] = shares_as_json(space);
    header["slab_live_bytes"] = space.live_slab_bytes();
    header["fragmentation"] = {{"external", space.external_fragmentation()}, {"slabs", space.slab_fragmentation()}};
    header["backed_exactly"] = space.backed_exactly();
    header["bytes"]["free_extents"] = space.of(space_kind::free).bytes;
    header["bytes"]["largest_free_extent"] = space.largest_free();
    return map_document(std::move(header), data);
}

std::string map_document(json header, const map_encoder& data) {
    header["page_size"] = map_page_size;
    header["classes"] = json::array();
    for (const auto& [block_size, blocks] : data.classes()) {
        header["classes"].push_back({block_size, blocks});
    }
    const std::size_t summary_at = map_page.find(map_summary_mark);
    const std::size_t data_at = map_page.find(map_data_mark, summary_at);
    std::string page(map_page.substr(0, summary_at));
    page += embeddable(header);
    page += map_page.substr(summary_at + map_summary_mark.size(), data_at - summary_at - map_summary_mark.size());
    page += base64(data.bytes());
    page += map_page.substr(data_at + map_data_mark.size());
    return page;
}

}  // namespace holdfast_cli
