#include "allocators/html_report.hpp"

#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "report_page.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

/// What the page plots.
constexpr const char* plotted[] = {"mops",     "cpu_ns", "p50_ns",      "p999_ns",
                                   "p9999_ns", "max_ns", "taken_ratio", "taken_mib"};

nlohmann::ordered_json run_as_json(const configuration& one) {
    nlohmann::ordered_json fields{{"workload", title_of(one.run)},
                                  {"backend", one.run.backend},
                                  {"durability", one.found.text("durability")},
                                  {"domain", one.found.text("domain")},
                                  {"threads", one.run.threads}};
    for (const char* const key : plotted) {
        if (one.found.has(key)) {
            const samples& values = one.found.values(key);
            fields[key] = {{"median", values.median()}, {"least", values.least()}, {"greatest", values.greatest()}};
        }
    }
    return fields;
}

/// JSON that may stand in a script element: nothing in it ends one.
std::string embeddable(const nlohmann::ordered_json& object) {
    std::string text = object.dump();
    for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
        text.replace(at, 1, "\\u003c");
    }
    return text;
}

void fill_in(std::string& page, std::string_view mark, std::string_view text) {
    page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

void write_html_report(const std::filesystem::path& file, const std::vector<configuration>& all, const report& judged,
                       const common_options& options) {
    nlohmann::ordered_json data{{"environment", describe_environment(options.directory)},
                                {"rounds", options.rounds},
                                {"seed", options.seed},
                                {"smoke", options.smoke},
                                {"goals", judged.goals()},
                                {"runs", nlohmann::ordered_json::array()}};
    for (const configuration& one : all) {
        if (one.found.has("mops")) {
            data["runs"].push_back(run_as_json(one));
        }
    }
    std::string page(report_page);
    fill_in(page, "%plot-license%", plot_license);
    fill_in(page, "%plot-style%", plot_style);
    fill_in(page, "%plot-script%", plot_script);
    fill_in(page, "%data%", embeddable(data));
    std::ofstream out(file, std::ios::binary);
    out << page;
    out.close();
    if (!out) {
        throw std::system_error(errno, std::generic_category(), file.string());
    }
}

}  // namespace bench
