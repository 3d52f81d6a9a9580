#include "flush_trace/plot.hpp"

#include <array>

#include <fmt/format.h>

namespace holdfast::flush_trace {

namespace {

struct band {
    heap_part part;
    const char* name;
};
constexpr std::array<band, 3> bands{
    {{heap_part::user, "user space (destinations)"}, {heap_part::metadata, "metadata"}, {heap_part::lanes, "lanes"}}};
struct style {
    write_kind kind;
    const char* name;
    const char* colour;
};
constexpr std::array<style, 3> styles{{{write_kind::record, "record of a call (64 bytes, non-temporal)", "#1f77b4"},
                                       {write_kind::write_back, "line written back by a checkpoint", "#d62728"},
                                       {write_kind::other, "time of a checkpoint", "#2ca02c"}}};

constexpr int panel_width = 500;
constexpr int band_height = 110;
constexpr int band_step = band_height + 14;
constexpr int left = 20;
constexpr int top = 52;
constexpr int panel_step = panel_width + 30;

/// One element for all points of a kind: a short stroke each.
std::string draw_points(const traced_heap& heap, const std::vector<media_write>& writes, const plot_panel& panel,
                        int panel_left, const style& of) {
    std::string path;
    for (std::size_t i = panel.first; i < panel.last; ++i) {
        if (writes[i].kind != of.kind) {
            continue;
        }
        const place where = heap.place_of(writes[i]);
        const double x = panel_left + static_cast<double>(i - panel.first) * panel_width /
                                          static_cast<double>(panel.last - panel.first);
        int band_top = top;
        for (const band& one : bands) {
            if (one.part == where.part) {
                break;
            }
            band_top += band_step;
        }
        const double share = static_cast<double>(where.offset) / static_cast<double>(heap.extent_of(where.part));
        path += fmt::format("M{:.1f} {:.1f}h1", x, band_top + band_height * (1 - share));
    }
    return path.empty() ? path : fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", path, of.colour);
}

std::string draw_panel(const traced_heap& heap, const std::vector<media_write>& writes, const plot_panel& panel,
                       int panel_left) {
    std::string text =
        fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"12\">{}</text>\n", panel_left, top - 16, panel.title);
    int band_top = top;
    for (const band& one : bands) {
        text += fmt::format(
            "<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"#f7f7f7\" stroke=\"#999\"/>\n"
            "<text x=\"{4}\" y=\"{5}\" fill=\"#666\">{6}, {7:.1f} MiB</text>\n",
            panel_left, band_top, panel_width, band_height, panel_left + 4, band_top + 11, one.name,
            static_cast<double>(heap.extent_of(one.part)) / base::mebibyte);
        band_top += band_step;
    }
    for (const style& one : styles) {
        text += draw_points(heap, writes, panel, panel_left, one);
    }
    text +=
        fmt::format("<text x=\"{}\" y=\"{}\">write {}</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                    panel_left, band_top, panel.first + 1, panel_left + panel_width, band_top, panel.last);
    return text;
}

}  // namespace

std::string draw_trace(const traced_heap& heap, const std::vector<media_write>& writes,
                       const std::vector<plot_panel>& panels) {
    const int width = 2 * left + panel_step * static_cast<int>(panels.size()) - (panel_step - panel_width);
    const int height = top + band_step * static_cast<int>(bands.size()) + 12;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
        width, height);
    int legend_left = left;
    for (const style& one : styles) {
        text +=
            fmt::format("<text x=\"{}\" y=\"16\" fill=\"{}\">&#9632; {}</text>\n", legend_left, one.colour, one.name);
        legend_left += 240;
    }
    int panel_left = left;
    for (const plot_panel& panel : panels) {
        text += draw_panel(heap, writes, panel, panel_left);
        panel_left += panel_step;
    }
    return text + "</svg>\n";
}

std::string list_trace(const traced_heap& heap, const std::vector<media_write>& writes) {
    constexpr std::array<const char*, 3> kinds{"record", "write_back", "other"};
    constexpr std::array<const char*, 3> parts{"lanes", "metadata", "user"};
    std::string text = "number,kind,part,offset\n";
    for (std::size_t i = 0; i < writes.size(); ++i) {
        const place where = heap.place_of(writes[i]);
        text += fmt::format("{},{},{},{}\n", i + 1, kinds.at(static_cast<std::size_t>(writes[i].kind)),
                            parts.at(static_cast<std::size_t>(where.part)), where.offset);
    }
    return text;
}

}  // namespace holdfast::flush_trace
